/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "series/policy.h"

#define SECOND UINT64_C(1000000)
#define MIB    UINT64_C(1048576)

/* A process and the clock that its rounds follow. */
struct story {
	struct flmem_policy policy;
	struct flmem_policy_decision decision;
	uint64_t now_us;
	uint64_t rss_bytes;
};

static struct story begin(unsigned every, bool fixed)
{
	const struct flmem_policy_rules rules = {
		.every_rounds = every,
		.fixed = fixed,
		.cool_down_us = SECOND,
		.check_us = 30 * SECOND,
		.min_release_bytes = MIB,
		.max_ineffective = 3,
	};
	struct story story = {.rss_bytes = 100 * MIB};

	flmem_policy_init(&story.policy, &rules);
	return story;
}

static bool occasion(struct story *s, enum flmem_policy_occasion what,
		     enum flmem_trend_verdict verdict, const char *pressure)
{
	const struct flmem_policy_inputs inputs = {
		.occasion = what,
		.now_us = s->now_us,
		.rss_bytes = s->rss_bytes,
		.verdict = verdict,
		.under_pressure = pressure != NULL,
		.pressure = pressure,
	};

	flmem_policy_decide(&s->policy, &inputs, &s->decision);
	assert_true(s->decision.trim == (s->decision.trim_reason[0] != '\0'));
	assert_true((s->decision.change != FLMEM_POLICY_SAME) ==
		    (s->decision.change_reason[0] != '\0'));
	return s->decision.trim;
}

/*
 * Ends a round 10 s after the last one. A trim that is then decided releases so much. Returns
 * whether one was decided.
 */
static bool round_ends(struct story *s, enum flmem_trend_verdict verdict, uint64_t releases)
{
	struct flmem_policy_decision after;

	s->now_us += 10 * SECOND;
	if (!occasion(s, FLMEM_POLICY_ROUND, verdict, NULL))
		return false;
	flmem_policy_done(&s->policy, s->now_us, FLMEM_KNOWN(releases),
			  FLMEM_KNOWN(s->rss_bytes - releases), &after);
	if (after.change)
		s->decision = after;
	return true;
}

static void clients_are_trimmed_after_every_round(void **state)
{
	struct story s = begin(1, false);

	(void)state;
	for (int i = 0; i < 4; i++) {
		assert_true(round_ends(&s, FLMEM_TREND_TOO_EARLY, 10 * MIB));
		assert_non_null(strstr(s.decision.trim_reason, "follows each"));
	}
}

static void servers_are_trimmed_after_every_fifth(void **state)
{
	struct story s = begin(5, false);

	(void)state;
	for (int i = 1; i <= 20; i++)
		assert_true(round_ends(&s, FLMEM_TREND_TOO_EARLY, 10 * MIB) == (i % 5 == 0));
	assert_non_null(strstr(s.decision.trim_reason, "5 rounds"));
}

static void flat_memory_loosens_by_steps_and_climbing_tightens_at_once(void **state)
{
	struct story s = begin(1, false);

	(void)state;
	for (unsigned i = 1; i < FLMEM_POLICY_FLAT_ROUNDS; i++) {
		assert_true(round_ends(&s, FLMEM_TREND_FLAT, 10 * MIB));
		assert_int_equal(s.decision.change, FLMEM_POLICY_SAME);
	}
	assert_false(round_ends(&s, FLMEM_TREND_FLAT, 10 * MIB));
	assert_int_equal(s.decision.change, FLMEM_POLICY_INTERVAL_RAISED);
	assert_int_equal(s.policy.every, 2);
	for (unsigned i = 0; i < FLMEM_POLICY_FLAT_ROUNDS; i++)
		round_ends(&s, FLMEM_TREND_FLAT, 10 * MIB);
	assert_int_equal(s.policy.every, 5);
	for (unsigned i = 0; i < 3 * FLMEM_POLICY_FLAT_ROUNDS; i++) {
		round_ends(&s, FLMEM_TREND_FLAT, 10 * MIB);
		assert_int_equal(s.decision.change, FLMEM_POLICY_SAME);
	}
	assert_int_equal(s.policy.every, 5);
	round_ends(&s, FLMEM_TREND_FLAT, 10 * MIB);
	assert_true(round_ends(&s, FLMEM_TREND_CLIMBING, 10 * MIB));
	assert_int_equal(s.decision.change, FLMEM_POLICY_INTERVAL_LOWERED);
	assert_int_equal(s.policy.every, 1);
	assert_true(round_ends(&s, FLMEM_TREND_CLIMBING, 10 * MIB));
}

