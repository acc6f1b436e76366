/* SPDX-License-Identifier: Apache-2.0 */
/* Reads answers of jemalloc and tcmalloc, as written when a borrowed thread queries their state. */
#include "allocators/jemalloc/jemalloc_state.h"
#include "allocators/tcmalloc/tcmalloc_state.h"
#include "fuzz.h"

#define ANSWERS_BYTES 8192U /* more than any of them needs */
#define ASKS_MAX      64U

/* Checks one report; the parts must not exceed the whole. */
static void check(const struct flmem_heap_report *heap)
{
	if (heap->arena_list.count > FLMEM_ARENA_REPORTS_MAX)
		abort();
	for (size_t i = 0; i < heap->arena_list.count; i++)
		if (heap->arena_list.rows[i].trimmable_bytes >
		    heap->arena_list.rows[i].resident_bytes)
			abort();
}

static void take_jemalloc(const struct flmem_allocator *found, const unsigned char *answers)
{
	struct flmem_heap_report heap = {0};
	uint64_t first = 0;

	flmem_jemalloc_take_state(found, answers, &heap);
	for (unsigned i = 0; i < ASKS_MAX; i++) {
		uint64_t next = flmem_jemalloc_take_arenas(answers, first, &heap);

		if (!next)
			break;
		if (next <= first)
			abort();
		first = next;
	}
	check(&heap);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flmem_allocator found = {0};
	struct flmem_heap_report heap = {0};
	unsigned char *answers = calloc(1, ANSWERS_BYTES);

	if (!answers)
		abort();
	memcpy(answers, data, size < ANSWERS_BYTES ? size : ANSWERS_BYTES);
	take_jemalloc(&found, answers);
	for (unsigned i = FLMEM_TCMALLOC_GPERFTOOLS; i <= FLMEM_TCMALLOC_GOOGLE; i++) {
		found.variant = i;
		flmem_tcmalloc_take_state(&found, answers, &heap);
		check(&heap);
	}
	free(answers);
	return 0;
}
