/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __aarch64__

#include "remote/errno_code.h"

#include <stddef.h>
#include <string.h>

#include "proc/process.h"

/*
 * The instructions of the function, in any order and with any registers (Arm Architecture Reference
 * Manual, C6.2): it adds a constant, or a value that the dynamic linker has stored, to the thread
 * pointer.
 */
#define CODE_BYTES     4U
#define REGISTER_MASK  0xffffffe0U
#define READ_POINTER   0xd53bd040U /* mrs x, tpidr_el0 */
#define ADRP_MASK      0x9f000000U
#define ADRP	       0x90000000U
#define IMMEDIATE_MASK 0xffc00000U
#define LOAD_SLOT      0xf9400000U /* ldr x, [x, #offset] */
#define ADD_NUMBER     0x91000000U
#define ADD_SHIFTED    0x91400000U
#define SUB_NUMBER     0xd1000000U
#define ADD_MASK       0xffe0fc00U
#define ADD_REGISTERS  0x8b000000U
#define MOVE_MASK      0xff800000U
#define MOVE_ZEROS     0xd2800000U
#define MOVE_KEEPING   0xf2800000U
#define HINT_MASK      0xfffff01fU
#define HINT	       0xd503201fU /* bti, nop */
#define RETURN	       0xd65f03c0U
#define ZERO_REGISTER  31U

/* The value of a register: a number, or an offset from the thread pointer. */
struct code_value {
	bool known, of_pointer;
	uint64_t number;
};

struct register_values {
	const struct flmem_process *process;
	struct code_value registers[ZERO_REGISTER + 1];
};

static void compute_page(struct code_value *out, uint64_t address, uint32_t code)
{
	uint64_t pages = ((uint64_t)(code >> 5 & 0x7ffffU) << 2) | (code >> 29 & 3U);

	pages = (pages ^ UINT64_C(0x100000)) - UINT64_C(0x100000); /* 21 bits, signed */
	*out = (struct code_value){.known = true, .number = ((address >> 12) + pages) << 12};
}

static void load_slot(const struct flmem_process *process, struct code_value *out,
		      struct code_value from, uint64_t offset)
{
	*out = (struct code_value){.known = from.known && !from.of_pointer};
	if (out->known)
		out->known = !flmem_process_read_memory(process, from.number + offset, &out->number,
							sizeof(out->number));
}

static void add_values(struct code_value *out, struct code_value left, struct code_value right)
{
	*out = (struct code_value){
		.known = left.known && right.known && !(left.of_pointer && right.of_pointer),
		.of_pointer = left.of_pointer || right.of_pointer,
		.number = left.number + right.number,
	};
}

/* Sets 16 bits of a register and clears or keeps the others; used in static programs. */
static void move_bits(struct code_value *out, uint32_t code)
{
	const unsigned shift = (code >> 21 & 3U) * 16;
	const uint64_t bits = (uint64_t)(code >> 5 & 0xffffU) << shift;

	if ((code & MOVE_MASK) == MOVE_ZEROS)
		*out = (struct code_value){.known = true, .number = bits};
	else
		out->number = (out->number & ~(UINT64_C(0xffff) << shift)) | bits;
}

/* Executes an instruction; false for one that the function does not have. */
static bool execute_code(struct register_values *values, uint64_t address, uint32_t code)
{
	struct code_value *out = &values->registers[code & 31U];
	struct code_value from = values->registers[code >> 5 & 31U];
	uint64_t immediate = code >> 10 & 0xfffU;

	if ((code & HINT_MASK) == HINT)
		return true;
	if ((code & REGISTER_MASK) == READ_POINTER)
		*out = (struct code_value){.known = true, .of_pointer = true};
	else if ((code & ADRP_MASK) == ADRP)
		compute_page(out, address, code);
	else if ((code & IMMEDIATE_MASK) == LOAD_SLOT)
		load_slot(values->process, out, from, immediate * sizeof(uint64_t));
	else if ((code & IMMEDIATE_MASK) == ADD_NUMBER)
		add_values(out, from, (struct code_value){.known = true, .number = immediate});
	else if ((code & IMMEDIATE_MASK) == ADD_SHIFTED)
		add_values(out, from,
			   (struct code_value){.known = true, .number = immediate << 12});
	else if ((code & IMMEDIATE_MASK) == SUB_NUMBER)
		add_values(out, from, (struct code_value){.known = true, .number = -immediate});
	else if ((code & MOVE_MASK) == MOVE_ZEROS || (code & MOVE_MASK) == MOVE_KEEPING)
		move_bits(out, code);
	else if ((code & ADD_MASK) == ADD_REGISTERS)
		add_values(out, from, values->registers[code >> 16 & 31U]);
	else
		return false;
	values->registers[ZERO_REGISTER] =
		(struct code_value){0}; /* register 31, zero or the stack: has no value here */
	return true;
}

bool flmem_errno_decode(const struct flmem_process *process, uint64_t function,
			const unsigned char *bytes, int64_t *ret_distance)
{
	struct register_values values = {.process = process};
	const struct code_value *result = &values.registers[0];

	for (size_t at = 0; at + CODE_BYTES <= FLMEM_ERRNO_CODE_BYTES; at += CODE_BYTES) {
		uint32_t code;

		memcpy(&code, bytes + at, sizeof(code));
		if (code == RETURN) {
			*ret_distance = (int64_t)result->number;
			return result->known && result->of_pointer;
		}
		if (!execute_code(&values, function + at, code))
			return false;
	}
	return false;
}

#else
typedef int flmem_errno_code_aarch64_unused;
#endif
