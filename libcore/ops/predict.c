/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/predict.h"

#include "base/clock.h"
#include "ops/errand.h"

struct flmem_u64 flmem_predict(const struct flmem_inspection *target, uint64_t budget_us)
{
	const uint64_t deadline_us = flmem_clock_us() + budget_us;
	uint64_t sum = 0;

	for (size_t i = 0; i < target->allocators.count; i++) {
		const struct flmem_allocator *found = &target->allocators.rows[i];
		const uint64_t now_us = flmem_clock_us();
		struct flmem_heap_limits limits = {.budget_us = 1};
		struct flmem_heap_report heap;

		if (!found->ops->plan_trim || !flmem_errand_concerns(found))
			continue;
		if (!found->ops->read_heap)
			return FLMEM_UNKNOWN("its allocator's heap cannot be read from outside");
		if (now_us < deadline_us)
			limits.budget_us = deadline_us - now_us;
		found->ops->read_heap(&target->view, found, &limits, &heap);
		if (heap.trimmable_bytes.unknown)
			return heap.trimmable_bytes;
		sum += heap.trimmable_bytes.value;
	}
	return FLMEM_KNOWN(sum);
}
