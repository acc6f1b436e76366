/* SPDX-License-Identifier: Apache-2.0 */
/* Counts with their nouns, and messages with a count of one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/recommend.h>
#include <flmem/report.h>
#include <flmem/text.h>

#include "base/cleanup.h"
#include "series/policy.h"

static void nouns_have_the_number_of_their_count(void **state)
{
	static const struct {
		uint64_t count;
		const char *noun, *text;
	} rows[] = {
		{0, "round", "0 rounds"},
		{1, "round", "1 round"},
		{2, "round", "2 rounds"},
		{UINT64_MAX, "byte", "18446744073709551615 bytes"},
		{1, "process", "1 process"},
		{2, "process", "2 processes"},
		{0, "exited process", "0 exited processes"},
		{1, "exited process", "1 exited process"},
		{2, "entry", "2 entries"},
		{1, "entry", "1 entry"},
		{2, "day", "2 days"},
		{3, "GPU", "3 GPUs"},
		{2, "box", "2 boxes"},
		{2, "batch", "2 batches"},
		{2, "hash", "2 hashes"},
		{11, "thread", "11 threads"},
		{21, "arena", "21 arenas"},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		char out[FLMEM_TEXT_COUNTED_MAX];

		assert_string_equal(
			flmem_text_counted(rows[i].count, rows[i].noun, out, sizeof(out)),
			rows[i].text);
	}
}

/* One round between two trims, and one ineffective trim. */
static void decisions_with_a_count_of_one_are_sentences(void **state)
{
	static const struct flmem_policy_rules rules = {
		.every_rounds = 2, .min_release_bytes = 10, .max_ineffective = 1};
	struct flmem_policy_inputs inputs = {.verdict = FLMEM_TREND_FLAT};
	struct flmem_policy_decision decision;
	struct flmem_policy policy;

	(void)state;
	flmem_policy_init(&policy, &rules);
	flmem_policy_decide(&policy, &inputs, &decision);
	flmem_policy_decide(&policy, &inputs, &decision);
	assert_string_equal(decision.trim_reason, "2 rounds have ended since the last trim");
	flmem_policy_done(&policy, 1, FLMEM_KNOWN(0), FLMEM_KNOWN(1), &decision);
	assert_string_equal(decision.change_reason,
			    "1 trim in a row has lowered RSS by almost nothing");
}

static void one_checked_file_is_one(void **state)
{
	struct flmem_recommendations found = {.file_count = 1};
	FLMEM_AUTO_FREE char *text = flmem_report_recommend_junit(&found);

	(void)state;
	assert_non_null(text);
	assert_non_null(strstr(text, "name=\"1 file checked\""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nouns_have_the_number_of_their_count),
		cmocka_unit_test(decisions_with_a_count_of_one_are_sentences),
		cmocka_unit_test(one_checked_file_is_one),
	};

	return cmocka_run_group_tests_name("counted", tests, NULL, NULL);
}
