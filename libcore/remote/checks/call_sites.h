/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHECKS_CALL_SITES_H
#define FLMEM_REMOTE_CHECKS_CALL_SITES_H

/*
 * Recognises calls in the machine code of a target; one file for each processor. If a library has a
 * frame on the stack of a thread that waits elsewhere, it has made a call that leaves the library.
 * So a word on the stack that follows any other instruction is a leftover value, not a frame.
 */

#include <stdint.h>

struct flmem_process;

enum flmem_call_kind {
	FLMEM_CALL_NONE,     /* not a call */
	FLMEM_CALL_DIRECT,   /* a direct call of a function of the same library */
	FLMEM_CALL_STUB,     /* a direct call of a stub of the dynamic linker (PLT) */
	FLMEM_CALL_INDIRECT, /* a call through a pointer */
};

/*
 * Decodes the call that ends before `address`, a value from a stack of the process. *ret_target is
 * the function that a stub calls: a library may call its own exported functions through stubs.
 */
enum flmem_call_kind flmem_call_before(const struct flmem_process *process, uint64_t address,
				       uint64_t *ret_target);

#endif
