/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "options/opt.h"

struct options {
	bool json;
	const char *name;
	uint64_t count;
	uint64_t bytes;
	uint64_t wait_us;
	pid_t tree;
	struct opt_pids pids;
	const char *role;
	struct opt_texts logs;
};

static const char *const roles[] = {"server", "client", NULL};

static const struct opt table[] = {
	{"json", 'j', OPT_FLAG, offsetof(struct options, json), .help = "json"},
	{"name", 'n', OPT_TEXT, offsetof(struct options, name), "REGEX", .help = "name"},
	{"count", 0, OPT_NUMBER, offsetof(struct options, count), "N", .help = "count"},
	{"min-rss", 0, OPT_SIZE, offsetof(struct options, bytes), "SIZE", .help = "rss"},
	{"settle", 0, OPT_DURATION, offsetof(struct options, wait_us), "TIME", .help = "wait",
	 .zero = true},
	{"tree", 0, OPT_PID, offsetof(struct options, tree), "PID", .help = "tree"},
	{"pid", 'p', OPT_PIDS, offsetof(struct options, pids), "PID", .help = "pid"},
	{"role", 0, OPT_CHOICE, offsetof(struct options, role), .choices = roles, .help = "role"},
	{"log", 0, OPT_TEXTS, offsetof(struct options, logs), "FILE", .help = "log"},
	{0},
};

#define WORDS_MAX 16

/* A command line that the parser may reorder, its results, and the remaining words. */
struct line {
	char *words[WORDS_MAX];
	struct opt_rest rest;
	struct options options;
	struct flmem_error err;
	int rc;
};

static void parse(struct line *line, bool stop_at_first, const char *const *words)
{
	int count = 0;

	*line = (struct line){0};
	for (; words[count]; count++)
		line->words[count] = (char *)(uintptr_t)words[count];
	line->rest = (struct opt_rest){.values = line->words, .count = count};
	line->rc = opt_parse(table, &line->options, &line->rest, stop_at_first, &line->err);
}

#define PARSE(line, ...) parse(line, false, (const char *const[]){__VA_ARGS__, NULL})

static void clear(struct line *line)
{
	opt_clear(table, &line->options);
}

static void every_kind_lands_in_its_place(void **state)
{
	struct line l;

	(void)state;
	PARSE(&l, "-j", "--name", "a b", "--count=7", "--min-rss", "64K", "--settle=250ms",
	      "--tree=12", "--pid", "3", "--role=client");
	assert_int_equal(l.rc, 0);
	assert_true(l.options.json);
	assert_string_equal(l.options.name, "a b");
	assert_int_equal(l.options.count, 7);
	assert_int_equal(l.options.bytes, 65536);
	assert_int_equal(l.options.wait_us, 250000);
	assert_int_equal(l.options.tree, 12);
	assert_int_equal(l.options.pids.count, 1);
	assert_string_equal(l.options.role, "client");
	assert_int_equal(l.rest.count, 0);
	clear(&l);
}

