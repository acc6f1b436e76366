/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_SAMPLER_UNWIND_H
#define FLMEM_PRELOAD_SAMPLER_UNWIND_H

/*
 * Describes how to get from a frame to its caller's, by .eh_frame (DWARF 5, 6.4; LSB 5, 10.6). Only
 * the forms are supported that compilers emit for functions on x86-64, where the return address is
 * below the CFA.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sampler_unwind {
	SAMPLER_UNWIND_UNKNOWN,
	SAMPLER_UNWIND_SP,  /* the CFA is the stack pointer plus `cfa_offset` */
	SAMPLER_UNWIND_BP,  /* the CFA is the frame pointer plus `cfa_offset` */
	SAMPLER_UNWIND_END, /* the frame has no caller */
};

struct sampler_rule {
	uint32_t how; /* enum sampler_unwind */
	int32_t cfa_offset;
	int32_t bp_offset; /* offset of the saved frame pointer from the CFA; 0: it is unchanged */
};

/* These are bytes that were read, and their address in memory. */
struct sampler_cfi {
	const uint8_t *bytes;
	size_t size;
	uintptr_t address;
};

/* This is the range of a function, or of one of the parts into which the compiler has split it. */
struct sampler_code_range {
	uintptr_t start;
	size_t size;
};

/*
 * Executes the instructions up to `pc` and makes its rule. `cie` and `fde` begin after the length
 * and the ID or the pointer of their entries and end with them. Returns false where they are not of
 * that kind, are inconsistent, or do not have the address.
 */
__attribute__((visibility("hidden"))) bool sampler_cfi_run(const struct sampler_cfi *cie,
							   const struct sampler_cfi *fde,
							   uintptr_t pc,
							   struct sampler_rule *ret_rule);

/* Finds the code range that `fde` describes. Returns false as above. */
__attribute__((visibility("hidden"))) bool sampler_cfi_range(const struct sampler_cfi *cie,
							     const struct sampler_cfi *fde,
							     uintptr_t pc,
							     struct sampler_code_range *ret_range);

#endif
