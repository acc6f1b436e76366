/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_CALL_PLAN_H
#define FLMEM_ALLOCATORS_CALL_PLAN_H

/* Shared by the trim plans of several allocators. */

#include "allocators/allocator.h"

/*
 * Run-time address of a function of the allocator, `name` without its prefix. FLMEM_EUNSUPPORTED
 * when its build has no symbol of that name.
 */
int flmem_call_plan_function(const struct flmem_allocator *found, const char *name,
			     uint64_t *ret_address, struct flmem_error *err);

/*
 * Appends one call of such a function with one argument; its name is the step's name. Error codes
 * as above.
 */
int flmem_call_plan_call(const struct flmem_allocator *found, const char *name, uint64_t argument,
			 struct flmem_chain *chain, struct flmem_error *err);

/* FLMEM_EUNSUPPORTED: the program has set `hook`, which the calls would run. */
int flmem_call_plan_refuse_hook(const struct flmem_view *view, const struct flmem_allocator *found,
				const char *hook, struct flmem_error *err);

/* FLMEM_EUNSAFE: the memory that shows whether the program has set `hook` cannot be read. */
int flmem_call_plan_refuse_unread(const struct flmem_view *view,
				  const struct flmem_allocator *found, const char *hook,
				  struct flmem_error *err);

/*
 * True if the kernel counts memory that is registered with a device (VmPin), or the count is
 * unknown.
 */
bool flmem_call_plan_has_registered(const struct flmem_view *view);

/*
 * FLMEM_EUNSUPPORTED for such a process. Libraries for fast networks keep blocks registered after
 * they are freed, for the next block at that address, and set the allocator to keep all memory
 * (`how`): the device would use the old pages of what a trim releases.
 */
int flmem_call_plan_refuse_registered(const struct flmem_view *view, const char *how,
				      struct flmem_error *err);

/* Whether this build has a symbol for the function that reports its state. */
bool flmem_call_plan_can_answer(const struct flmem_view *view, const struct flmem_allocator *found);

/* Initial value of a place: no call has written to it. */
#define FLMEM_NO_ANSWER UINT64_MAX

/*
 * For allocators with one call per number, by name: reserves places for `count` numbers in the
 * chain's data. A call with an unknown name does not write to its place.
 */
uint64_t flmem_call_plan_answers(struct flmem_chain *chain, size_t count);

/* The number at `index` of such a place; unknown for the reason when it was not written. */
struct flmem_u64 flmem_call_plan_answer(const unsigned char *answers, size_t index,
					const char *why_not);

#endif
