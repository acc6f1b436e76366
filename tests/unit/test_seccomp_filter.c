/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "remote/seccomp/seccomp_filter.h"

static void an_unknown_action_is_the_worst(void **state)
{
	struct flmem_filter_outcome outcome = {0};

	(void)state;
	flmem_filter_outcome_add(&outcome, 0x7ff10000U); /* between trace and log */
	assert_int_equal(outcome.actions, 1U << FLMEM_FILTER_KILL_PROCESS);
}

/* A long filter takes time even if most of it is not reached. */
static void what_is_not_reached_counts_in_part(void **state)
{
	static struct sock_filter program[BPF_MAXINSNS];
	struct flmem_filter_outcome outcome;
	struct flmem_filter_input input;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(program); i++)
		program[i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	flmem_filter_input_any(&input, 1);
	flmem_filter_run(program, 1, &input, &outcome);
	assert_in_range(outcome.steps, 1, 2);
	flmem_filter_run(program, BPF_MAXINSNS, &input, &outcome);
	assert_in_range(outcome.steps, BPF_MAXINSNS / 32, BPF_MAXINSNS / 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_unknown_action_is_the_worst),
		cmocka_unit_test(what_is_not_reached_counts_in_part),
	};

	return cmocka_run_group_tests_name("seccomp_filter", tests, NULL, NULL);
}
