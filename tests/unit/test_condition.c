/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/condition.h>

#include "base/cleanup.h"

#define GIB ((uint64_t)1 << 30)

/* RSS 10 GiB, trimmable 3 GiB, no swap, 12 of 16 GiB used of the limit; cached is not known. */
static struct flmem_process_report sample(void)
{
	struct flmem_process_report report = {
		.memory = {.rss_bytes = FLMEM_KNOWN(10 * GIB), .anon_bytes = FLMEM_KNOWN(9 * GIB)},
		.heap = FLMEM_HEAP_UNKNOWN("not reported"),
		.limit = {.cgroup_max_bytes = FLMEM_KNOWN(16 * GIB),
			  .headroom_bytes = FLMEM_KNOWN(4 * GIB)},
	};

	report.heap.trimmable_bytes = FLMEM_KNOWN(3 * GIB);
	return report;
}

static enum flmem_truth check(const char *text, const char **why)
{
	const struct flmem_process_report report = sample();
	struct flmem_condition *condition = NULL;
	struct flmem_error err = {0};
	enum flmem_truth truth;

	if (flmem_condition_parse(text, &condition, &err))
		fail_msg("%s: %s", text, err.message);
	truth = flmem_condition_check(condition, &report, why);
	flmem_condition_free(condition);
	return truth;
}

static void conditions_mean_what_they_say(void **state)
{
	static const struct {
		const char *text;
		enum flmem_truth truth;
	} rows[] = {
		{"rss > 8G", FLMEM_TRUE},
		{"rss>10G", FLMEM_FALSE},
		{"rss>=10G", FLMEM_TRUE},
		{"rss<10G", FLMEM_FALSE},
		{"rss<=10GiB", FLMEM_TRUE},
		{"RSS > 8G", FLMEM_TRUE},
		{"trimmable > 20%", FLMEM_TRUE},
		{"trimmable > 30%", FLMEM_FALSE},
		{"trimmable >= 30%", FLMEM_TRUE},
		{"trimmable < 30.001%", FLMEM_TRUE},
		{"anon >= 90%", FLMEM_TRUE},
		{"cgroup >= 75%", FLMEM_TRUE},
		{"cgroup > 12G", FLMEM_FALSE},
		{"headroom < 4.5GiB", FLMEM_TRUE},
		{"headroom <= 25%", FLMEM_TRUE},
		{"swap > 0", FLMEM_FALSE},
		{"rss > 8G and trimmable > 20%", FLMEM_TRUE},
		{"rss > 8G && swap > 0", FLMEM_FALSE},
		{"rss > 80G or trimmable > 1G", FLMEM_TRUE},
		{"rss > 80G || swap > 0", FLMEM_FALSE},
		{"not swap > 0", FLMEM_TRUE},
		{"!swap > 0", FLMEM_TRUE},
		{"not not rss > 1", FLMEM_TRUE},
		/* `and` precedes `or`, but not both orders */
		{"rss > 1 or rss > 1 and swap > 0", FLMEM_TRUE},
		{"(rss > 1 or rss > 1) and swap > 0", FLMEM_FALSE},
		{"not swap > 0 and rss > 80G", FLMEM_FALSE},
		{"not (swap > 0 and rss > 80G)", FLMEM_TRUE},
		{"\t( (rss>8G) )  ", FLMEM_TRUE},
		/* cached is not known */
		{"cached > 1", FLMEM_UNDECIDED},
		{"not cached > 1", FLMEM_UNDECIDED},
		{"cached > 1 and rss > 80G", FLMEM_FALSE},
		{"cached > 1 and rss > 8G", FLMEM_UNDECIDED},
		{"cached > 1 or rss > 8G", FLMEM_TRUE},
		{"in-use > 10% or rss > 80G", FLMEM_UNDECIDED},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		const char *why = "left";

		if (check(rows[i].text, &why) != rows[i].truth)
			fail_msg("%s is not %d", rows[i].text, (int)rows[i].truth);
		if (rows[i].truth == FLMEM_UNDECIDED)
			assert_string_equal(why, "not reported");
		else
			assert_null(why);
	}
}

