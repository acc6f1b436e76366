/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which growth of a stack in a heap profile is a leak. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/heap_folder.h>

#include "profile_maker.h"

#define MIB UINT64_C(1048576)

static char path[] = "/tmp/flmem-heap-leaks-XXXXXX";

/* The allocated and freed bytes of a stack in a round. */
struct history {
	uint64_t (*allocated)(uint32_t round);
	uint64_t (*freed)(uint32_t round);
	uint32_t rounds;
};

struct outcome {
	size_t count;
	bool unconfirmed;
	double growth;
};

static void make_history(struct profile_maker *m, const struct history *history)
{
	uint32_t frame = maker_python(m, "keep", "a.py", 1);
	uint64_t allocated = 0, freed = 0;

	for (uint32_t round = 0; round < history->rounds; round++) {
		uint64_t more = history->allocated(round), less = history->freed(round);

		maker_round(m, round, 1000 * round);
		if (more || less)
			maker_cell(m, 0, round, more, less);
		allocated += more;
		freed += less;
	}
	maker_site(m, maker_node(m, FLMEM_PROFILE_ROOT, frame), allocated, freed);
	m->header->last_ms = m->header->end_ms = UINT64_C(1000) * history->rounds;
}

/* Checks that the findings of recommend and analyze are these leaks, and no others. */
static void check_findings(const struct flmem_heap_profile *p, const struct flmem_heap_leaks *leaks)
{
	struct flmem_heap_finding findings[FLMEM_HEAP_FINDINGS_MAX];
	size_t count, growths = 0;

	assert_int_equal(flmem_heap_findings(p, findings, &count, NULL), 0);
	for (size_t i = 0; i < count; i++) {
		if (findings[i].kind != FLMEM_HEAP_FINDING_GROWS &&
		    findings[i].kind != FLMEM_HEAP_FINDING_MAY_GROW)
			continue;
		assert_true(growths < leaks->count);
		assert_int_equal(findings[i].kind == FLMEM_HEAP_FINDING_GROWS,
				 leaks->by_round && !leaks->rows[growths].unconfirmed);
		assert_int_equal(findings[i].unconfirmed, leaks->rows[growths].unconfirmed);
		assert_int_equal(findings[i].bytes, leaks->rows[growths++].grown_bytes);
	}
	assert_int_equal(growths, leaks->count);
}

static struct outcome find_leaks(const struct profile_maker *m)
{
	const struct flmem_heap_request request = {.path = path};
	struct flmem_heap_profile *p = NULL;
	struct flmem_heap_leaks leaks;
	struct outcome outcome;

	maker_write(m, path, m->size);
	assert_int_equal(flmem_heap_profile_read(&request, &p, NULL), 0);
	assert_int_equal(flmem_heap_leaks_find(p, &leaks, NULL), 0);
	assert_null(leaks.too_few);
	check_findings(p, &leaks);
	outcome = (struct outcome){leaks.count, leaks.count && leaks.rows[0].unconfirmed,
				   leaks.count ? leaks.rows[0].growth_bytes : 0};
	flmem_heap_leaks_clear(&leaks);
	flmem_heap_profile_free(p);
	return outcome;
}

static struct outcome leaks_of(const struct history *history)
{
	struct outcome outcome;
	struct profile_maker m;

	maker_init(&m);
	make_history(&m, history);
	outcome = find_leaks(&m);
	maker_clear(&m);
	return outcome;
}

static uint32_t period;

static uint64_t keep_each_period(uint32_t round)
{
	return round % period ? 0 : 2 * MIB;
}

static uint64_t free_nothing(uint32_t round)
{
	(void)round;
	return 0;
}

static uint64_t keep_one(uint32_t round)
{
	(void)round;
	return MIB;
}

/* Frees as a deque(maxlen=period) does. */
static uint64_t free_when_full(uint32_t round)
{
	return round < period ? 0 : MIB;
}

static uint64_t keep_twice(uint32_t round)
{
	return round == 8 || round == 20 ? 20 * MIB : 0;
}

