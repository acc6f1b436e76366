/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests how many generated processes of each kind are called climbing, by time and by round. With
 * FLMEM_TREND_COUNT=2000 in the environment it counts so many of each kind and prints the table, to
 * compare two criteria.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "series.h"
#include "series/history.h"

#define MIB	   1048576.0
#define SECOND	   UINT64_C(1000000)
#define LEVEL	   500.0
#define ROUNDS_MAX 300
#define COUNT	   60

/* A process whose memory, in MiB, is generated. */
struct made {
	uint64_t state;
	double noise, growth, begin; /* growth begins after that share */
	double height, teeth, phase; /* height, teeth and phase of a sawtooth */
	double step, walk;	     /* step and walk of a random walk */
	double follows, size, slow;  /* noise that follows its last value */
};

static double made_between(struct made *made, double least, double most)
{
	return least * pow(most / least, noise_uniform(&made->state));
}

static double saw_at(const struct made *made, double share, double teeth)
{
	double tooth = made->teeth * teeth * share + made->phase;

	return made->height * (tooth - floor(tooth));
}

static double long_saw_at(struct made *made, double share)
{
	return saw_at(made, share, 1);
}

static double saw_of_two_at(struct made *made, double share)
{
	return saw_at(made, share, 2);
}

static double saw_of_five_at(struct made *made, double share)
{
	return saw_at(made, share, 5);
}

static double walk_at(struct made *made, double share)
{
	(void)share;
	made->walk += made->step * noise_normal(&made->state);
	return 3 * LEVEL + made->walk;
}

static double slow_noise_at(struct made *made, double share)
{
	double fresh = sqrt(1 - made->follows * made->follows) * made->size;

	(void)share;
	made->slow = made->follows * made->slow + fresh * noise_normal(&made->state);
	return made->slow;
}

static double leak_at(struct made *made, double share)
{
	return made->growth * share;
}

static double late_leak_at(struct made *made, double share)
{
	double left = 1 - made->begin;

	return share > made->begin ? made->growth * (share - made->begin) / left : 0;
}

/* A start takes memory and gives it back: more than the leak reaches later. */
static double start_and_late_leak_at(struct made *made, double share)
{
	return late_leak_at(made, share) + (share < 0.05 ? 0.8 * LEVEL : 0);
}

static double leak_in_slow_noise_at(struct made *made, double share)
{
	return leak_at(made, share) + slow_noise_at(made, share);
}

static double leak_below_a_saw_at(struct made *made, double share)
{
	return leak_at(made, share) + saw_of_five_at(made, share) / 3;
}

/* Bounds of how many of 60 are called climbing: by time, by round. */
static const struct {
	const char *name;
	double (*bytes_at)(struct made *made, double share);
	int least[2], most[2];
} kinds[] = {
	/* 23 of 300 do not fall within the watch, as a leak does not. */
	{"less than 1.5 teeth", long_saw_at, {0, 0}, {7, 7}},
	{"1.2 to 3 teeth", saw_of_two_at, {0, 0}, {1, 1}},
	{"3 to 7.5 teeth", saw_of_five_at, {0, 0}, {1, 2}},
	{"random walk", walk_at, {0, 0}, {0, 0}},
	{"slow noise", slow_noise_at, {0, 0}, {0, 2}},
	{"leak", leak_at, {60, 60}, {60, 60}},
	{"late leak", late_leak_at, {48, 46}, {60, 60}},
	{"late leak after a start", start_and_late_leak_at, {48, 42}, {60, 60}},
	{"leak in slow noise", leak_in_slow_noise_at, {58, 58}, {60, 60}},
	{"leak below a sawtooth", leak_below_a_saw_at, {54, 54}, {60, 60}},
};

static struct made make_one(size_t kind, size_t number)
{
	struct made made = {.state = (number + 1) * 2654435761U + kind * 7919 + 17};

	for (size_t i = 0; i < 8; i++)
		noise_uniform(&made.state);
	made.noise = made_between(&made, 0.2, 5);
	made.growth = LEVEL * made_between(&made, 0.1, 1.5);
	made.begin = 0.3 + 0.45 * noise_uniform(&made.state);
	made.height = LEVEL * made_between(&made, 0.1, 1);
	made.teeth = 0.6 + 0.9 * noise_uniform(&made.state);
	made.phase = noise_uniform(&made.state);
	made.step = made_between(&made, 0.2, 5);
	made.follows = 1 - made_between(&made, 0.002, 0.05);
	made.size = made_between(&made, 1, 10);
	return made;
}

static uint64_t made_bytes(struct made *made, size_t kind, double share)
{
	double more = kinds[kind].bytes_at(made, share);

	return (uint64_t)(fmax(1, LEVEL + more + made->noise * noise_normal(&made->state)) * MIB);
}

static enum flmem_trend_verdict verdict_by_time(size_t kind, size_t number)
{
	struct flmem_trend_point points[FLMEM_HISTORY_POINTS];
	struct made made = make_one(kind, number);
	double count = made_between(&made, 240, 2880);
	static struct flmem_history history;
	struct flmem_trend trend;

	flmem_history_init(&history, 30 * SECOND);
	for (uint64_t i = 0; (double)i < count; i++)
		flmem_history_add(&history, i * 30 * SECOND,
				  made_bytes(&made, kind, (double)i / count));
	flmem_trend_measure(points, flmem_history_points(&history, points), FLMEM_TREND_BY_HOUR,
			    &trend);
	return trend.verdict;
}

static enum flmem_trend_verdict verdict_by_round(size_t kind, size_t number)
{
	struct flmem_trend_point points[ROUNDS_MAX];
	struct made made = make_one(kind, number);
	size_t count = (size_t)made_between(&made, 20, ROUNDS_MAX);
	struct flmem_trend trend;

	for (size_t i = 0; i < count; i++)
		points[i] = (struct flmem_trend_point){
			.at_us = i * 60 * SECOND,
			.round = i,
			.bytes = made_bytes(&made, kind, (double)i / (double)count)};
	flmem_trend_measure(points, count, FLMEM_TREND_BY_ROUND, &trend);
	return trend.verdict;
}

static size_t count_of_table(void)
{
	const char *wanted = getenv("FLMEM_TREND_COUNT");

	return wanted ? strtoul(wanted, NULL, 10) : 0;
}

static void what_leaks_climbs_and_little_else(void **state)
{
	size_t shown = count_of_table(), count = shown ? shown : COUNT;

	(void)state;
	for (size_t kind = 0; kind < FLMEM_ARRAY_SIZE(kinds); kind++) {
		int climbing[2] = {0, 0};

		for (size_t i = 0; i < count; i++) {
			climbing[0] += verdict_by_time(kind, i) == FLMEM_TREND_CLIMBING;
			climbing[1] += verdict_by_round(kind, i) == FLMEM_TREND_CLIMBING;
		}
		if (shown)
			printf("%-26s by time %5d, by round %5d of %zu\n", kinds[kind].name,
			       climbing[0], climbing[1], count);
		for (size_t by = 0; by < 2 && !shown; by++)
			if (climbing[by] < kinds[kind].least[by] ||
			    climbing[by] > kinds[kind].most[by])
				fail_msg("%s: %d of %d climb %s", kinds[kind].name, climbing[by],
					 COUNT, by ? "by round" : "by time");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_leaks_climbs_and_little_else),
	};

	return cmocka_run_group_tests_name("trend_kinds", tests, NULL, NULL);
}
