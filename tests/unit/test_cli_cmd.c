/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests commands and their verbs, in the table of tests/verbs, and that flmem's table keeps its
 * rules.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cmd.h"

extern const struct cmd *const __real_cmd_table[];

static void test_a_command_is_found_by_its_name(void **state)
{
	(void)state;
	assert_string_equal(cmd_find("pack")->name, "pack");
	assert_null(cmd_find("pack inspect"));
	assert_null(cmd_find("inspect"));
	assert_null(cmd_find(""));
}

static void test_a_verb_is_found_below_its_command_only(void **state)
{
	(void)state;
	assert_string_equal(cmd_find_verb(cmd_find("pack"), "inspect")->name, "pack inspect");
	assert_null(cmd_find_verb(cmd_find("probe"), "inspect"));
	assert_null(cmd_find_verb(cmd_find("pack"), "pack inspect"));
	assert_null(cmd_find_verb(cmd_find("help"), "inspect"));
}

static void test_a_verb_knows_the_command_above_it(void **state)
{
	(void)state;
	assert_ptr_equal(cmd_parent(cmd_find_verb(cmd_find("probe"), "run")), cmd_find("probe"));
	assert_null(cmd_parent(cmd_find("probe")));
}

static void test_a_name_becomes_one_word(void **state)
{
	const struct cmd *verb = cmd_find_verb(cmd_find("probe"), "table");
	char name[CMD_NAME_MAX], cut[6];

	(void)state;
	assert_string_equal(cmd_word(verb), "table");
	assert_string_equal(cmd_word(cmd_find("probe")), "probe");
	cmd_join_name(verb, '-', name, sizeof(name));
	assert_string_equal(name, "probe-table");
	cmd_join_name(cmd_find("pack"), '-', name, sizeof(name));
	assert_string_equal(name, "pack");
	cmd_join_name(verb, '_', cut, sizeof(cut));
	assert_string_equal(cut, "probe");
}

static void test_the_nearest_word_is_of_the_same_list(void **state)
{
	(void)state;
	assert_string_equal(cmd_nearest(cmd_find("probe")->verbs, "tabel"), "table");
	assert_string_equal(cmd_nearest(cmd_table, "pakc"), "pack");
	assert_null(cmd_nearest(cmd_table, "tabel"));
	assert_null(cmd_nearest(cmd_find("help")->verbs, "run"));
}

static void assert_well_formed(const struct cmd *cmd, const struct cmd *above)
{
	size_t length = above ? strlen(above->name) + 1 : 0;

	assert_true(strlen(cmd->name) < CMD_NAME_MAX);
	assert_ptr_equal(cmd_word(cmd), cmd->name + length);
	if (above)
		assert_memory_equal(cmd->name, above->name, length - 1);
	for (const char *p = cmd_word(cmd); *p; p++)
		assert_true(islower((unsigned char)*p) || *p == '-');
	assert_non_null(cmd->options);
	assert_true(cmd->run || cmd->verbs);
	assert_true(cmd->summary[strlen(cmd->summary) - 1] != '.');
}

static void assert_table_well_formed(const struct cmd *const *table, const struct cmd *above)
{
	for (const struct cmd *const *c = table; c && *c; c++) {
		assert_well_formed(*c, above);
		assert_true(!above || !(*c)->verbs); /* two words at most */
		for (const struct cmd *const *other = table; other < c; other++)
			assert_string_not_equal((*other)->name, (*c)->name);
		assert_table_well_formed((*c)->verbs, *c);
	}
}

static void test_the_commands_of_flmem_are_well_formed(void **state)
{
	(void)state;
	assert_non_null(__real_cmd_table[0]);
	assert_table_well_formed(__real_cmd_table, NULL);
	assert_table_well_formed(cmd_table, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_command_is_found_by_its_name),
		cmocka_unit_test(test_a_verb_is_found_below_its_command_only),
		cmocka_unit_test(test_a_verb_knows_the_command_above_it),
		cmocka_unit_test(test_a_name_becomes_one_word),
		cmocka_unit_test(test_the_nearest_word_is_of_the_same_list),
		cmocka_unit_test(test_the_commands_of_flmem_are_well_formed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