/* An evaluation keeps memory every few rounds. */
static void what_is_kept_every_few_rounds_is_a_leak(void **state)
{
	static const struct {
		uint32_t period, rounds;
	} rows[] = {{1, 5},  {1, 30}, {2, 12}, {2, 30},	 {3, 12},  {3, 30},
		    {3, 60}, {5, 30}, {5, 60}, {10, 60}, {10, 100}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct history history = {keep_each_period, free_nothing, rows[i].rounds};
		struct outcome outcome;

		period = rows[i].period;
		outcome = leaks_of(&history);
		if (outcome.count != 1)
			fail_msg("every %u of %u rounds: not found", period, history.rounds);
		if (outcome.growth * period < 1.4 * MIB || outcome.growth * period > 2.6 * MIB)
			fail_msg("every %u of %u rounds: %f a round", period, history.rounds,
				 outcome.growth);
	}
}

static void what_grows_in_a_few_jumps_is_none(void **state)
{
	const struct history history = {keep_twice, free_nothing, 40};

	(void)state;
	assert_int_equal(leaks_of(&history).count, 0);
}

static void a_cache_that_is_full_is_none(void **state)
{
	static const struct {
		uint32_t full, rounds, leaks;
	} rows[] = {{12, 12, 1}, {12, 15, 0}, {12, 16, 0}, {12, 20, 0}, {30, 30, 1},
		    {30, 33, 0}, {30, 40, 0}, {4, 8, 0},   {9, 12, 0}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct history history = {keep_one, free_when_full, rows[i].rounds};

		period = rows[i].full;
		if (leaks_of(&history).count != rows[i].leaks)
			fail_msg("full after %u, %u rounds", rows[i].full, rows[i].rounds);
	}
}

/* Memory that existed before the sampling began is freed without the sampler's notice. */
static void growth_without_rss_is_not_confirmed_in_a_late_profile(void **state)
{
	static const struct {
		uint64_t late_ms;
		int64_t rss_growth;
		bool unconfirmed;
		uint32_t flags;
		int64_t rss_at_end; /* growth in a last, incomplete round */
	} rows[] = {
		{0, 0, false, 0, 0},
		{1000, 0, false, 0, 0},
		{1000, 0, true, FLMEM_PROFILE_LATE, 0},
		{1000, 12 * MIB, false, FLMEM_PROFILE_LATE, 0},
		/* The program began with its execution, after a wrapper that took its time. */
		{60000, 0, false, 0, 0},
		{60000, 0, true, FLMEM_PROFILE_LATE, 0},
		{60000, MIB, true, FLMEM_PROFILE_LATE, 0},
		{60000, 12 * MIB, false, FLMEM_PROFILE_LATE, 0},
		{60000, 40 * MIB, false, FLMEM_PROFILE_LATE, 0},
		{60000, -12 * (int64_t)MIB, true, FLMEM_PROFILE_LATE, 0},
		{60000, 0, true, FLMEM_PROFILE_LATE, 40 * MIB},
		{60000, 12 * MIB, false, FLMEM_PROFILE_LATE, 1},
	};
	const struct history history = {keep_one, free_nothing, 20};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct profile_maker m;
		struct outcome outcome;

		maker_init(&m);
		make_history(&m, &history);
		m.header->flags = rows[i].flags;
		m.header->start_time_ticks = 5000 * 100;
		m.header->start_boottime_ms = 5000000 + rows[i].late_ms;
		for (uint32_t round = 0; round < history.rounds; round++)
			maker_moment(&m, round, 1000 * round + 10,
				     500 * MIB + (uint64_t)(rows[i].rss_growth * round /
							    (history.rounds - 1)),
				     MIB);
		if (rows[i].rss_at_end) {
			m.header->phase = FLMEM_PROFILE_RUNNING; /* the process has ended */
			maker_moment(&m, history.rounds - 1, 1000 * history.rounds - 10,
				     500 * MIB + (uint64_t)rows[i].rss_at_end, MIB);
		}
		outcome = find_leaks(&m);
		maker_clear(&m);
		assert_int_equal(outcome.count, 1);
		if (outcome.unconfirmed != rows[i].unconfirmed)
			fail_msg("row %zu: %sconfirmed", i, outcome.unconfirmed ? "not " : "");
	}
}

