/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_PADDING_H
#define FLMEM_RUNTIMES_CPYTHON_PADDING_H

/*
 * Finds a place in a process for a text that has to outlive the call that passes it: the end of the
 * last page after the data of a library or the program. It is mapped, no symbol refers to it, and
 * it is zero or, where a library has no .bss, has the next bytes of its file, which are never read
 * there. Nothing has to be mapped and nothing remains mapped. What a killed caller leaves there is
 * read only by the next caller, which reuses the place once the text is used up.
 */

#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "elf/view.h"

/* Largest size that can be requested. */
#define FLMEM_PADDING_MAX 4096U

/* Header that a user of the place writes at its start. */
struct flmem_padding_head {
	unsigned char magic[8];
	uint64_t length; /* total length, including the head */
	uint64_t done;	 /* not 0: the text has been used up */
};

extern const unsigned char flmem_padding_magic[8];

/*
 * Finds a place of `length` bytes, including the head. FLMEM_EUNSAFE if no library of the process
 * has that much free now; a place counts as used if it is neither as loaded, nor zero, nor used up.
 * One that is used up is taken only if there is no other.
 */
int flmem_padding_find(const struct flmem_view *view, size_t length, uint64_t *ret_address,
		       struct flmem_error *err);

#endif
