/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <flmem/report.h>
#include <flmem/text.h>
#include <flmem/trim.h>
#include <flmem/version.h>

#include "cmd.h"
#include "help.h"
#include "oom_score.h"
#include "signals.h"
#include "streams.h"

static int report_unknown_command(const char *word)
{
	const char *kind = word[0] == '-' ? "option" : "command", *option;
	char shown[64], meant[2 * CMD_NAME_MAX] = "";
	struct flmem_error err = {0};

	flmem_text_escape(word, shown, sizeof(shown));
	option = word[0] == '-' ? opt_nearest_option(opt_globals, word) : NULL;
	if (option)
		snprintf(meant, sizeof(meant), "'--%s'", option);
	else if (word[0] != '-')
		cmd_suggest(word, meant, sizeof(meant));
	if (meant[0])
		flmem_error_set(&err, FLMEM_EUSAGE, 0, "unknown %s '%s'; did you mean %s?", kind,
				shown, meant);
	else
		flmem_error_set(&err, FLMEM_EUSAGE, 0, "unknown %s '%s'; see 'flmem help'", kind,
				shown);
	return cmd_fail(NULL, false, &err);
}

/*
 * Returns true for a command that only has verbs, so that an unknown one is reported before its
 * options.
 */
static bool ends_at_first_word(const struct cmd *cmd)
{
	return cmd->takes_command || !cmd->run;
}

/* Returns true if the word is given as an option: before "--" and before a command line. */
static bool is_given(const struct cmd *cmd, int argc, char **argv, const char *word)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], word) == 0)
			return true;
		if (ends_at_first_word(cmd) && argv[i][0] != '-')
			return false;
		i += opt_takes_next_word(cmd->options, argv[i]);
	}
	return false;
}

/* Returns true if the error of an unparsable command line is printed as JSON, too. */
static bool wants_json(const struct cmd *cmd, int argc, char **argv)
{
	for (const struct opt *o = cmd->options; o->name; o++)
		if (strcmp(o->name, "json") == 0)
			return is_given(cmd, argc, argv, "--json");
	return false;
}

static int report_unknown_verb(const struct cmd *cmd, const char *word)
{
	const char *nearest = cmd_nearest(cmd->verbs, word);
	struct flmem_error err = {0};
	char shown[64];

	flmem_text_escape(word, shown, sizeof(shown));
	if (nearest)
		flmem_error_set(&err, FLMEM_EUSAGE, 0,
				"unknown subcommand '%s'; did you mean '%s'?", shown, nearest);
	else
		flmem_error_set(&err, FLMEM_EUSAGE, 0,
				"unknown subcommand '%s'; see 'flmem help %s'", shown, cmd->name);
	return cmd_fail(cmd, false, &err);
}

static int report_missing_verb(const struct cmd *cmd, const struct opt_rest *rest)
{
	struct flmem_error err = {0};

	if (rest->count)
		return report_unknown_verb(cmd, rest->values[0]);
	flmem_error_set(&err, FLMEM_EUSAGE, 0, "no subcommand is given; see 'flmem help %s'",
			cmd->name);
	return cmd_fail(cmd, false, &err);
}

/*
 * Returns whether a command that takes files has a misspelt verb; a file of that name is meant as a
 * file.
 */
static bool is_misspelt_verb(const struct cmd *cmd, const char *word)
{
	return cmd->run && word[0] != '-' && cmd_nearest(cmd->verbs, word) &&
	       access(word, F_OK) != 0;
}

static int run_command(const struct cmd *cmd, int argc, char **argv)
{
	struct flmem_error err = {0};
	struct opt_rest rest = {.values = argv + 1, .count = argc - 1};
	bool json = wants_json(cmd, argc, argv); /* before parsing reorders the words */
	void *options;
	int status;

	if (is_given(cmd, argc, argv, "--help") || is_given(cmd, argc, argv, "-h"))
		return help_command(cmd, stdout);
	if (cmd->ends_first)
		oom_end_first();
	options = calloc(1, cmd->options_size ? cmd->options_size : 1);
	if (!options)
		return flmem_code_exit_status(FLMEM_EFAILED);
	if (opt_parse(cmd->options, options, &rest, ends_at_first_word(cmd), &err))
		status = cmd_fail(cmd, json, &err);
	else if (!cmd->run)
		status = report_missing_verb(cmd, &rest);
	else
		status = cmd->run(cmd, options, &rest);
	opt_clear(cmd->options, options);
	free(options);
	return status;
}

/*
 * Returns true for 'flmem profile help run', which is 'flmem help profile run'. If a file of
 * that name exists, the file is meant.
 */
static bool is_help_of_verbs(const struct cmd *cmd, int argc, char **argv)
{
	return argc > 1 && cmd->verbs && strcmp(argv[1], "help") == 0 &&
	       (!cmd->run || access(argv[1], F_OK) != 0);
}

/* Runs the command or the verb in argv[1]; argv[0] is the name of the command. */
static int run_command_or_verb(const struct cmd *cmd, int argc, char **argv)
{
	const struct cmd *verb = argc > 1 ? cmd_find_verb(cmd, argv[1]) : NULL;

	if (!verb && is_help_of_verbs(cmd, argc, argv)) {
		argv[1] = argv[0];
		return run_command(cmd_find("help"), argc, argv);
	}
	if (!verb && argc > 1 && is_misspelt_verb(cmd, argv[1]))
		return report_unknown_verb(cmd, argv[1]);
	return verb ? run_command(verb, argc - 1, argv + 1) : run_command(cmd, argc, argv);
}

/* Flushes the result. An unwritable result is a failure, also after a closed pipe. */
static int flush_standard_output(int status)
{
	struct flmem_error err = {0};

	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	flmem_error_set(&err, FLMEM_EFAILED, errno, "cannot write the result to standard output");
	return cmd_fail(NULL, false, &err);
}

static int print_version(int argc, char **argv)
{
	struct flmem_error err = {0};
	char *json;

	if (argc < 3) {
		printf("flmem %s\n", flmem_version());
		return 0;
	}
	if (argc > 3 || strcmp(argv[2], "--json") != 0) {
		flmem_error_set(&err, FLMEM_EUSAGE, 0, "--version takes only --json");
		return cmd_fail(NULL, false, &err);
	}
	json = flmem_report_version_json();
	if (!json) {
		flmem_error_nomem(&err, "cannot print the version");
		return cmd_fail(NULL, false, &err);
	}
	fputs(json, stdout);
	free(json);
	return 0;
}

int main(int argc, char **argv)
{
	const struct cmd *cmd;

	streams_reserve_closed();
	signals_prepare();
	flmem_trim_limit_hold(true);
	if (argc < 2)
		return help_overview(stderr), flmem_code_exit_status(FLMEM_EUSAGE);
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
		return flush_standard_output(print_version(argc, argv));
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return flush_standard_output(help_overview(stdout));
	cmd = cmd_find(argv[1]);
	if (!cmd)
		return report_unknown_command(argv[1]);
	return flush_standard_output(run_command_or_verb(cmd, argc - 1, argv + 1));
}
