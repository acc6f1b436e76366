/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/arm_code.h"

#include <string.h>

#define CODE_BYTES     4U
#define REGISTERS      32U /* register 31 is the stack pointer or zero: never known */
#define CALL_CLOBBERED 19U /* x0 to x18 (AAPCS64) */
#define LINK	       30U

/* The registers whose contents follow from the code alone. */
struct arm_registers {
	bool known[REGISTERS];
	uint64_t values[REGISTERS];
};

static unsigned first_operand(uint32_t code)
{
	return code >> 5 & 31;
}

static void set_arm_register(struct arm_registers *registers, unsigned number, bool known,
			     uint64_t value)
{
	registers->known[number] = known && number != REGISTERS - 1;
	registers->values[number] = value;
}

/* Address that adrp or adr computes: 21 signed bits, in pages or bytes. */
static uint64_t relative_address(uint32_t code, uint64_t at)
{
	int64_t distance = (int64_t)((code >> 5 & 0x7ffff) << 2 | (code >> 29 & 3));

	if (distance & INT64_C(0x100000))
		distance -= INT64_C(0x200000);
	if (code >> 31)
		return (at & ~UINT64_C(0xfff)) + ((uint64_t)distance << 12);
	return at + (uint64_t)distance;
}

/*
 * Forgets the registers that these two fields of an instruction name. Some instructions do not
 * write them, but any may.
 */
static void forget_results(struct arm_registers *registers, uint32_t code)
{
	registers->known[code & 31] = false;
	/* A load or store of a pair, or one that moves its base register. */
	if ((code & 0x0a000000) == 0x08000000) {
		registers->known[code >> 10 & 31] = false;
		registers->known[first_operand(code)] = false;
	}
}

static bool is_register_branch(uint32_t code)
{
	return (code & 0xfe000000) == 0xd6000000;
}

/* True for bl, blr, and blr with a signed address. */
static bool is_arm_call(uint32_t code)
{
	return (code & 0xfc000000) == 0x94000000 ||
	       (is_register_branch(code) && (code >> 21 & 7) == 1);
}

/* True for b, br, ret, and the conditional branches. */
static bool is_arm_jump(uint32_t code)
{
	return (code & 0xfc000000) == 0x14000000 || (code & 0xff000000) == 0x54000000 ||
	       (code & 0x7c000000) == 0x34000000 ||
	       (is_register_branch(code) && !is_arm_call(code));
}

static void follow_arm_code(struct arm_registers *registers, uint32_t code, uint64_t at)
{
	unsigned to = code & 31, from = first_operand(code);
	uint64_t immediate = (code >> 10 & 0xfff) << (code >> 22 & 1 ? 12 : 0);

	if ((code & 0x1f000000) == 0x10000000) { /* adr, adrp */
		set_arm_register(registers, to, true, relative_address(code, at));
	} else if ((code & 0xff800000) == 0x91000000) { /* add to, from, #immediate */
		set_arm_register(registers, to, registers->known[from],
				 registers->values[from] + immediate);
	} else if ((code & 0xffe0ffe0) == 0xaa0003e0) { /* mov to, from */
		from = code >> 16 & 31;
		set_arm_register(registers, to, registers->known[from], registers->values[from]);
	} else if (is_arm_call(code)) {
		memset(registers->known, 0, CALL_CLOBBERED * sizeof(*registers->known));
		registers->known[LINK] = false;
	} else {
		forget_results(registers, code);
	}
}

/*
 * Reports whether this instruction is the requested use of a variable; sets *ret_address to the
 * variable's address.
 */
static bool uses_variable(const struct arm_registers *registers, uint32_t code,
			  enum flmem_arm_use use, uint64_t *ret_address)
{
	unsigned base = first_operand(code);
	uint64_t offset = (code >> 10 & 0xfff) * 8;

	if (use == FLMEM_ARM_ARGUMENT) { /* bl, b */
		*ret_address = registers->values[0];
		return (code & 0x7c000000) == 0x14000000 && registers->known[0];
	}
	*ret_address = registers->values[base] + offset;
	if (use == FLMEM_ARM_LOAD) /* ldr to, [base, #offset] */
		return (code & 0xffc00000) == 0xf9400000 && registers->known[base];
	return (code & 0xffc0001f) == 0xf9000000 && registers->known[base];
}

bool flmem_arm_code_variable(const unsigned char *code, size_t bytes, uint64_t at,
			     enum flmem_arm_use use, uint64_t *ret_address)
{
	struct arm_registers registers = {0};
	uint32_t word;

	for (size_t i = 0; i + CODE_BYTES <= bytes; i += CODE_BYTES) {
		memcpy(&word, code + i, sizeof(word));
		if (uses_variable(&registers, word, use, ret_address))
			return true;
		if (is_arm_jump(word))
			return false;
		follow_arm_code(&registers, word, at + i);
	}
	return false;
}
