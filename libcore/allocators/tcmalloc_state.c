/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/tcmalloc_state.h"

#include "allocators/plan.h"
#include "base/cleanup.h"

/* X(NAME, under what it is reported, gperftools' name): malloc_extension.h of gperftools 2. */
#define NUMBERS(X)                                                               \
	X(ALLOCATED, "current_allocated", "generic.current_allocated_bytes")     \
	X(THREADS, "thread_cache", "tcmalloc.current_total_thread_cache_bytes")  \
	X(TRANSFER, "transfer_cache_free", "tcmalloc.transfer_cache_free_bytes") \
	X(CENTRAL, "central_cache_free", "tcmalloc.central_cache_free_bytes")    \
	X(PAGES, "pageheap_free", "tcmalloc.pageheap_free_bytes")                \
	X(UNMAPPED, "pageheap_unmapped", "tcmalloc.pageheap_unmapped_bytes")

enum number {
#define NUMBER_ENUM(name, own, text) NUMBER_##name,
	NUMBERS(NUMBER_ENUM)
#undef NUMBER_ENUM
	NUMBER_COUNT
};

static const struct {
	const char *own, *text;
} names[] = {
#define NUMBER_ROW(name, own, text) {own, text},
	NUMBERS(NUMBER_ROW)
#undef NUMBER_ROW
};

static const char no_answer[] = "this build of gperftools does not tell it";
static const char no_metadata[] = "gperftools does not tell how large its own structures are";
static const char no_arenas[] = "tcmalloc has no arenas";
static const char no_own_mappings[] = "tcmalloc does not tell its blocks apart by their mappings";
static const char upper_bound[] = "tcmalloc counts pages that were never touched as resident";
static const char no_threshold[] = "tcmalloc has no such setting";

/* GetNumericProperty(name, out) */
uint64_t flmem_tcmalloc_plan_state(const struct flmem_view *view,
				   const struct flmem_allocator *found, const unsigned char *query,
				   struct flmem_chain *chain)
{
	uint64_t function, answers;

	(void)view, (void)query;
	if (flmem_plan_function(found, "MallocExtension_GetNumericProperty", &function, NULL))
		return 0;
	answers = flmem_plan_answers(chain, NUMBER_COUNT);
	for (size_t i = 0; i < NUMBER_COUNT; i++) {
		struct flmem_call *call = flmem_chain_add(chain, "GetNumericProperty", function);

		call->args[0] = flmem_chain_put_string(chain, names[i].text);
		call->args[1] = answers + i * sizeof(uint64_t);
		call->data_args = 3U;
	}
	return answers;
}

/* Unknown when a part is; sizes of a process do not overflow unless they are nonsense. */
static struct flmem_u64 sum(const struct flmem_u64 *parts, size_t count)
{
	struct flmem_u64 total = FLMEM_KNOWN(0);

	for (size_t i = 0; i < count; i++) {
		if (parts[i].unknown)
			return parts[i];
		if (__builtin_add_overflow(total.value, parts[i].value, &total.value))
			return FLMEM_UNKNOWN("the figures of this tcmalloc are no sizes");
	}
	return total;
}

/*
 * Its own definition of what is allocated is the heap less all the other parts (tcmalloc.cc), so
 * they add up to what it has mapped. Objects in the central lists share their spans with objects in
 * use; only whole free spans, those of the page heap, can be released.
 */
void flmem_tcmalloc_take_state(const struct flmem_allocator *found, const unsigned char *answers,
			       struct flmem_heap_report *ret_heap)
{
	struct flmem_heap_report heap = FLMEM_HEAP_UNKNOWN(no_threshold);
	struct flmem_u64 n[NUMBER_COUNT];

	(void)found;
	for (size_t i = 0; i < NUMBER_COUNT; i++) {
		n[i] = flmem_plan_answer(answers, i, no_answer);
		flmem_plan_own(&heap, names[i].own, n[i]);
	}
	heap.how = "asked";
	heap.resident_bytes = sum(n, NUMBER_UNMAPPED);
	heap.in_use_bytes = n[NUMBER_ALLOCATED];
	heap.cached_bytes = sum(&n[NUMBER_THREADS], 2);
	heap.pinned_bytes = n[NUMBER_CENTRAL];
	heap.trimmable_bytes = n[NUMBER_PAGES];
	heap.free_resident_bytes = sum(&n[NUMBER_CENTRAL], 2);
	heap.free_bytes = sum(&n[NUMBER_CENTRAL], 3);
	heap.metadata_bytes = FLMEM_UNKNOWN(no_metadata);
	heap.mmapped_bytes = FLMEM_UNKNOWN(no_own_mappings);
	heap.arenas = FLMEM_UNKNOWN(no_arenas);
	heap.arena_list.unknown = no_arenas;
	heap.error_bytes = FLMEM_UNKNOWN(upper_bound);
	*ret_heap = heap;
}
