/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how often generated processes of known growth by round get which verdict. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <flmem/trend.h>

#include "series.h"

#define LEVEL	   (400 * 1048576.0)
#define NOISE	   (0.002 * LEVEL)
#define ROUNDS_MAX 400
#define PROCESSES  18

struct process {
	size_t rounds;
	double growth;	/* growth in all rounds together, as a share of the level */
	size_t period;	/* period of collections, in rounds; 0: none */
	double warm_up; /* a share of the level, in the first tenth of the rounds */
};

static const size_t lengths[] = {20, 40, 64, 65, 80, 128, 200, 400};
#define LENGTHS (sizeof(lengths) / sizeof(*lengths))

static enum flmem_trend_verdict verdict_of(const struct process *process, uint64_t seed)
{
	static struct flmem_trend_point points[ROUNDS_MAX];
	uint64_t state = seed * 2654435761U + 12345;
	double first = (double)process->rounds / 10;
	struct flmem_trend trend;

	for (size_t i = 0; i < process->rounds; i++) {
		double share = (double)i / (double)process->rounds * process->growth;

		if (process->period)
			share += 0.4 * (double)((i + seed) % process->period) /
				 (double)(process->period - 1);
		share +=
			(double)i < first ? process->warm_up * (double)i / first : process->warm_up;
		points[i] = (struct flmem_trend_point){
			.at_us = UINT64_C(30000000) * i,
			.round = i,
			.bytes = (uint64_t)(LEVEL * (1 + share) + NOISE * noise_normal(&state))};
	}
	flmem_trend_measure(points, process->rounds, FLMEM_TREND_BY_ROUND, &trend);
	return trend.verdict;
}

static int count_verdicts(const struct process *process, enum flmem_trend_verdict verdict)
{
	int count = 0;

	for (uint64_t seed = 1; seed <= PROCESSES; seed++)
		count += verdict_of(process, seed) == verdict;
	return count;
}

static void processes_that_rise_by_round_are_climbing(void **state)
{
	static const double growths[] = {0.05, 0.1, 0.2, 1};

	(void)state;
	for (size_t i = 0; i < LENGTHS; i++)
		for (size_t g = 0; g < sizeof(growths) / sizeof(*growths); g++) {
			const struct process rises = {.rounds = lengths[i], .growth = growths[g]};

			assert_int_equal(count_verdicts(&rises, FLMEM_TREND_CLIMBING), PROCESSES);
		}
}

static void processes_that_do_not_rise_are_flat(void **state)
{
	(void)state;
	for (size_t i = 0; i < LENGTHS; i++) {
		const struct process flat = {.rounds = lengths[i]};
		const struct process warms = {.rounds = lengths[i], .warm_up = 0.3};

		assert_in_range(count_verdicts(&flat, FLMEM_TREND_FLAT), PROCESSES - 1, PROCESSES);
		assert_int_equal(count_verdicts(&warms, FLMEM_TREND_CLIMBING), 0);
		assert_int_equal(count_verdicts(&warms, FLMEM_TREND_FALLING), 0);
	}
}

/* With more than 64 rounds each point is an average, in which teeth vanish or become others. */
static void teeth_hide_no_growth_in_many_rounds(void **state)
{
	(void)state;
	for (size_t i = 3; i < LENGTHS; i++)
		for (size_t period = 2; period < 10; period++) {
			const struct process level = {.rounds = lengths[i], .period = period};
			const struct process rises = {
				.rounds = lengths[i], .period = period, .growth = 0.1};
			const struct process soars = {
				.rounds = lengths[i], .period = period, .growth = 0.2};

			assert_in_range(count_verdicts(&level, FLMEM_TREND_CLIMBING), 0, 1);
			assert_in_range(count_verdicts(&rises, FLMEM_TREND_FLAT), 0, 1);
			if (lengths[i] >= 128)
				assert_in_range(count_verdicts(&soars, FLMEM_TREND_CLIMBING),
						PROCESSES - 1, PROCESSES);
		}
}

/* Growth seems to occur between one or two teeth, and ends where it began. */
static void few_teeth_are_no_growth(void **state)
{
	(void)state;
	for (size_t rounds = 15; rounds < 65; rounds += 3)
		for (size_t period = 2; period < 10 && 3 * period <= 2 * rounds; period++) {
			const struct process level = {.rounds = rounds, .period = period};
			const struct process soars = {
				.rounds = rounds, .period = period, .growth = 1.5};

			assert_in_range(count_verdicts(&level, FLMEM_TREND_CLIMBING), 0, 1);
			assert_in_range(count_verdicts(&soars, FLMEM_TREND_CLIMBING), PROCESSES - 2,
					PROCESSES);
		}
}

/* The later half or quarter of the rounds may be within one tooth. */
static void a_tooth_in_the_later_half_is_no_growth(void **state)
{
	int climbing = 0;

	(void)state;
	for (size_t rounds = 39; rounds < 65; rounds += 3)
		for (size_t period = 12; period < 20; period++) {
			const struct process level = {.rounds = rounds, .period = period};

			climbing += count_verdicts(&level, FLMEM_TREND_CLIMBING);
		}
	assert_in_range(climbing, 0, 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_that_rise_by_round_are_climbing),
		cmocka_unit_test(processes_that_do_not_rise_are_flat),
		cmocka_unit_test(teeth_hide_no_growth_in_many_rounds),
		cmocka_unit_test(few_teeth_are_no_growth),
		cmocka_unit_test(a_tooth_in_the_later_half_is_no_growth),
	};

	return cmocka_run_group_tests_name("trend_sweep", tests, NULL, NULL);
}
