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

struct sampler_control sampler_control;
struct sampler_tables sampler_tables;
static struct flmem_profile_header header;
static uint64_t now_ns;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	(void)clock;
	*ret_time = (struct timespec){(time_t)(now_ns / SECOND_NS), (long)(now_ns % SECOND_NS)};
	return 0;
}

/* Returns how often the interval is doubled after windows that had one such sample each. */
static uint32_t pace_of(uint32_t searches, unsigned windows)
{
	header = (struct flmem_profile_header){.flags = FLMEM_PROFILE_PACED};
	sampler_tables.header = &header;
	sampler_control.paced = 0;
	sampler_control.pace_spent_ns = 0;
	sampler_control.pace_from_ns = now_ns = WINDOW_NS;
	for (unsigned i = 0; i < windows; i++) {
		struct sampler_pace pace;

		now_ns += WINDOW_NS;
		pace = sampler_pace_begin();
		pace.searches = searches;
		now_ns += SAMPLE_NS;
		sampler_pace_end(&pace);
	}
	return sampler_control.paced;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_long_sample_without_searches),
		cmocka_unit_test(test_a_long_sample_that_searched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
