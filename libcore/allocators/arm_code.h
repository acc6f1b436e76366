/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_ARM_CODE_H
#define FLMEM_ALLOCATORS_ARM_CODE_H

/* Which static variable a function of an allocator uses, from its machine code for aarch64. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum flmem_arm_use {
	FLMEM_ARM_LOAD,	 /* the function's first 64-bit load of a variable */
	FLMEM_ARM_STORE, /* the function's first store of its first argument */
	/* The first variable whose address the function passes as a first argument. */
	FLMEM_ARM_ARGUMENT,
};

/*
 * Finds the address of the variable, in the same address space as `at`, the address of the first
 * instruction. Decodes the instructions in order up to the first jump, and skips calls. Returns
 * false if there is no such use of a variable whose address follows from the code.
 */
bool flmem_arm_code_variable(const unsigned char *code, size_t bytes, uint64_t at,
			     enum flmem_arm_use use, uint64_t *ret_address);

#endif