/* Some numbers have no sample: rounds that the sampler missed, or in which the job had no part. */
static void rounds_passed_are_counted_by_their_numbers(void **state)
{
	const struct flmem_heap_request request = {.path = path};
	struct flmem_heap_profile *p = NULL;
	struct flmem_heap_leaks leaks;
	struct profile_maker m;

	(void)state;
	maker_init(&m);
	for (uint32_t round = 0; round < 10; round++) {
		maker_round(&m, 3 + 5 * round, 1000 * round);
		maker_cell(&m, 0, 3 + 5 * round, MIB, 0);
	}
	maker_site(&m, maker_node(&m, FLMEM_PROFILE_ROOT, maker_python(&m, "keep", "a.py", 1)),
		   10 * MIB, 0);
	m.header->last_ms = m.header->end_ms = 10000;
	maker_write(&m, path, m.size);
	assert_int_equal(flmem_heap_profile_read(&request, &p, NULL), 0);
	assert_int_equal(flmem_heap_leaks_find(p, &leaks, NULL), 0);
	assert_int_equal(leaks.count, 1);
	assert_int_equal(leaks.periods, 10);
	assert_int_equal(leaks.round_span, 46);
	flmem_heap_leaks_clear(&leaks);
	flmem_heap_profile_free(p);
	maker_clear(&m);
}

static void growth_without_rounds_is_a_finding_as_well(void **state)
{
	struct outcome outcome;
	struct profile_maker m;

	(void)state;
	maker_init(&m);
	maker_site(&m, maker_node(&m, FLMEM_PROFILE_ROOT, maker_python(&m, "keep", "a.py", 1)),
		   32 * MIB, 0);
	for (uint32_t i = 0; i < 32; i++)
		maker_live(&m, 0, FLMEM_PROFILE_ROUND_NONE, 1000 * i, MIB);
	m.header->last_ms = m.header->end_ms = 32000;
	outcome = find_leaks(&m);
	assert_int_equal(outcome.count, 1);
	/*
	 * 1 MiB per second; young blocks may still be in use and do not count, nor does their time.
	 */
	assert_float_equal(outcome.growth, 3600.0 * MIB, MIB);
	maker_clear(&m);
}

/*
 * Reads rounds as the sampler writes them where threads continue a round while others are in the
 * next one.
 */
static struct flmem_heap_profile *read_rounds(const uint32_t *rounds, size_t count)
{
	const struct flmem_heap_request request = {.path = path};
	struct flmem_heap_profile *p = NULL;
	struct profile_maker m;

	maker_init(&m);
	for (size_t i = 0; i < count; i++) {
		maker_round(&m, rounds[i], 1000 * i);
		((struct flmem_profile_round *)(void *)(m.bytes +
							MADE_SECTION(&m, ROUNDS)->offset))[i]
			.peak_bytes = MIB * (i + 1);
		maker_moment(&m, rounds[i], 1000 * i, MIB, MIB);
	}
	m.header->last_ms = m.header->end_ms = 1000 * count;
	maker_write(&m, path, m.size);
	maker_clear(&m);
	assert_int_equal(flmem_heap_profile_read(&request, &p, NULL), 0);
	return p;
}

static void rounds_side_by_side_are_no_second_job(void **state)
{
	static const uint32_t beside[] = {1, 2, 1, 3, 2, 3}, again[] = {1, 2, 3, 1, 2, 3};
	struct flmem_heap_profile *p = read_rounds(beside, 6);

	(void)state;
	assert_int_equal(p->restarted_rounds, 0);
	assert_int_equal(p->round_count, 3);
	assert_int_equal(p->rounds[0].peak_bytes, 3 * MIB);
	assert_int_equal(p->rounds[2].peak_bytes, 6 * MIB);
	flmem_heap_profile_free(p);
	p = read_rounds(again, 6);
	assert_int_equal(p->restarted_rounds, 1);
	flmem_heap_profile_free(p);
}

static void growth_that_is_little_beside_all_else_is_none(void **state)
{
	const struct history history = {keep_one, free_nothing, 20};
	struct profile_maker m;

	(void)state;
	maker_init(&m);
	make_history(&m, &history);
	maker_site(&m, maker_node(&m, FLMEM_PROFILE_ROOT, maker_python(&m, "model", "a.py", 2)),
		   1000 * MIB, 0);
	assert_int_equal(find_leaks(&m).count, 1);
	maker_site(&m, maker_node(&m, FLMEM_PROFILE_ROOT, maker_python(&m, "more", "a.py", 3)),
		   2000 * MIB, 0);
	assert_int_equal(find_leaks(&m).count, 0);
	maker_clear(&m);
}

