/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/tcmalloc/tcmalloc_state.h"

#include <string.h>

#include "allocators/call_plan.h"
#include "allocators/heap_figures.h"
#include "base/cleanup.h"

enum tcmalloc_number {
	TCMALLOC_NUMBER_ALLOCATED,
	TCMALLOC_NUMBER_THREADS,
	TCMALLOC_NUMBER_TRANSFER,
	TCMALLOC_NUMBER_CENTRAL,
	TCMALLOC_NUMBER_PAGES,
	TCMALLOC_NUMBER_UNMAPPED,
	TCMALLOC_NUMBER_CPUS,
	TCMALLOC_NUMBER_SHARDED,
	TCMALLOC_NUMBER_METADATA,
	TCMALLOC_NUMBER_COUNT
};

/*
 * The name that flmem reports for each figure, and its names in the two allocators:
 * malloc_extension.h of gperftools 2, global_stats.cc of google/tcmalloc of 2026. NULL: the
 * allocator has no such number.
 */
static const struct {
	const char *own, *gperftools, *google;
} tcmalloc_number_names[] = {
	[TCMALLOC_NUMBER_ALLOCATED] = {"current_allocated", "generic.current_allocated_bytes",
				       "generic.current_allocated_bytes"},
	[TCMALLOC_NUMBER_THREADS] = {"thread_cache", "tcmalloc.current_total_thread_cache_bytes",
				     "tcmalloc.current_total_thread_cache_bytes"},
	[TCMALLOC_NUMBER_TRANSFER] = {"transfer_cache_free", "tcmalloc.transfer_cache_free_bytes",
				      "tcmalloc.transfer_cache_free"},
	[TCMALLOC_NUMBER_CENTRAL] = {"central_cache_free", "tcmalloc.central_cache_free_bytes",
				     "tcmalloc.central_cache_free"},
	[TCMALLOC_NUMBER_PAGES] = {"pageheap_free", "tcmalloc.pageheap_free_bytes",
				   "tcmalloc.pageheap_free_bytes"},
	[TCMALLOC_NUMBER_UNMAPPED] = {"pageheap_unmapped", "tcmalloc.pageheap_unmapped_bytes",
				      "tcmalloc.pageheap_unmapped_bytes"},
	[TCMALLOC_NUMBER_CPUS] = {"cpu_cache_free", NULL, "tcmalloc.cpu_free"},
	[TCMALLOC_NUMBER_SHARDED] = {"sharded_transfer_cache_free", NULL,
				     "tcmalloc.sharded_transfer_cache_free"},
	[TCMALLOC_NUMBER_METADATA] = {"metadata", NULL, "tcmalloc.metadata_bytes"},
};

static const char tcmalloc_state_no_answer[] = "this build of tcmalloc does not report it";
static const char no_metadata[] = "this tcmalloc does not report the size of its own structures";
static const char own_choice[] =
	"it releases only whole huge pages that recent demand does not need";
static const char no_arenas[] = "tcmalloc has no arenas";
static const char tcmalloc_state_no_own_mappings[] =
	"tcmalloc does not distinguish blocks by their mappings";
static const char tcmalloc_state_upper_bound[] =
	"tcmalloc counts pages that were never touched as resident";
static const char tcmalloc_state_no_threshold[] = "tcmalloc has no such setting";

static void add_property_query(struct flmem_chain *chain, uint64_t function, const char *name,
			       bool with_length, uint64_t answer_at)
{
	struct flmem_call *call = flmem_chain_add(chain, "GetNumericProperty", function);
	size_t out = with_length ? 2 : 1;

	call->args[0] = flmem_chain_put_string(chain, name);
	call->args[1] = strlen(name);
	call->args[out] = answer_at;
	call->data_args = 1U | 1U << out;
}

/* The arguments are (name, out) for gperftools, (name, its length, out) for google's. */
uint64_t flmem_tcmalloc_plan_state(const struct flmem_view *view,
				   const struct flmem_allocator *found, const unsigned char *query,
				   struct flmem_chain *chain)
{
	bool google = found->variant == FLMEM_TCMALLOC_GOOGLE;
	const char *asked = google ? "MallocExtension_Internal_GetNumericProperty"
				   : "MallocExtension_GetNumericProperty";
	uint64_t function, answers;

	(void)view, (void)query;
	if (flmem_call_plan_function(found, asked, &function, NULL))
		return 0;
	answers = flmem_call_plan_answers(chain, TCMALLOC_NUMBER_COUNT);
	for (size_t i = 0; i < TCMALLOC_NUMBER_COUNT; i++) {
		const char *name = google ? tcmalloc_number_names[i].google
					  : tcmalloc_number_names[i].gperftools;

		if (name)
			add_property_query(chain, function, name, google,
					   answers + i * sizeof(uint64_t));
	}
	return answers;
}

