/* SPDX-License-Identifier: Apache-2.0 */
/* Values that rules need of a whole file are computed once, however many parts the file has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "rules/rules.h"

#define PARTS 1000

static const struct flmem_input_kind kind = {.parts = "parts"};

static size_t computed, checked;

static void compute_first(const struct flmem_check *check, struct flmem_memo *ret_value)
{
	computed++;
	ret_value->number = check->input->document.root->first->place.line;
	ret_value->texts[0] = check->input->file;
}

static void compute_second(const struct flmem_check *check, struct flmem_memo *ret_value)
{
	computed++;
	ret_value->number = flmem_check_memo(check, compute_first).number + 1;
}

static void check_part(struct flmem_check *check)
{
	struct flmem_memo first = flmem_check_memo(check, compute_first);

	checked++;
	assert_string_equal(first.texts[0], check->input->file);
	assert_int_equal(flmem_check_memo(check, compute_second).number, first.number + 1);
}

static void read_parts(struct flmem_rule_input *input)
{
	struct flmem_buf text = FLMEM_BUF_INIT;

	flmem_buf_puts(&text, "{\"parts\": [{}");
	for (size_t i = 1; i < PARTS; i++)
		flmem_buf_puts(&text, ", {}");
	flmem_buf_puts(&text, "]}");
	assert_int_equal(flmem_document_read(FLMEM_SYNTAX_JSON, &text, &input->document, NULL), 0);
}

static void values_of_a_file_are_computed_once(void **state)
{
	static const struct flmem_rule_row rows[] = {
		{.rule = {.id = "X"}, .inputs = {&kind}, .parts = true, .check = check_part},
	};
	static const struct flmem_rule_table table = {rows, FLMEM_ARRAY_SIZE(rows)};
	struct flmem_rule_input inputs[2] = {{.kind = &kind, .file = "a"},
					     {.kind = &kind, .file = "b"}};
	const struct flmem_bundle bundle = {.inputs = inputs, .count = 2};
	const struct flmem_version_number release = {0};
	struct flmem_recommendations found = {0};

	(void)state;
	for (size_t i = 0; i < 2; i++)
		read_parts(&inputs[i]);
	assert_int_equal(flmem_rules_run(&table, &bundle, &release, &found, NULL), 0);
	assert_int_equal(checked, 2 * PARTS);
	assert_int_equal(computed, 4); /* two values of two files */
	for (size_t i = 0; i < 2; i++)
		flmem_document_clear(&inputs[i].document);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_of_a_file_are_computed_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