static uint32_t last_round;

static uint64_t free_all_at_the_end(uint32_t round)
{
	return round == last_round ? (round + 1) * MIB : 0;
}

/* The memory that a program frees when it ends leaves one round less, and too few of five. */
static void growth_up_to_an_end_needs_a_round_more(void **state)
{
	struct history history = {keep_one, free_all_at_the_end, 5};
	const struct flmem_heap_request request = {.path = path};
	struct flmem_heap_profile *p = NULL;
	struct flmem_heap_leaks leaks;
	struct profile_maker m;

	(void)state;
	last_round = 4;
	maker_init(&m);
	make_history(&m, &history);
	maker_write(&m, path, m.size);
	assert_int_equal(flmem_heap_profile_read(&request, &p, NULL), 0);
	assert_int_equal(flmem_heap_leaks_find(p, &leaks, NULL), 0);
	assert_int_equal(leaks.count, 0);
	assert_non_null(leaks.too_few);
	assert_non_null(strstr(leaks.too_few, "before the program freed its memory"));
	flmem_heap_leaks_clear(&leaks);
	flmem_heap_profile_free(p);
	maker_clear(&m);
	history.rounds = 7;
	last_round = 6;
	assert_int_equal(leaks_of(&history).count, 1);
}

/* A wrapper that starts the program has nothing to be judged by. */
static void a_profile_without_samples_is_undecided(void **state)
{
	const struct flmem_heap_request request = {.path = path};
	struct flmem_heap_profile *p = NULL;
	struct profile_maker m;

	(void)state;
	maker_init(&m);
	m.header->last_ms = m.header->end_ms = 100000;
	maker_write(&m, path, m.size);
	assert_int_equal(flmem_heap_profile_read(&request, &p, NULL), 0);
	assert_non_null(strstr(flmem_heap_leaks_too_few(p), "no samples"));
	flmem_heap_profile_free(p);
	maker_clear(&m);
}

/* Of two sites, the larger one has grown by more than RSS has. */
static void what_is_confirmed_comes_first(void **state)
{
	const struct history history = {keep_one, free_nothing, 20};
	struct outcome outcome;
	struct profile_maker m;

	(void)state;
	maker_init(&m);
	make_history(&m, &history);
	for (uint32_t round = 0; round < history.rounds; round++) {
		maker_cell(&m, 1, round, 3 * MIB, 0);
		maker_moment(&m, round, 1000 * round + 10, 500 * MIB + round * MIB, MIB);
	}
	maker_site(&m, maker_node(&m, FLMEM_PROFILE_ROOT, maker_python(&m, "more", "a.py", 2)),
		   60 * MIB, 0);
	m.header->flags = FLMEM_PROFILE_LATE;
	outcome = find_leaks(&m);
	assert_int_equal(outcome.count, 2);
	assert_false(outcome.unconfirmed);
	maker_clear(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_kept_every_few_rounds_is_a_leak),
		cmocka_unit_test(what_grows_in_a_few_jumps_is_none),
		cmocka_unit_test(a_cache_that_is_full_is_none),
		cmocka_unit_test(growth_without_rss_is_not_confirmed_in_a_late_profile),
		cmocka_unit_test(rounds_passed_are_counted_by_their_numbers),
		cmocka_unit_test(growth_without_rounds_is_a_finding_as_well),
		cmocka_unit_test(rounds_side_by_side_are_no_second_job),
		cmocka_unit_test(growth_that_is_little_beside_all_else_is_none),
		cmocka_unit_test(growth_up_to_an_end_needs_a_round_more),
		cmocka_unit_test(a_profile_without_samples_is_undecided),
		cmocka_unit_test(what_is_confirmed_comes_first),
	};
	int fd = mkstemp(path), failed;

	if (fd < 0)
		return 1;
	close(fd);
	failed = cmocka_run_group_tests_name("heap_leaks", tests, NULL, NULL);
	unlink(path);
	return failed;
}
