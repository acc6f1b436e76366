/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the effect of the time of samples on their number, with a clock of the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "preload/sampler/sampler.h"

#define WINDOW_NS UINT64_C(128000000)
#define SAMPLE_NS UINT64_C(2000000) /* more than 0.7 % of a window */
#define SECOND_NS UINT64_C(1000000000)

__thread struct sampler_thread sampler_thread __attribute__((tls_model("initial-exec")));
struct sampler_control sampler_control;
struct sampler_tables sampler_tables;
static struct flmem_profile_header header;
static uint64_t now_ns, used_ns;

long __wrap_sampler_kernel_enter(long number, long clock, struct timespec *ret_time);

/* The processor time of the process. */
long __wrap_sampler_kernel_enter(long number, long clock, struct timespec *ret_time)
{
	assert_int_equal(number, SYS_clock_gettime);
	assert_int_equal(clock, CLOCK_PROCESS_CPUTIME_ID);
	*ret_time = (struct timespec){(time_t)(used_ns / SECOND_NS), (long)(used_ns % SECOND_NS)};
	return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	(void)clock;
	*ret_time = (struct timespec){(time_t)(now_ns / SECOND_NS), (long)(now_ns % SECOND_NS)};
	return 0;
}

/*
 * Returns how often the interval is doubled after windows that had one sample each, while the
 * process had a processor for that part of them.
 */
static uint32_t pace_of_part(uint64_t run_ns, uint64_t sample_ns, uint32_t searches,
			     unsigned windows)
{
	header = (struct flmem_profile_header){.flags = FLMEM_PROFILE_PACED};
	sampler_tables.header = &header;
	sampler_control.paced = 0;
	sampler_control.pace_spent_ns = 0;
	sampler_control.pace_from_ns = now_ns = WINDOW_NS;
	sampler_control.pace_used_ns = used_ns = 1;
	for (unsigned i = 0; i < windows; i++) {
		struct sampler_pace pace;

		now_ns += WINDOW_NS;
		pace = sampler_pace_begin();
		pace.searches = searches;
		now_ns += sample_ns;
		used_ns += run_ns;
		sampler_pace_end(&pace);
	}
	return sampler_control.paced;
}

/* Returns the same of a process that always runs, and of long samples. */
static uint32_t pace_of(uint32_t searches, unsigned windows)
{
	return pace_of_part(WINDOW_NS + SAMPLE_NS, SAMPLE_NS, searches, windows);
}

/* A thread that lost its processor in a sample has not used that time itself. */
static void test_a_long_sample_without_searches(void **state)
{
	(void)state;
	assert_int_equal(pace_of(0, 2), 0);
}

static void test_a_long_sample_that_searched(void **state)
{
	(void)state;
	assert_int_equal(pace_of(10, 2), 0);
	assert_int_equal(pace_of(100, 1), 1);
	assert_int_equal(pace_of(100, 2), 2);
	assert_int_equal(pace_of(100, 9), 4);
}

/* On a busy machine, samples take the same part of what the process itself uses. */
static void test_a_process_that_has_a_part_of_a_processor(void **state)
{
	const uint64_t sample_ns = 400000; /* 0.31 % of a window */

	(void)state;
	assert_int_equal(pace_of_part(WINDOW_NS, sample_ns, 100, 3), 0);
	assert_int_equal(pace_of_part(WINDOW_NS / 3, sample_ns, 100, 3), 3);
	assert_int_equal(pace_of_part(8 * WINDOW_NS, sample_ns, 100, 3), 0);
}

/* Few samples of a process that waits cost nobody anything. */
static void test_a_process_that_hardly_runs(void **state)
{
	(void)state;
	assert_int_equal(pace_of_part(WINDOW_NS / 1000, 150000, 100, 3), 0);
	assert_int_equal(pace_of_part(WINDOW_NS / 1000, 400000, 100, 3), 3);
}

/* Where the kernel may not be asked, the process is taken to run all the time. */
static void test_an_unknown_part_of_a_processor(void **state)
{
	(void)state;
	assert_int_equal(pace_of_part(-UINT64_C(1), 400000, 100, 1), 0);
}

/* Samples of code that is new to the profile take longer, and only once. */
static void test_a_sample_of_new_code(void **state)
{
	struct sampler_pace pace;

	(void)state;
	assert_int_equal(pace_of(100, 1), 1);
	sampler_control.paced = 0;
	now_ns += WINDOW_NS;
	pace = sampler_pace_begin();
	pace.searches = 100;
	header.section[FLMEM_PROFILE_SECTION_NODES].used++;
	now_ns += SAMPLE_NS;
	sampler_pace_end(&pace);
	assert_int_equal(sampler_control.paced, 0);
	assert_int_equal(sampler_control.pace_spent_ns, 0);
}

/* The profile shows the least number of samples that there was. */
static void test_the_longest_interval_is_noted(void **state)
{
	(void)state;
	assert_int_equal(pace_of(100, 3), 3);
	assert_int_equal(header.paced, 3);
	sampler_control.interval_bytes = 512;
	assert_int_equal(sampler_pace_interval(), 512 << 3);
	sampler_control.interval_bytes = FLMEM_PROFILE_INTERVAL_MAX;
	assert_int_equal(sampler_pace_interval(), FLMEM_PROFILE_INTERVAL_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_long_sample_without_searches),
		cmocka_unit_test(test_a_long_sample_that_searched),
		cmocka_unit_test(test_a_process_that_has_a_part_of_a_processor),
		cmocka_unit_test(test_a_process_that_hardly_runs),
		cmocka_unit_test(test_an_unknown_part_of_a_processor),
		cmocka_unit_test(test_a_sample_of_new_code),
		cmocka_unit_test(test_the_longest_interval_is_noted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
