/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_CALL_PLAN_H
#define FLMEM_ALLOCATORS_CALL_PLAN_H

/* Helpers shared by the trim plans of several allocators. */

#include "allocators/allocator.h"

/*
 * Finds the run-time address of a function of the allocator; `name` is without the prefix.
 * FLMEM_EUNSUPPORTED when this build has no symbol of that name.
 */
int flmem_call_plan_function(const struct flmem_allocator *found, const char *name,
			     uint64_t *ret_address, struct flmem_error *err);

/*
 * Appends a call of such a function with one argument; `name` is also the step's name. Errors as
 * for flmem_call_plan_function().
 */
int flmem_call_plan_call(const struct flmem_allocator *found, const char *name, uint64_t argument,
			 struct flmem_chain *chain, struct flmem_error *err);

/* Sets FLMEM_EUNSUPPORTED: the program has set `hook`, which the calls would run. */
int flmem_call_plan_refuse_hook(const struct flmem_view *view, const struct flmem_allocator *found,
				const char *hook, struct flmem_error *err);

/* Sets FLMEM_EUNSAFE: the memory that shows whether the program has set `hook` cannot be read. */
int flmem_call_plan_refuse_unread(const struct flmem_view *view,
				  const struct flmem_allocator *found, const char *hook,
				  struct flmem_error *err);

/*
 * True if the kernel counts memory that is registered with a device (VmPin), or the count is
 * unknown.
 */
bool flmem_call_plan_has_registered(const struct flmem_view *view);

/*
 * Sets FLMEM_EUNSUPPORTED for such a process. Libraries for fast networks keep blocks registered
 * after they are freed, for the next block at that address, and set the allocator to keep all
 * memory (`how`): after a trim the device would still use the old pages of the released blocks.
 */
int flmem_call_plan_refuse_registered(const struct flmem_view *view, const char *how,
				      struct flmem_error *err);

/* Reports whether this build has a symbol for the function that returns the allocator's state. */
bool flmem_call_plan_can_answer(const struct flmem_view *view, const struct flmem_allocator *found);

/* Initial value of an answer's place in the chain's data: no call has written to it. */
#define FLMEM_NO_ANSWER UINT64_MAX

/*
 * For allocators with one call per number, made by name: reserves places for `count` numbers in the
 * chain's data and returns their offset. A call with an unknown name does not write to its place.
 */
uint64_t flmem_call_plan_answers(struct flmem_chain *chain, size_t count);

/* The number at `index` of these places; unknown, with the reason, if no call has written it. */
struct flmem_u64 flmem_call_plan_answer(const unsigned char *answers, size_t index,
					const char *why_not);

#endif