/*
 * The sum is unknown when a part is; real sizes do not overflow, so an overflow means invalid
 * figures.
 */
static struct flmem_u64 sum_figures(const struct flmem_u64 *parts, size_t count)
{
	struct flmem_u64 total = FLMEM_KNOWN(0);

	for (size_t i = 0; i < count; i++) {
		if (parts[i].unknown)
			return parts[i];
		if (__builtin_add_overflow(total.value, parts[i].value, &total.value))
			return FLMEM_UNKNOWN("the heap figures of this tcmalloc overflow a size");
	}
	return total;
}

/*
 * A build without such a figure has no such memory, except for its own structures, which always
 * exist.
 */
static bool may_be_absent(size_t number)
{
	return number >= TCMALLOC_NUMBER_CPUS;
}

static void put_own(struct flmem_heap_report *heap, const unsigned char *answers,
		    struct flmem_u64 n[TCMALLOC_NUMBER_COUNT])
{
	for (size_t i = 0; i < TCMALLOC_NUMBER_COUNT; i++) {
		n[i] = flmem_call_plan_answer(answers, i, tcmalloc_state_no_answer);
		if (n[i].unknown && may_be_absent(i))
			n[i] = FLMEM_KNOWN(0);
		else
			flmem_heap_add_figure(heap, tcmalloc_number_names[i].own, n[i]);
	}
}

/*
 * gperftools releases every free span of its page heap. google/tcmalloc releases whole huge pages,
 * less what recent demand makes it keep, so its free spans count as cached.
 */
static void put_free_pages(struct flmem_heap_report *heap,
			   const struct flmem_u64 n[TCMALLOC_NUMBER_COUNT], bool google)
{
	const struct flmem_u64 pages = n[TCMALLOC_NUMBER_PAGES],
			       central = n[TCMALLOC_NUMBER_CENTRAL];
	const struct flmem_u64 cached[] = {n[TCMALLOC_NUMBER_THREADS], n[TCMALLOC_NUMBER_TRANSFER],
					   n[TCMALLOC_NUMBER_CPUS], n[TCMALLOC_NUMBER_SHARDED],
					   pages};

	heap->cached_bytes = sum_figures(cached, google ? 5 : 4);
	heap->trimmable_bytes = google ? FLMEM_UNKNOWN(own_choice) : pages;
	heap->free_resident_bytes = google ? central : sum_figures(&n[TCMALLOC_NUMBER_CENTRAL], 2);
}

/*
 * Both allocators define the allocated size as the heap less all the other parts (gperftools'
 * tcmalloc.cc, google's stats), so the parts add up to the mapped size. Objects in the central
 * lists share their spans with objects in use; only whole free spans, those of the page heap, can
 * be released.
 */
void flmem_tcmalloc_take_state(const struct flmem_allocator *found, const unsigned char *answers,
			       struct flmem_heap_report *ret_heap)
{
	struct flmem_heap_report heap = FLMEM_HEAP_UNKNOWN(tcmalloc_state_no_threshold);
	struct flmem_u64 n[TCMALLOC_NUMBER_COUNT];

	put_own(&heap, answers, n);
	heap.method = "queried";
	heap.in_use_bytes = n[TCMALLOC_NUMBER_ALLOCATED];
	heap.pinned_bytes = n[TCMALLOC_NUMBER_CENTRAL];
	put_free_pages(&heap, n, found->variant == FLMEM_TCMALLOC_GOOGLE);
	heap.free_bytes = sum_figures(&n[TCMALLOC_NUMBER_CENTRAL], 3);
	heap.metadata_bytes =
		flmem_call_plan_answer(answers, TCMALLOC_NUMBER_METADATA, no_metadata);
	heap.resident_bytes = sum_figures(
		(const struct flmem_u64[]){heap.in_use_bytes, heap.cached_bytes,
					   heap.free_resident_bytes, n[TCMALLOC_NUMBER_METADATA]},
		4);
	heap.mmapped_bytes = FLMEM_UNKNOWN(tcmalloc_state_no_own_mappings);
	heap.arenas = FLMEM_UNKNOWN(no_arenas);
	heap.arena_list.unknown = no_arenas;
	heap.error_bytes = FLMEM_UNKNOWN(tcmalloc_state_upper_bound);
	*ret_heap = heap;
}
