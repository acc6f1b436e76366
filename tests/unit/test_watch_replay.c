/* SPDX-License-Identifier: Apache-2.0 */
/* Tests what a replay makes of the records: warm-ups, kinds of memory, rounds, ended processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ops/watch/watch_state.h"

#define SECOND UINT64_C(1000000)
#define AT     (UINT64_C(1700000000) * SECOND)

#define EVENTS_MAX 1024
#define PAGE	   4096 /* sizes are recorded in pages */

/* Adds a word per report: "s7:5" for a sample of pid 7 with 5 pages, "+" with kinds of memory. */
static void add_word(char *events, const char *kind, int pid, int number, const char *more)
{
	size_t used = strlen(events);

	assert_true(snprintf(events + used, EVENTS_MAX - used, "%s%d:%d%s ", kind, pid, number,
			     more) < (int)(EVENTS_MAX - used));
}

static bool note_sample(void *context, const struct flmem_watch_sample *sample)
{
	add_word(context, "s", (int)sample->process->pid, (int)(sample->rss_bytes / PAGE),
		 sample->split ? "+" : "");
	return true;
}

static bool note_round(void *context, const struct flmem_watch_round *round)
{
	add_word(context, "r", (int)round->process->pid, (int)round->number, "");
	return true;
}

/* Replays the records as one session, and returns the words of its reports. */
static void replay_of(const struct flmem_record *records, size_t count, char *events,
		      struct flmem_watch_summary *ret_summary)
{
	char path[] = "/tmp/flmem-replay-XXXXXX";
	const struct flmem_watch_options options = {.stop_fd = -1};
	const struct flmem_watch_callbacks callbacks = {
		.context = events, .sample = note_sample, .round = note_round};
	const struct flmem_record session = {
		.kind = FLMEM_RECORD_SESSION, .interval_us = SECOND, .at_us = AT};
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	{
		FLMEM_AUTO(flmem_recorder_close)
		struct flmem_recorder recorder = {
			.fd = -1, .block = FLMEM_BUF_INIT, .intro = FLMEM_BUF_INIT};

		assert_int_equal(flmem_recorder_open(path, &recorder, NULL), 0);
		flmem_recorder_add(&recorder, &session);
		for (size_t i = 0; i < count; i++)
			flmem_recorder_add(&recorder, &records[i]);
	}
	*events = '\0';
	assert_int_equal(flmem_watch_replay(path, &options, &callbacks, ret_summary, NULL), 0);
	unlink(path);
}

#define PROCESS(at, number)                                                     \
	{                                                                       \
		.kind = FLMEM_RECORD_PROCESS, .process = (at), .pid = (number), \
		.start_time = (number), .command = "worker", .site = ""         \
	}
#define TICK(s)                                                                               \
	{                                                                                     \
		.kind = FLMEM_RECORD_TICK, .elapsed_us = (s)*SECOND, .at_us = AT + (s)*SECOND \
	}
#define SAMPLE(at, size)                                                           \
	{                                                                          \
		.kind = FLMEM_RECORD_SAMPLE, .process = (at), .bytes = (size)*PAGE \
	}
#define SPLIT(at)                                                       \
	{                                                               \
		.kind = FLMEM_RECORD_SPLIT, .process = (at), .kinds = { \
			PAGE,                                           \
			2 * PAGE,                                       \
			3 * PAGE,                                       \
			4 * PAGE                                        \
		}                                                       \
	}
#define OWN(at)                                                  \
	{                                                        \
		.kind = FLMEM_RECORD_OWN_ROUNDS, .process = (at) \
	}
#define START(at, n)                                                          \
	{                                                                     \
		.kind = FLMEM_RECORD_OWN_START, .process = (at), .round = (n) \
	}
#define DONE(at, n)                                                         \
	{                                                                   \
		.kind = FLMEM_RECORD_OWN_END, .process = (at), .round = (n) \
	}
#define END(at)                                           \
	{                                                 \
		.kind = FLMEM_RECORD_END, .process = (at) \
	}
#define BEGIN(n)                                               \
	{                                                      \
		.kind = FLMEM_RECORD_ROUND_START, .round = (n) \
	}
#define FINISH(n)                                            \
	{                                                    \
		.kind = FLMEM_RECORD_ROUND_END, .round = (n) \
	}

