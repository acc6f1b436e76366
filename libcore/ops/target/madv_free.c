/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/target/madv_free.h"

#include <string.h>

#include "proc/rollup.h"

const char flmem_madv_free_unsought[] =
	"counted only when the heap is read and an allocator can leave MADV_FREE pages";

/* Larger processes are not searched: the kernel walks every page, 3 ms per GiB. */
#define ROLLUP_LIMIT (UINT64_C(1) << 30)

static const char madv_free_too_large[] = "the process is too large for smaps_rollup";

static bool counts_muzzy_pages(const struct flmem_heap_report *heap)
{
	for (size_t i = 0; i < heap->own_count; i++)
		if (strcmp(heap->own[i].name, "muzzy") == 0)
			return !heap->own[i].bytes.unknown;
	return false;
}

struct flmem_u64 flmem_madv_free_bytes(const struct flmem_view *view,
				       const struct flmem_allocator_list *list,
				       const struct flmem_allocator_report *reports)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->rows[i].leaves_pages &&
		    !(reports && counts_muzzy_pages(&reports[i].heap)))
			return flmem_rollup_bytes(view->process, "LazyFree");
	return FLMEM_UNKNOWN(flmem_madv_free_unsought);
}

static bool is_mostly_outside(const struct flmem_process_report *report)
{
	uint64_t anonymous = flmem_u64_or(report->memory.anon_bytes, 0);
	uint64_t held = flmem_u64_or(report->python.arenas_bytes, 0);

	for (size_t i = 0; i < report->allocator_count; i++)
		held += flmem_u64_or(report->allocators[i].heap.resident_bytes, 0);
	return anonymous > held &&
	       anonymous - held >= flmem_u64_or(report->memory.rss_bytes, UINT64_MAX) / 2;
}

void flmem_madv_free_search(const struct flmem_process *process,
			    struct flmem_process_report *report)
{
	struct flmem_u64 *bytes = &report->memory.madv_free_bytes;

	if (bytes->unknown != flmem_madv_free_unsought || !is_mostly_outside(report))
		return;
	*bytes = flmem_u64_or(report->memory.rss_bytes, UINT64_MAX) < ROLLUP_LIMIT
			 ? flmem_rollup_bytes(process, "LazyFree")
			 : FLMEM_UNKNOWN(madv_free_too_large);
}
