/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TARGET_TARGET_HOOKS_H
#define FLMEM_OPS_TARGET_TARGET_HOOKS_H

/*
 * Functions that a program gives its allocator (hooks). A call of the allocator would run them on
 * the borrowed thread, which waits somewhere in the program and may hold any lock of it.
 */

#include "allocators/allocator.h"
#include "remote/borrow.h"
#include "runtimes/cpython_call.h"

/*
 * FLMEM_EUNSUPPORTED if the program has set a hook of this allocator of the list, with its name, or
 * if the allocator may call a malloc() that is not known; else the codes
 * of flmem_borrow_run(). Some hooks only calls can show: `options` are for these, NULL: only read
 * from outside. Adds the time for which the borrowed thread was stopped to *stopped_us.
 */
int flmem_target_hooks_check(const struct flmem_view *view, const struct flmem_allocator_list *list,
			     const struct flmem_allocator *found,
			     const struct flmem_borrow_options *options, uint64_t *stopped_us,
			     struct flmem_error *err);

/* The same for every allocator that a trim calls. */
int flmem_target_hooks_check_all(const struct flmem_view *view,
				 const struct flmem_allocator_list *list,
				 const struct flmem_borrow_options *options, uint64_t *stopped_us,
				 struct flmem_error *err);

/*
 * The same before a borrowed thread starts another one, for which it allocates (glibc's
 * _dl_allocate_tls()); `call` is what runs in that thread. 0 also if no thread can be borrowed,
 * since none is started then.
 */
int flmem_target_hooks_check_start(const struct flmem_view *view,
				   const struct flmem_allocator_list *list,
				   const struct flmem_cpython_call *call, uint64_t *stopped_us,
				   struct flmem_error *err);

/*
 * What flmem_target_guard_check() and flmem_target_hooks_check_all() read from outside, with the
 * mappings of now: what the program may have changed while flmem searched for a thread. It makes
 * no calls. Renews the guard: there may be new arenas.
 */
int flmem_target_hooks_recheck(const struct flmem_view *view,
			       const struct flmem_allocator_list *list, struct flmem_guard *guard,
			       struct flmem_error *err);

/* The same where that thread starts another one; the context of the call is one of these. */
struct flmem_target_start {
	const struct flmem_view *view;
	const struct flmem_allocator_list *list;
	struct flmem_guard *guard;
};

int flmem_target_hooks_recheck_start(void *context, struct flmem_error *err);

#endif
