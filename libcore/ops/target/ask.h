/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TARGET_ASK_H
#define FLMEM_OPS_TARGET_ASK_H

/*
 * Lets allocators tell their state that nobody can read from outside: calls of their own, made by a
 * borrowed thread, whose numbers come back through its stack. Nothing changes in the allocator.
 */

#include <flmem/detect.h>

#include "allocators/allocator.h"
#include "remote/borrow.h"

/* True for an allocator of the process that can be asked and is of interest. */
bool flmem_ask_is_worth(const struct flmem_allocator *found);

/*
 * Why its heap is not read from outside (static); NULL: it is. `answers`: it can be made to tell
 * its state.
 */
const char *flmem_ask_why_closed(const struct flmem_allocator *found, bool answers);

/*
 * Asks one allocator. `guard` and the timeout in `options` are those of a trim. The codes are those
 * of flmem_borrow_run(); *ret_stopped_us grows by the time that the borrowed thread stood still.
 */
int flmem_ask_allocator(const struct flmem_view *view, const struct flmem_allocator *found,
			const struct flmem_borrow_options *options,
			struct flmem_heap_report *ret_heap, struct flmem_asked *asked,
			struct flmem_error *err);

/*
 * Asks all allocators of the process that can be asked; of `how` the timeout and
 * assume_seccomp count. `reports` are in the order of the list.
 * Where it fails, *ret_asked says why and the figures stay unknown.
 */
void flmem_ask_all(const struct flmem_view *view, const struct flmem_allocator_list *list,
		   const struct flmem_detect_options *how, struct flmem_allocator_report *reports,
		   struct flmem_asked *ret_asked);

#endif
