/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TARGET_QUERY_H
#define FLMEM_OPS_TARGET_QUERY_H

/*
 * Queries allocators whose state cannot be read from outside: a borrowed thread calls their
 * statistics functions and returns the numbers through its stack. The calls change nothing in the
 * allocator.
 */

#include <flmem/process_report.h>

#include "allocators/allocator.h"
#include "remote/borrow.h"

/*
 * Returns why the heap is not read from outside (static); NULL: it is read. `answers`: a query can
 * return its state.
 */
const char *flmem_query_why_closed(const struct flmem_allocator *found, bool answers);

/*
 * Queries one allocator. `guard` and the timeout in `options` are those of a trim. Returns the
 * codes of flmem_borrow_run(); adds the time for which the borrowed thread was stopped to `asked`,
 * and whether it still makes the calls.
 */
int flmem_query_allocator(const struct flmem_view *view, const struct flmem_allocator *found,
			  const struct flmem_borrow_options *options,
			  struct flmem_heap_report *ret_heap, struct flmem_query_report *asked,
			  struct flmem_error *err);

/*
 * Returns true if calls of a query may still run on a thread of the process: then no more may be
 * made. They may wait for a lock, and each further call would block one more thread of the program.
 */
bool flmem_query_must_end(const struct flmem_query_report *asked);

/* Notes the reason why a query failed. */
void flmem_query_set_failure(struct flmem_query_report *asked, int code,
			     const struct flmem_error *err);

/*
 * Queries all allocators of the process that can be queried; uses the timeout and assume_seccomp of
 * `how`. `reports` are in the order of the list. If a query fails, *ret_asked holds the reason and
 * the figures stay unknown.
 */
void flmem_query_all(const struct flmem_view *view, const struct flmem_allocator_list *list,
		     const struct flmem_borrow_options *how, struct flmem_allocator_report *reports,
		     struct flmem_query_report *ret_asked);

#endif
