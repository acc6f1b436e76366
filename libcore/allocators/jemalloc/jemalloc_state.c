/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/jemalloc/jemalloc_state.h"

#include <inttypes.h>
#include <stdio.h>

#include "allocators/call_plan.h"
#include "allocators/heap_figures.h"
#include "base/cleanup.h"

/*
 * X(NAME, whether it is per arena, mallctl's name, why it may be missing), from jemalloc(3) and
 * src/ctl.c, 3.0 to 5.3. All have the type size_t, except narenas, of which only the low half is
 * written, and background_thread, a bool.
 */
#define NUMBERS(X)                                            \
	X(ALLOCATED, false, "stats.allocated", no_statistics) \
	X(ACTIVE, false, "stats.active", no_figure)           \
	X(RESIDENT, false, "stats.resident", from_4_0)        \
	X(METADATA, false, "stats.metadata", from_4_0)        \
	X(MAPPED, false, "stats.mapped", no_figure)           \
	X(RETAINED, false, "stats.retained", from_4_2)        \
	X(DIRTY, true, "pdirty", no_figure)                   \
	X(MUZZY, true, "pmuzzy", no_muzzy)                    \
	X(TCACHE, true, "tcache_bytes", no_thread_caches)     \
	X(PAGE, false, "arenas.page", no_figure)              \
	X(ARENAS, false, "arenas.narenas", no_figure)         \
	X(DECAY, false, "arenas.dirty_decay_ms", no_figure)   \
	X(BACKGROUND, false, "background_thread", no_figure)

enum jemalloc_number {
#define NUMBER_ENUM(name, of_arena, text, missing) NUMBER_##name,
	NUMBERS(NUMBER_ENUM)
#undef NUMBER_ENUM
	NUMBER_COUNT
};

static const char no_statistics[] = "this jemalloc keeps no statistics (--disable-stats)";
static const char no_thread_caches[] = "jemalloc reports the size of its thread caches from 5.0 on";
static const char no_muzzy[] = "jemalloc has muzzy pages from 5.0 on";
static const char from_4_0[] = "jemalloc reports it from 4.0 on";
static const char from_4_2[] = "jemalloc reports it from 4.2 on";
static const char contradictory[] = "the statistics of this jemalloc contradict each other";
static const char jemalloc_state_no_own_mappings[] =
	"jemalloc does not distinguish blocks by their mappings";
static const char jemalloc_state_upper_bound[] =
	"jemalloc counts pages that were never touched as resident";
static const char jemalloc_state_no_threshold[] = "jemalloc has no such setting";
static const char no_figure[] = "this jemalloc does not report it";

static const struct {
	const char *text;
	bool of_arena;
	const char *missing;
} jemalloc_number_names[] = {
#define NUMBER_ROW(name, of_arena, text, missing) {text, of_arena, missing},
	NUMBERS(NUMBER_ROW)
#undef NUMBER_ROW
};

#define PAGE_MIN ((uint64_t)1 << 12)
#define PAGE_MAX ((uint64_t)1 << 21)
#define SIZE_LIM ((uint64_t)1 << 47) /* size of a process's address space */

void flmem_jemalloc_add_read(struct flmem_chain *chain, uint64_t function, const char *name,
			     uint64_t out, uint64_t length)
{
	struct flmem_call *call = flmem_chain_add(chain, "mallctl", function);

	call->args[0] = flmem_chain_put_string(chain, name);
	call->args[1] = out;
	call->args[2] = length;
	call->data_args = 7U;
}

/* The statistics are updated when the epoch is written. */
static void add_epoch(struct flmem_chain *chain, uint64_t function)
{
	const uint64_t epoch = 1;
	struct flmem_call *call = flmem_chain_add(chain, "mallctl", function);

	call->args[0] = flmem_chain_put_string(chain, "epoch");
	call->args[3] = flmem_chain_put(chain, &epoch, sizeof(epoch));
	call->args[4] = sizeof(epoch);
	call->data_args = 1U | 1U << 3;
}

/* Puts the lengths of the answers into the chain's data; sets their offsets. */
static void put_lengths(struct flmem_chain *chain, uint64_t ret_lengths_at[NUMBER_COUNT])
{
	const uint64_t size = sizeof(uint64_t), half = sizeof(uint32_t), byte = sizeof(bool);
	const uint64_t whole_at = flmem_chain_put(chain, &size, sizeof(size));

	for (size_t i = 0; i < NUMBER_COUNT; i++)
		ret_lengths_at[i] = whole_at;
	ret_lengths_at[NUMBER_ARENAS] = flmem_chain_put(chain, &half, sizeof(half));
	ret_lengths_at[NUMBER_BACKGROUND] = flmem_chain_put(chain, &byte, sizeof(byte));
}

