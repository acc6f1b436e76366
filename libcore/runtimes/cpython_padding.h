/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_PADDING_H
#define FLMEM_RUNTIMES_CPYTHON_PADDING_H

/*
 * A place in a process for a text that has to outlive the call that names it: the end of the last
 * page behind the data of a library or the program. It is mapped, no name reaches it, and it is
 * zero or, where a library has no .bss, holds what follows in its file, which nobody reads there.
 * Nothing has to be mapped and nothing remains mapped; what is left there by a caller that dies is
 * never looked at, but by the next caller, who takes the place over once the text has been used up.
 */

#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "elf/view.h"

/* Room that is asked for must not be more than this. */
#define FLMEM_PADDING_MAX 4096U

/* What a user of the place puts at its beginning. */
struct flmem_padding_head {
	unsigned char magic[8];
	uint64_t length; /* of all, with the head */
	uint64_t done;	 /* not 0: the text has been used up */
};

extern const unsigned char flmem_padding_magic[8];

/*
 * `length` with the head. FLMEM_EUNSAFE when no library of the process has so much now; what is
 * neither as it was loaded, nor zero, nor used up is in use.
 */
int flmem_padding_find(const struct flmem_view *view, size_t length, uint64_t *ret_address,
		       struct flmem_error *err);

#endif