/* Kinds of memory that were not read again do not belong to the next sample. */
static void kinds_of_memory_belong_to_the_sample_behind_them(void **state)
{
	static const struct flmem_record records[] = {
		PROCESS(0, 7), PROCESS(1, 8), TICK(0),	    SPLIT(0),	  SAMPLE(0, 1),
		SAMPLE(1, 2),  TICK(1),	      SAMPLE(0, 3), SAMPLE(1, 4), TICK(2),
		SPLIT(1),      SAMPLE(0, 5),  SAMPLE(1, 6),
	};
	struct flmem_watch_summary summary;
	char events[EVENTS_MAX];

	(void)state;
	replay_of(records, FLMEM_ARRAY_SIZE(records), events, &summary);
	assert_string_equal(events, "s7:1+ s8:2 s7:3 s8:4 s7:5 s8:6+ ");
	assert_int_equal(summary.count, 2);
	assert_int_equal(summary.results[0].split.anon_bytes.value, PAGE);
	assert_int_equal(summary.results[0].split.swap_bytes.value, 4 * PAGE);
	flmem_watch_summary_clear(&summary);
}

/* Samples and rounds after the end of a process do not count; those of other processes do. */
static void nothing_counts_for_a_process_that_has_ended(void **state)
{
	static const struct flmem_record records[] = {
		PROCESS(0, 7), PROCESS(1, 8), OWN(0),	   OWN(1),	TICK(0),      SAMPLE(0, 1),
		SAMPLE(1, 1),  START(0, 1),   START(1, 1), TICK(1),	SAMPLE(0, 2), SAMPLE(1, 2),
		END(0),	       DONE(0, 1),    DONE(1, 1),  START(0, 2), START(1, 2),  TICK(2),
		SAMPLE(0, 3),  SAMPLE(1, 3),  DONE(0, 2),  DONE(1, 2),
	};
	struct flmem_watch_summary summary;
	char events[EVENTS_MAX];

	(void)state;
	replay_of(records, FLMEM_ARRAY_SIZE(records), events, &summary);
	assert_string_equal(events, "s7:1 s8:1 s7:2 s8:2 s8:3 r8:1 r8:2 ");
	assert_true(summary.results[0].ended);
	assert_int_equal(summary.results[0].rounds, 0);
	assert_int_equal(summary.results[0].samples, 2);
	assert_false(summary.results[1].ended);
	assert_int_equal(summary.results[1].rounds, 2);
	flmem_watch_summary_clear(&summary);
}

/* Rounds of the watch count for each process; a number without a process does not count. */
static void rounds_count_for_all_that_run(void **state)
{
	static const struct flmem_record records[] = {
		PROCESS(0, 7), PROCESS(1, 8), TICK(0),	    SAMPLE(0, 1), SAMPLE(1, 1), BEGIN(4),
		TICK(1),       SAMPLE(0, 2),  SAMPLE(1, 2), SAMPLE(9, 2), FINISH(4),	END(9),
	};
	struct flmem_watch_summary summary;
	char events[EVENTS_MAX];

	(void)state;
	replay_of(records, FLMEM_ARRAY_SIZE(records), events, &summary);
	assert_string_equal(events, "s7:1 s8:1 s7:2 s8:2 r7:4 r8:4 ");
	assert_int_equal(summary.count, 2);
	flmem_watch_summary_clear(&summary);
}

/*
 * Replays rounds of a process from 100 on, with its own or those of the watch, all of one size. For
 * a process that began during the watch, the first rounds are the warm-up.
 */
static size_t points_of(uint64_t began_s)
{
	enum {
		ROUNDS = 12
	};
	struct flmem_record records[4 + ROUNDS * 4];
	struct flmem_watch_summary summary;
	size_t count = 0, points;
	char events[EVENTS_MAX] = "";

	records[count++] = (struct flmem_record)PROCESS(0, 7);
	records[count++] = (struct flmem_record)TICK(began_s);
	records[count++] = (struct flmem_record)PROCESS(1, 8);
	records[count++] = (struct flmem_record)SAMPLE(1, 256);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		records[count++] = (struct flmem_record)BEGIN(100 + i);
		records[count++] = (struct flmem_record)TICK(began_s + 10 * i + 5);
		records[count++] = (struct flmem_record)SAMPLE(1, 256);
		records[count++] = (struct flmem_record)FINISH(100 + i);
	}
	replay_of(records, count, events, &summary);
	points = summary.results[1].trend.points;
	assert_int_equal(summary.results[1].trend.basis, FLMEM_TREND_BY_ROUND);
	assert_int_equal(summary.results[1].rounds, ROUNDS);
	flmem_watch_summary_clear(&summary);
	return points;
}

static void the_warm_up_is_of_what_began_during_the_watch(void **state)
{
	(void)state;
	assert_int_equal(points_of(0), points_of(1) + FLMEM_ROUND_WARM_UP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds_of_memory_belong_to_the_sample_behind_them),
		cmocka_unit_test(nothing_counts_for_a_process_that_has_ended),
		cmocka_unit_test(rounds_count_for_all_that_run),
		cmocka_unit_test(the_warm_up_is_of_what_began_during_the_watch),
	};

	return cmocka_run_group_tests_name("watch_replay", tests, NULL, NULL);
}