uint64_t flmem_jemalloc_plan_state(const struct flmem_allocator *found, uint32_t index,
				   struct flmem_chain *chain)
{
	uint64_t function, answers, lengths_at[NUMBER_COUNT];

	if (flmem_call_plan_function(found, "mallctl", &function, NULL))
		return 0;
	answers = flmem_call_plan_answers(chain, NUMBER_COUNT);
	put_lengths(chain, lengths_at);
	add_epoch(chain, function);
	for (size_t i = 0; i < NUMBER_COUNT; i++) {
		char name[64];

		if (jemalloc_number_names[i].of_arena)
			snprintf(name, sizeof(name), "stats.arenas.%" PRIu32 ".%s", index,
				 jemalloc_number_names[i].text);
		else
			snprintf(name, sizeof(name), "%s", jemalloc_number_names[i].text);
		flmem_jemalloc_add_read(chain, function, name, answers + i * sizeof(uint64_t),
					lengths_at[i]);
	}
	return answers;
}

/* The figures of all arenas, in bytes. */
struct jemalloc_state {
	uint64_t allocated, active, dirty, muzzy;
	uint64_t cached, retained; /* 0 when not reported */
	uint64_t resident;	   /* includes metadata; meaningless unless reports_resident */
	bool reports_resident;
};

static struct flmem_u64 get_answer(const unsigned char *answers, enum jemalloc_number number)
{
	return flmem_call_plan_answer(answers, number, jemalloc_number_names[number].missing);
}

static bool convert_to_bytes(const unsigned char *answers, enum jemalloc_number number,
			     uint64_t page, uint64_t *ret_bytes)
{
	struct flmem_u64 pages = get_answer(answers, number);

	/* Muzzy pages exist from 5.0 on; an earlier version does not have them. */
	if (pages.unknown)
		return number == NUMBER_MUZZY;
	return !__builtin_mul_overflow(pages.value, page, ret_bytes) && *ret_bytes < SIZE_LIM;
}

static bool is_consistent(const struct jemalloc_state *state)
{
	return state->cached <= state->allocated && state->allocated <= state->active &&
	       state->active < SIZE_LIM && state->retained < SIZE_LIM &&
	       (!state->reports_resident ||
		(state->active + state->dirty <= state->resident && state->resident < SIZE_LIM));
}

static bool parse_state(const unsigned char *answers, struct jemalloc_state *ret_state)
{
	struct flmem_u64 active = get_answer(answers, NUMBER_ACTIVE);
	struct flmem_u64 resident = get_answer(answers, NUMBER_RESIDENT);
	struct flmem_u64 page = get_answer(answers, NUMBER_PAGE);
	struct jemalloc_state state = {
		.allocated = get_answer(answers, NUMBER_ALLOCATED).value,
		.active = active.value,
		.resident = resident.value,
		.reports_resident = !resident.unknown,
		.cached = get_answer(answers, NUMBER_TCACHE).value,
		.retained = get_answer(answers, NUMBER_RETAINED).value,
	};

	if (active.unknown || page.unknown || page.value < PAGE_MIN || page.value > PAGE_MAX ||
	    !convert_to_bytes(answers, NUMBER_DIRTY, page.value, &state.dirty) ||
	    !convert_to_bytes(answers, NUMBER_MUZZY, page.value, &state.muzzy) ||
	    !is_consistent(&state))
		return false;
	*ret_state = state;
	return true;
}

/*
 * Without a background thread pages decay only while the program allocates and frees, so whether
 * they are overdue is unknown. -1 (never) is the same as no answer.
 */
static bool decays_by_itself(const unsigned char *answers)
{
	struct flmem_u64 decay_ms = get_answer(answers, NUMBER_DECAY);
	struct flmem_u64 thread = get_answer(answers, NUMBER_BACKGROUND);

	return !decay_ms.unknown && decay_ms.value && decay_ms.value <= INT64_MAX &&
	       !thread.unknown && (thread.value & UINT8_MAX) != 0;
}