static void only_flat_rounds_in_a_row_loosen(void **state)
{
	struct story s = begin(1, false);

	(void)state;
	for (int i = 0; i < 40; i++)
		assert_true(round_ends(&s, i % 4 ? FLMEM_TREND_FLAT : FLMEM_TREND_STEPPED, MIB));
	assert_int_equal(s.policy.every, 1);
}

static void a_fixed_interval_stays(void **state)
{
	struct story s = begin(3, true);

	(void)state;
	for (int i = 1; i <= 30; i++) {
		assert_true(round_ends(&s, i < 15 ? FLMEM_TREND_FLAT : FLMEM_TREND_CLIMBING, MIB) ==
			    (i % 3 == 0));
		assert_int_equal(s.decision.change, FLMEM_POLICY_SAME);
	}
}

static void a_refused_trim_is_tried_at_the_next_occasion(void **state)
{
	struct story s = begin(5, false);

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_false(occasion(&s, FLMEM_POLICY_ROUND, FLMEM_TREND_TOO_EARLY, NULL));
	for (int i = 0; i < 3; i++)
		assert_true(occasion(&s, FLMEM_POLICY_ROUND, FLMEM_TREND_TOO_EARLY, NULL));
	assert_non_null(strstr(s.decision.trim_reason, "7 rounds"));
}

static void no_two_trims_within_the_cool_down(void **state)
{
	struct story s = begin(1, false);

	(void)state;
	assert_true(round_ends(&s, FLMEM_TREND_TOO_EARLY, MIB));
	s.now_us += SECOND / 2;
	assert_false(occasion(&s, FLMEM_POLICY_ROUND, FLMEM_TREND_TOO_EARLY, NULL));
	assert_false(occasion(&s, FLMEM_POLICY_PRESSURE, FLMEM_TREND_TOO_EARLY, "short"));
	s.now_us += SECOND / 2;
	assert_true(occasion(&s, FLMEM_POLICY_ROUND, FLMEM_TREND_TOO_EARLY, NULL));
}

static void rest(struct story *s)
{
	for (int i = 0; i < 3; i++)
		assert_true(round_ends(s, FLMEM_TREND_TOO_EARLY, i == 2 ? 0 : MIB / 2));
	assert_int_equal(s->decision.change, FLMEM_POLICY_PAUSED);
	assert_non_null(strstr(s->decision.change_reason, "3 trims in a row"));
	for (int i = 0; i < 20; i++)
		assert_false(round_ends(s, FLMEM_TREND_FLAT, 0));
}

static void trims_that_bring_nothing_end(void **state)
{
	struct story s = begin(1, false);

	(void)state;
	assert_true(round_ends(&s, FLMEM_TREND_TOO_EARLY, 0));
	assert_true(round_ends(&s, FLMEM_TREND_TOO_EARLY, 0));
	assert_true(round_ends(&s, FLMEM_TREND_TOO_EARLY, 2 * MIB)); /* not in a row */
	rest(&s);
}

