/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's scheduling while a thread waits for it, and afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/prctl.h>
#include <sys/resource.h>

#include "remote/priority.h"

#define NICE	 5
#define SLACK_NS 70000UL

static int nice_now(void)
{
	return getpriority(PRIO_PROCESS, 0);
}

static unsigned long slack_now(void)
{
	return (unsigned long)prctl(PR_GET_TIMERSLACK);
}

static void the_caller_gets_all_back(void **state)
{
	(void)state;
	assert_int_equal(setpriority(PRIO_PROCESS, 0, NICE), 0);
	assert_int_equal(prctl(PR_SET_TIMERSLACK, SLACK_NS), 0);
	{
		FLMEM_AUTO_PRIORITY struct flmem_priority priority = flmem_priority_raise();

		assert_int_equal(slack_now(), 1);
		if (priority.raised)
			assert_int_equal(nice_now(), -20);
		else
			print_message("SKIP: the priority cannot be raised here\n");
	}
	assert_int_equal(nice_now(), NICE);
	assert_int_equal(slack_now(), SLACK_NS);
}

/* What is restored twice, or never was raised, changes nothing. */
static void nothing_is_restored_that_was_not_changed(void **state)
{
	struct flmem_priority priority = flmem_priority_raise();

	(void)state;
	flmem_priority_restore(&priority);
	prctl(PR_SET_TIMERSLACK, SLACK_NS + 1);
	flmem_priority_restore(&priority);
	assert_int_equal(nice_now(), NICE);
	assert_int_equal(slack_now(), SLACK_NS + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_caller_gets_all_back),
		cmocka_unit_test(nothing_is_restored_that_was_not_changed),
	};

	return cmocka_run_group_tests_name("priority", tests, NULL, NULL);
}