static void pids_repeat_and_take_lists(void **state)
{
	struct line l;

	(void)state;
	PARSE(&l, "-p1,2", "--pid=3", "-p", "4");
	assert_int_equal(l.rc, 0);
	assert_int_equal(l.options.pids.count, 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(l.options.pids.values[i], i + 1);
	clear(&l);
}

static void texts_repeat_and_are_taken_whole(void **state)
{
	struct line l;

	(void)state;
	PARSE(&l, "--log", "a,b", "--log=c d");
	assert_int_equal(l.rc, 0);
	assert_int_equal(l.options.logs.count, 2);
	assert_string_equal(l.options.logs.values[0], "a,b");
	assert_string_equal(l.options.logs.values[1], "c d");
	clear(&l);
	assert_int_equal(l.options.logs.count, 0);
}

static void letters_join_and_the_last_takes_a_value(void **state)
{
	struct line l;

	(void)state;
	PARSE(&l, "-jnabc", "x");
	assert_int_equal(l.rc, 0);
	assert_true(l.options.json);
	assert_string_equal(l.options.name, "abc");
	assert_int_equal(l.rest.count, 1);
	clear(&l);
}

static void other_words_stay_in_order(void **state)
{
	struct line l;

	(void)state;
	PARSE(&l, "a", "--json", "-", "--", "--name", "b");
	assert_int_equal(l.rc, 0);
	assert_true(l.options.json);
	assert_null(l.options.name);
	assert_int_equal(l.rest.count, 4);
	assert_string_equal(l.rest.values[0], "a");
	assert_string_equal(l.rest.values[1], "-");
	assert_string_equal(l.rest.values[2], "--name");
	assert_string_equal(l.rest.values[3], "b");
	assert_null(l.rest.values[4]);
	clear(&l);
}

static void a_command_line_keeps_its_own_options(void **state)
{
	static const char *const words[] = {"--json", "python3", "--name", "x", "--", "y", NULL};
	static const char *const dashed[] = {"--json", "--", "--name", "x", NULL};
	struct line l;

	(void)state;
	parse(&l, true, words);
	assert_int_equal(l.rc, 0);
	assert_null(l.options.name);
	assert_int_equal(l.rest.count, 5);
	assert_string_equal(l.rest.values[0], "python3");
	assert_string_equal(l.rest.values[3], "--");
	clear(&l);
	parse(&l, true, dashed);
	assert_int_equal(l.rc, 0);
	assert_int_equal(l.rest.count, 2);
	assert_string_equal(l.rest.values[0], "--name");
	clear(&l);
}

static void bad_input_is_a_usage_error_that_says_what_is_wrong(void **state)
{
	static const struct {
		const char *words[3];
		const char *says;
	} rows[] = {
		{{"--jsonn"}, "unknown option '--jsonn'; did you mean '--json'?"},
		{{"--completely-else"}, "unknown option '--completely-else'; see --help"},
		{{"--js"}, "unknown option '--js'"}, /* no abbreviations: scripts outlive them */
		{{"-x"}, "unknown option '-x'"},
		{{"-jx"}, "unknown option '-jx'"},
		{{"--json=1"}, "--json takes no value"},
		{{"--name"}, "--name needs a value"},
		{{"-n"}, "--name needs a value"},
		{{"--count", "x"}, "invalid number 'x' for --count; expected"},
		{{"--count=-1"}, "invalid number '-1' for --count"},
		{{"--min-rss=5Q"}, "invalid size '5Q' for --min-rss; expected for example"},
		{{"--settle=5"}, "invalid duration '5' for --settle; expected for example"},
		{{"--tree=0"}, "invalid process ID '0' for --tree"},
		{{"--pid=1,,2"}, "invalid process ID '' for --pid"},
		{{"--pid=1,x"}, "invalid process ID 'x' for --pid"},
		{{"--role=boss"}, "invalid value 'boss' for --role; choose from server, client"},
		{{"--name=\x1b[31m", "-x"}, "unknown option '-x'"},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct line l;

		parse(&l, false, rows[i].words);
		assert_int_equal(l.rc, FLMEM_EUSAGE);
		if (!strstr(l.err.message, rows[i].says))
			fail_msg("'%s' does not say '%s'", l.err.message, rows[i].says);
		clear(&l);
	}
}

static void the_nearest_name_is_near(void **state)
{
	static const char *const names[] = {"detect", "trim", "env", "start"};

	(void)state;
	assert_string_equal(opt_nearest("detetc", names, 4), "detect");
	assert_string_equal(opt_nearest("trin", names, 4), "trim");
	assert_string_equal(opt_nearest("strat", names, 4), "start");
	assert_null(opt_nearest("zzzzzz", names, 4));
	assert_null(opt_nearest("", names, 4));
	assert_null(opt_nearest("x", names, 4));
}

/* Otherwise `--fail-above 0` would pass every process. */
static void zero_is_refused_where_it_is_no_value(void **state)
{
	struct line l;

	(void)state;
	PARSE(&l, "--count", "0");
	assert_int_equal(l.rc, FLMEM_EUSAGE);
	assert_string_equal(l.err.message, "invalid value '0' for --count; it must be more than 0");
	PARSE(&l, "--min-rss=0KiB");
	assert_int_equal(l.rc, FLMEM_EUSAGE);
	PARSE(&l, "--settle", "0ms");
	assert_int_equal(l.rc, 0);
	assert_int_equal(l.options.wait_us, 0);
	clear(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_lands_in_its_place),
		cmocka_unit_test(pids_repeat_and_take_lists),
		cmocka_unit_test(texts_repeat_and_are_taken_whole),
		cmocka_unit_test(letters_join_and_the_last_takes_a_value),
		cmocka_unit_test(other_words_stay_in_order),
		cmocka_unit_test(zero_is_refused_where_it_is_no_value),
		cmocka_unit_test(a_command_line_keeps_its_own_options),
		cmocka_unit_test(bad_input_is_a_usage_error_that_says_what_is_wrong),
		cmocka_unit_test(the_nearest_name_is_near),
	};

	return cmocka_run_group_tests_name("cli_opt", tests, NULL, NULL);
}