/* Fills in figures under jemalloc's names; page counts are converted to bytes. */
static void fill_figures(const unsigned char *answers, const struct jemalloc_state *state,
			 struct flmem_heap_report *heap)
{
	static const struct {
		const char *name;
		enum jemalloc_number number;
	} plain[] = {
		{"allocated", NUMBER_ALLOCATED}, {"active", NUMBER_ACTIVE},
		{"metadata", NUMBER_METADATA},	 {"resident", NUMBER_RESIDENT},
		{"mapped", NUMBER_MAPPED},	 {"retained", NUMBER_RETAINED},
		{"tcache", NUMBER_TCACHE},
	};
	struct flmem_u64 muzzy = get_answer(answers, NUMBER_MUZZY);

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(plain); i++)
		flmem_heap_add_figure(heap, plain[i].name, get_answer(answers, plain[i].number));
	flmem_heap_add_figure(heap, "dirty", FLMEM_KNOWN(state->dirty));
	muzzy.value = state->muzzy;
	flmem_heap_add_figure(heap, "muzzy", muzzy);
}

/*
 * Allocated includes what thread caches hold; active is the pages of allocated blocks, dirty and
 * muzzy are pages free for re-use, which a purge returns whether or not their decay is due.
 * Resident counts metadata, active and dirty pages (src/ctl.c, src/arena.c), not muzzy ones: those
 * are resident until the kernel reclaims them.
 */
void flmem_jemalloc_take_state(const struct flmem_allocator *found, const unsigned char *answers,
			       struct flmem_heap_report *ret_heap)
{
	struct flmem_heap_report heap = FLMEM_HEAP_UNKNOWN(contradictory);
	struct jemalloc_state s;

	(void)found;
	if (get_answer(answers, NUMBER_ALLOCATED).unknown) {
		*ret_heap = FLMEM_HEAP_UNKNOWN(no_statistics);
		return;
	}
	if (!parse_state(answers, &s)) {
		*ret_heap = heap;
		return;
	}
	heap.method = "queried";
	heap.resident_bytes =
		s.reports_resident ? FLMEM_KNOWN(s.resident + s.muzzy) : FLMEM_UNKNOWN(from_4_0);
	heap.cached_bytes = get_answer(answers, NUMBER_TCACHE);
	heap.in_use_bytes = FLMEM_KNOWN(s.allocated - s.cached);
	heap.trimmable_bytes = FLMEM_KNOWN(s.dirty + s.muzzy);
	heap.decaying_bytes = FLMEM_KNOWN(decays_by_itself(answers) ? s.dirty : 0);
	heap.pinned_bytes = FLMEM_KNOWN(s.active - s.allocated);
	heap.free_resident_bytes = FLMEM_KNOWN(s.dirty + s.muzzy + s.active - s.allocated);
	heap.metadata_bytes = s.reports_resident ? FLMEM_KNOWN(s.resident - s.active - s.dirty)
						 : FLMEM_UNKNOWN(from_4_0);
	heap.free_bytes = FLMEM_KNOWN(heap.free_resident_bytes.value + s.retained);
	heap.arenas = get_answer(answers, NUMBER_ARENAS);
	/* mallctl() has not written the upper half of the answer. */
	heap.arenas.value &= UINT32_MAX;
	heap.mmapped_bytes = FLMEM_UNKNOWN(jemalloc_state_no_own_mappings);
	heap.error_bytes = FLMEM_UNKNOWN(jemalloc_state_upper_bound);
	heap.trim_threshold_bytes = FLMEM_UNKNOWN(jemalloc_state_no_threshold);
	heap.mmap_threshold_bytes = FLMEM_UNKNOWN(jemalloc_state_no_threshold);
	heap.arena_max = FLMEM_UNKNOWN(jemalloc_state_no_threshold);
	heap.threshold_raised = FLMEM_UNKNOWN(jemalloc_state_no_threshold);
	heap.arena_list.unknown = NULL;
	fill_figures(answers, &s, &heap);
	*ret_heap = heap;
}

/*
 * Figures of each arena, in this order. A chain queries as many arenas as it has room for, then the
 * page size.
 */
#define ARENAS_AT_ONCE 4
#define ARENA_NUMBERS(X)     \
	X(ACTIVE, "pactive") \
	X(DIRTY, "pdirty")   \
	X(MUZZY, "pmuzzy")   \
	X(THREADS, "nthreads")

enum arena_number {
#define ARENA_ENUM(name, text) ARENA_##name,
	ARENA_NUMBERS(ARENA_ENUM)
#undef ARENA_ENUM
	ARENA_NUMBER_COUNT
};

