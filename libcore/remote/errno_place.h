/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_ERRNO_PLACE_H
#define FLMEM_REMOTE_ERRNO_PLACE_H

/*
 * Saves and restores the errno of a thread. A call that a borrowed thread makes may set it
 * (malloc_trim() does where memory is locked: madvise() fails). The thread's own wait succeeds and
 * does not set errno, so a program that reads errno after getline() would see an error.
 */

#include <stdbool.h>
#include <stdint.h>

#include "elf/view.h"

struct flmem_errno_place {
	bool known;
	int64_t distance; /* distance from the thread pointer */
};

struct flmem_errno_value {
	bool known;
	uint64_t address;
	int value;
};

/*
 * Finds the place of errno, from the machine code of __errno_location(); unknown if the function is
 * missing or has another form.
 */
struct flmem_errno_place flmem_errno_find(const struct flmem_view *view);

/* Reads the errno of the thread with this thread pointer, which must not run. */
struct flmem_errno_value flmem_errno_read(const struct flmem_process *process,
					  const struct flmem_errno_place *place,
					  uint64_t thread_pointer);

/* Writes the saved value back if errno has changed. */
void flmem_errno_restore(const struct flmem_process *process,
			 const struct flmem_errno_value *before);

#endif
