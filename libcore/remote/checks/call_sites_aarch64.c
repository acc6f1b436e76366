/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __aarch64__

#include "remote/checks/call_sites.h"

#include <stdbool.h>
#include <stddef.h>

#include "proc/process.h"

/*
 * Instructions: Arm Architecture Reference Manual, C6.2; each mask keeps the bits that all forms
 * share.
 */
#define CODE_BYTES	 4U
#define BL_MASK		 0xfc000000U
#define BL		 0x94000000U
#define BLR_MASK	 0xfffffc1fU
#define BLR		 0xd63f0000U
#define BLR_SIGNED_MASK	 0xfefff800U /* BLRAA, BLRAB, BLRAAZ, BLRABZ */
#define BLR_SIGNED	 0xd63f0800U
#define BTI_C		 0xd503245fU
#define ADRP_X16_MASK	 0x9f00001fU
#define ADRP_X16	 0x90000010U
#define LDR_X17_X16_MASK 0xffc003ffU
#define LDR_X17_X16	 0xf9400211U
#define STUB_CODES	 3U
#define PAGE_BITS	 12U

/* Returns `count` bits of an instruction as a signed number. */
static int64_t signed_bits(uint32_t code, unsigned from, unsigned count)
{
	uint64_t bits = code >> from & ((UINT32_C(1) << count) - 1);
	uint64_t sign = UINT64_C(1) << (count - 1);

	return (int64_t)(bits ^ sign) - (int64_t)sign;
}

static uint64_t page_of_adrp(uint64_t address, uint32_t code)
{
	uint64_t pages = (uint64_t)(signed_bits(code, 5, 19) * 4) + (code >> 29 & 3U);

	return ((address >> PAGE_BITS) + pages) << PAGE_BITS;
}

/*
 * Reads a stub: `adrp x16; ldr x17, [x16, #slot]`, with or without `bti c` in front (AArch64 psABI,
 * PLT).
 */
static bool read_arm_stub(const struct flmem_process *process, uint64_t address,
			  uint64_t *ret_target)
{
	uint32_t code[STUB_CODES];
	const uint32_t *at = code;

	if (flmem_process_read_memory(process, address, code, sizeof(code)))
		return false;
	if (*at == BTI_C) {
		at++;
		address += CODE_BYTES;
	}
	if ((at[0] & ADRP_X16_MASK) != ADRP_X16 || (at[1] & LDR_X17_X16_MASK) != LDR_X17_X16)
		return false;
	address = page_of_adrp(address, at[0]) + (at[1] >> 10 & 0xfffU) * sizeof(*ret_target);
	return flmem_process_read_memory(process, address, ret_target, sizeof(*ret_target)) == 0;
}

enum flmem_call_kind flmem_call_before(const struct flmem_process *process, uint64_t address,
				       uint64_t *ret_target)
{
	const uint64_t at = address - CODE_BYTES;
	uint32_t code;

	if (address < CODE_BYTES || address % CODE_BYTES ||
	    flmem_process_read_memory(process, at, &code, sizeof(code)))
		return FLMEM_CALL_NONE;
	if ((code & BLR_MASK) == BLR || (code & BLR_SIGNED_MASK) == BLR_SIGNED)
		return FLMEM_CALL_INDIRECT;
	if ((code & BL_MASK) != BL)
		return FLMEM_CALL_NONE;
	return read_arm_stub(process, at + (uint64_t)(signed_bits(code, 0, 26) * CODE_BYTES),
			     ret_target)
		       ? FLMEM_CALL_STUB
		       : FLMEM_CALL_DIRECT;
}

#else
typedef int flmem_call_sites_aarch64_unused;
#endif