static void growth_wakes_and_one_more_in_vain_is_enough(void **state)
{
	struct story s = begin(1, false);

	(void)state;
	rest(&s);
	s.rss_bytes = 109 * MIB;
	assert_false(round_ends(&s, FLMEM_TREND_FLAT, 0));
	s.rss_bytes = 111 * MIB;
	s.now_us += 10 * SECOND;
	assert_true(occasion(&s, FLMEM_POLICY_ROUND, FLMEM_TREND_FLAT, NULL));
	assert_int_equal(s.decision.change, FLMEM_POLICY_RESUMED);
	flmem_policy_done(&s.policy, s.now_us, FLMEM_KNOWN(0), FLMEM_KNOWN(111 * MIB), &s.decision);
	assert_int_equal(s.decision.change, FLMEM_POLICY_PAUSED);
	s.rss_bytes = 121 * MIB;
	assert_false(round_ends(&s, FLMEM_TREND_FLAT, 0));
	s.rss_bytes = 123 * MIB;
	assert_true(round_ends(&s, FLMEM_TREND_FLAT, 20 * MIB));
	assert_true(round_ends(&s, FLMEM_TREND_FLAT, 20 * MIB));
}

static void a_leak_wakes_once_when_it_begins_to_climb(void **state)
{
	struct story s = begin(1, false);

	(void)state;
	rest(&s);
	assert_true(round_ends(&s, FLMEM_TREND_CLIMBING, 0));
	assert_int_equal(s.decision.change, FLMEM_POLICY_PAUSED);
	for (int i = 0; i < 10; i++)
		assert_false(round_ends(&s, FLMEM_TREND_CLIMBING, 0));
}

static void want_of_memory_trims_at_once_and_wakes(void **state)
{
	struct story s = begin(5, false);

	(void)state;
	assert_true(occasion(&s, FLMEM_POLICY_PRESSURE, FLMEM_TREND_FLAT, "memory is short"));
	assert_int_equal(s.decision.change, FLMEM_POLICY_INTERVAL_LOWERED);
	assert_string_equal(s.decision.change_reason, "memory is short");
	assert_string_equal(s.decision.trim_reason, "memory is short");
	assert_int_equal(s.policy.every, 1);
	rest(&s);
	assert_true(occasion(&s, FLMEM_POLICY_PRESSURE, FLMEM_TREND_FLAT, "memory is short"));
	assert_int_equal(s.decision.change, FLMEM_POLICY_RESUMED);
}

static void flat_rounds_do_not_count_while_memory_is_short(void **state)
{
	struct story s = begin(1, false);

	(void)state;
	for (int i = 0; i < 20; i++)
		occasion(&s, FLMEM_POLICY_ROUND, FLMEM_TREND_FLAT, "memory is short");
	assert_int_equal(s.policy.every, 1);
}

static void a_condition_is_looked_at_now_and_then(void **state)
{
	struct story s = begin(1, false);
	int looks = 0;

	(void)state;
	for (int i = 0; i < 120; i++) {
		bool may = flmem_policy_may_check(&s.policy, s.now_us);

		assert_true(occasion(&s, FLMEM_POLICY_CONDITION, FLMEM_TREND_FLAT, NULL) == may);
		looks += may;
		s.now_us += SECOND;
	}
	assert_int_equal(looks, 3); /* checks after 30, 60 and 90 s */
	assert_int_equal(s.policy.every, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clients_are_trimmed_after_every_round),
		cmocka_unit_test(servers_are_trimmed_after_every_fifth),
		cmocka_unit_test(flat_memory_loosens_by_steps_and_climbing_tightens_at_once),
		cmocka_unit_test(only_flat_rounds_in_a_row_loosen),
		cmocka_unit_test(a_fixed_interval_stays),
		cmocka_unit_test(a_refused_trim_is_tried_at_the_next_occasion),
		cmocka_unit_test(no_two_trims_within_the_cool_down),
		cmocka_unit_test(trims_that_bring_nothing_end),
		cmocka_unit_test(growth_wakes_and_one_more_in_vain_is_enough),
		cmocka_unit_test(a_leak_wakes_once_when_it_begins_to_climb),
		cmocka_unit_test(want_of_memory_trims_at_once_and_wakes),
		cmocka_unit_test(flat_rounds_do_not_count_while_memory_is_short),
		cmocka_unit_test(a_condition_is_looked_at_now_and_then),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
