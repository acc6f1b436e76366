/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TARGET_TARGET_HOOKS_H
#define FLMEM_OPS_TARGET_TARGET_HOOKS_H

/*
 * Finds functions that a program gives its allocator (hooks). A call of the allocator would run
 * them on the borrowed thread, which is blocked somewhere in the program and may hold any lock of
 * it.
 */

#include "allocators/allocator.h"
#include "remote/borrow.h"
#include "runtimes/cpython_call.h"

/*
 * FLMEM_EUNSUPPORTED if the program has set a hook of this allocator of the list, with the hook's
 * name, or if the allocator may call an unknown malloc(); else the codes of flmem_borrow_run().
 * Some hooks are found only by calls: `options` are for these; NULL: only read from outside. Adds
 * the time for which the borrowed thread was stopped to *stopped_us.
 */
int flmem_target_hooks_check(const struct flmem_view *view, const struct flmem_allocator_list *list,
			     const struct flmem_allocator *found,
			     const struct flmem_borrow_options *options, uint64_t *stopped_us,
			     struct flmem_error *err);

/* Makes these checks for every allocator that a trim calls. */
int flmem_target_hooks_check_all(const struct flmem_view *view,
				 const struct flmem_allocator_list *list,
				 const struct flmem_borrow_options *options, uint64_t *stopped_us,
				 struct flmem_error *err);

/*
 * Makes these checks before a borrowed thread starts another one, for which it allocates (glibc's
 * _dl_allocate_tls()); `call` is what runs in the new thread. Also returns 0 if no thread can be
 * borrowed, since none is started then.
 */
int flmem_target_hooks_check_start(const struct flmem_view *view,
				   const struct flmem_allocator_list *list,
				   const struct flmem_cpython_call *call, uint64_t *stopped_us,
				   struct flmem_error *err);

/*
 * Repeats the reads of flmem_target_guard_check() and flmem_target_hooks_check_all() from outside,
 * with the current mappings: the program may have changed them while flmem searched for a thread.
 * Makes no calls. Renews the guard: there may be new arenas.
 */
int flmem_target_hooks_recheck(const struct flmem_view *view,
			       const struct flmem_allocator_list *list, struct flmem_guard *guard,
			       struct flmem_error *err);

/*
 * Context of flmem_target_hooks_recheck_start(), which does the same if the borrowed thread starts
 * another one.
 */
struct flmem_target_start {
	const struct flmem_view *view;
	const struct flmem_allocator_list *list;
	struct flmem_guard *guard;
};

int flmem_target_hooks_recheck_start(void *context, struct flmem_error *err);

#endif