static const char *const arena_names[] = {
#define ARENA_ROW(name, text) text,
	ARENA_NUMBERS(ARENA_ROW)
#undef ARENA_ROW
};

#define PLACE_OF_PAGE ((size_t)ARENAS_AT_ONCE * ARENA_NUMBER_COUNT)

/*
 * The calls do not write the epoch, so that the figures of all arenas belong to the same moment as
 * the totals. Arenas that were never used have no statistics; the index that means all arenas is
 * left out.
 */
uint64_t flmem_jemalloc_plan_arenas(const struct flmem_allocator *found, uint64_t first,
				    struct flmem_chain *chain)
{
	const uint64_t size = sizeof(uint64_t), half = sizeof(uint32_t);
	uint64_t function, answers, whole_at, half_at;
	char name[48];

	if (flmem_call_plan_function(found, "mallctl", &function, NULL))
		return 0;
	answers = flmem_call_plan_answers(chain, PLACE_OF_PAGE + 1);
	whole_at = flmem_chain_put(chain, &size, sizeof(size));
	half_at = flmem_chain_put(chain, &half, sizeof(half));
	for (size_t i = 0; i < PLACE_OF_PAGE; i++) {
		size_t number = i % ARENA_NUMBER_COUNT;

		snprintf(name, sizeof(name), "stats.arenas.%" PRIu64 ".%s",
			 first + i / ARENA_NUMBER_COUNT, arena_names[number]);
		flmem_jemalloc_add_read(chain, function, name, answers + i * sizeof(uint64_t),
					number == ARENA_THREADS ? half_at : whole_at);
	}
	flmem_jemalloc_add_read(chain, function, "arenas.page",
				answers + PLACE_OF_PAGE * sizeof(uint64_t), whole_at);
	return answers;
}

/*
 * Reads the figures of one arena. Muzzy pages exist from 5.0 on; the upper half of the number of
 * threads is not written.
 */
static bool take_arena(const unsigned char *numbers, uint64_t page,
		       struct flmem_arena_report *arena)
{
	uint64_t bytes[ARENA_THREADS] = {0};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(bytes); i++) {
		struct flmem_u64 pages = flmem_call_plan_answer(numbers, i, no_figure);

		if (pages.unknown && i == ARENA_MUZZY)
			continue;
		if (pages.unknown || __builtin_mul_overflow(pages.value, page, &bytes[i]) ||
		    bytes[i] >= SIZE_LIM)
			return false;
	}
	arena->trimmable_bytes = bytes[ARENA_DIRTY] + bytes[ARENA_MUZZY];
	arena->resident_bytes = bytes[ARENA_ACTIVE] + arena->trimmable_bytes;
	arena->threads = flmem_call_plan_answer(numbers, ARENA_THREADS, no_figure);
	arena->threads.value &= UINT32_MAX;
	return true;
}

/* Reports whether the listed arenas add up to the totals, so that the others hold nothing. */
static bool lists_all_arenas(const struct flmem_heap_report *heap)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < heap->arena_list.count; i++)
		sum += heap->arena_list.rows[i].resident_bytes;
	return !heap->resident_bytes.unknown && !heap->metadata_bytes.unknown &&
	       sum + heap->metadata_bytes.value == heap->resident_bytes.value;
}

uint64_t flmem_jemalloc_take_arenas(const unsigned char *answers, uint64_t first,
				    struct flmem_heap_report *heap)
{
	struct flmem_u64 page = flmem_call_plan_answer(answers, PLACE_OF_PAGE, no_figure);
	const uint64_t end = flmem_u64_or(heap->arenas, 0);
	bool damaged = page.unknown || page.value < PAGE_MIN || page.value > PAGE_MAX;

	for (uint64_t i = 0; i < ARENAS_AT_ONCE && first + i < end && !damaged; i++) {
		const unsigned char *numbers = answers + i * ARENA_NUMBER_COUNT * sizeof(uint64_t);
		struct flmem_arena_report arena = {.number = first + i};

		if (flmem_call_plan_answer(numbers, ARENA_ACTIVE, no_figure).unknown)
			continue;
		damaged = !take_arena(numbers, page.value, &arena);
		if (!damaged && !flmem_heap_add_arena(&heap->arena_list, &arena))
			return 0;
	}
	if (damaged)
		heap->arena_list = (struct flmem_arena_list){.unknown = contradictory};
	if (damaged || first + ARENAS_AT_ONCE >= end || lists_all_arenas(heap))
		return 0;
	return first + ARENAS_AT_ONCE;
}