static void mistakes_are_reported_with_their_place(void **state)
{
	static const struct {
		const char *text, *complaint;
	} rows[] = {
		{"", "at character 1: expected a figure"},
		{"rss", "at character 4: expected one of > >= < <="},
		{"rss = 8G", "at character 5: expected one of"},
		{"rss > ", "at character 7: expected a size or a percentage"},
		{"rss > 8Q", "at character 7: invalid size or percentage"},
		{"rss > 8Gand", "at character 7: invalid size or percentage"},
		{"rss > 8G andd swap > 0", "at character 10: expected `and`, `or` or the end"},
		{"rss > 8G swap > 0", "at character 10: expected `and`, `or` or the end"},
		{"rss > 8G)", "at character 9: expected `and`, `or` or the end"},
		{"(rss > 8G", "at character 10: expected ')'"},
		{"rsss > 8G", "at character 1: unknown figure; choose from rss"},
		{"rss > 8G and", "at character 13: expected a figure"},
		{"not", "at character 4: expected a figure"},
		{"rss > 20%", "at character 7: a percentage refers to rss"},
		{"swap > 20.5.5%", "at character 8: invalid percentage"},
		{"swap > .5%", "at character 8: invalid percentage"},
		{"swap > 1001%", "at character 8: invalid percentage"},
		{"swap > 99999999999999999999%", "at character 8: invalid percentage"},
		{"swap > 99999999999999999999", "at character 8: invalid size or percentage"},
		{"swap > -1", "at character 8: expected a size or a percentage"},
		{"\x1b[31mrss > 1", "condition '\\x1b[31mrss > 1', at character 1"},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_condition *condition = NULL;
		struct flmem_error err = {0};

		assert_int_equal(flmem_condition_parse(rows[i].text, &condition, &err),
				 FLMEM_EUSAGE);
		assert_null(condition);
		if (!strstr(err.message, rows[i].complaint))
			fail_msg("'%s': %s", rows[i].text, err.message);
	}
}

static int parse_repeated(const char *before, const char *each, const char *after, size_t count)
{
	struct flmem_condition *condition = NULL;
	char text[8192];
	size_t used;
	int rc;

	used = (size_t)snprintf(text, sizeof(text), "%s", before);
	for (size_t i = 0; i < count; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s", each);
	snprintf(text + used, sizeof(text) - used, "%s", after);
	rc = flmem_condition_parse(text, &condition, NULL);
	flmem_condition_free(condition);
	return rc;
}

static void large_conditions_are_refused(void **state)
{
	(void)state;
	assert_int_equal(parse_repeated("rss>1", " or rss>1", "", 63), 0);
	assert_int_equal(parse_repeated("rss>1", " or rss>1", "", 64), FLMEM_EUSAGE);
	assert_int_equal(parse_repeated("", "!", "rss>1", 32), 0);
	assert_int_equal(parse_repeated("", "!", "rss>1", 33), FLMEM_EUSAGE);
	assert_int_equal(parse_repeated("", "(", "rss>1", 33), FLMEM_EUSAGE);
	assert_int_equal(parse_repeated("", " ", "rss>1", 1019), 0);
	assert_int_equal(parse_repeated("", " ", "rss>1", 1020), FLMEM_EUSAGE);
}

static void the_heap_is_read_only_when_it_is_needed(void **state)
{
	struct flmem_condition *condition = NULL;

	(void)state;
	assert_int_equal(flmem_condition_parse("rss>1 or swap>1%", &condition, NULL), 0);
	assert_false(flmem_condition_needs_heap(condition));
	flmem_condition_free(condition);
	assert_int_equal(flmem_condition_parse("rss>1 and free>1%", &condition, NULL), 0);
	assert_true(flmem_condition_needs_heap(condition));
	flmem_condition_free(condition);
}

/* The message has room for every figure. */
static void the_complaint_names_every_figure(void **state)
{
	struct flmem_condition *condition = NULL;
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(flmem_condition_parse("x > 1", &condition, &err), FLMEM_EUSAGE);
	for (int i = 0; i < FLMEM_CONDITION_FIELD_COUNT; i++) {
		const char *name = flmem_condition_field_name((enum flmem_condition_field)i);

		assert_non_null(strstr(err.message, name));
		assert_true(*flmem_condition_field_meaning((enum flmem_condition_field)i));
	}
	assert_null(flmem_condition_field_name(FLMEM_CONDITION_FIELD_COUNT));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(conditions_mean_what_they_say),
		cmocka_unit_test(mistakes_are_reported_with_their_place),
		cmocka_unit_test(large_conditions_are_refused),
		cmocka_unit_test(the_heap_is_read_only_when_it_is_needed),
		cmocka_unit_test(the_complaint_names_every_figure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
