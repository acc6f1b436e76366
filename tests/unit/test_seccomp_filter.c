/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "remote/seccomp/seccomp_filter.h"

static void an_unknown_action_is_the_worst(void **state)
{
	struct flmem_filter_outcome outcome = {0};

	(void)state;
	flmem_filter_outcome_add(&outcome, 0x7ff10000U); /* between trace and log */
	assert_int_equal(outcome.actions, 1U << FLMEM_FILTER_KILL_PROCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_unknown_action_is_the_worst),
	};

	return cmocka_run_group_tests_name("seccomp_filter", tests, NULL, NULL);
}
