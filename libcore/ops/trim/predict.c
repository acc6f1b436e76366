/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/trim/predict.h"

#include "base/clock.h"
#include "ops/target/query.h"
#include "ops/target/target_guard.h"

static struct flmem_u64 read_trimmable(const struct flmem_target_inspection *target,
				       const struct flmem_allocator *found, uint64_t deadline_us)
{
	const uint64_t now_us = flmem_clock_us();
	struct flmem_heap_limits limits = {.budget_us = 1};
	struct flmem_heap_report heap;

	if (now_us < deadline_us)
		limits.budget_us = deadline_us - now_us;
	found->ops->read_heap(&target->view, found, &limits, &heap);
	return heap.trimmable_bytes;
}

static struct flmem_u64 query_trimmable(const struct flmem_target_inspection *target,
					const struct flmem_allocator *found,
					const struct flmem_borrow_options *borrow,
					struct flmem_query_report *asked)
{
	struct flmem_heap_report heap;
	struct flmem_error err = {0};
	int rc;

	if (!borrow)
		return FLMEM_UNKNOWN(
			"only the allocator itself can report it: run flmem detect --ask-runtime "
			"--pid PID");
	asked->tried = true;
	rc = flmem_query_allocator(&target->view, found, borrow, &heap, asked, &err);
	if (!rc)
		return heap.trimmable_bytes;
	flmem_query_set_failure(asked, rc, &err);
	return FLMEM_UNKNOWN("the allocator could not be queried before the trim");
}

struct flmem_u64 flmem_predict(const struct flmem_target_inspection *target, uint64_t budget_us,
			       const struct flmem_borrow_options *borrow,
			       struct flmem_query_report *ret_asked)
{
	const uint64_t deadline_us = flmem_clock_us() + budget_us;
	struct flmem_u64 part, sum = FLMEM_KNOWN(0);

	*ret_asked = (struct flmem_query_report){0};
	for (size_t i = 0; i < target->allocators.count; i++) {
		const struct flmem_allocator *found = &target->allocators.rows[i];

		if (!flmem_target_guard_trims(&target->view, found))
			continue;
		if (found->unpredictable)
			part = FLMEM_UNKNOWN(found->unpredictable);
		else if (found->ops->read_heap)
			part = read_trimmable(target, found, deadline_us);
		else if (found->ops->plan_state && !found->ops->unreadable_reason)
			part = query_trimmable(target, found, borrow, ret_asked);
		else
			part = FLMEM_UNKNOWN(
				"the heap of this allocator cannot be read from outside");
		if (part.unknown)
			return part;
		if (__builtin_add_overflow(sum.value, part.value, &sum.value))
			return FLMEM_UNKNOWN("the heap figures of its allocators overflow a size");
	}
	return sum;
}
