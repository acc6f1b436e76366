/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands with verbs, in place of cmd_table: `pack` has arguments and a verb, `probe` only has
 * verbs, one of which takes a command line. Each prints what it was called with.
 */
#include <stdio.h>

#include "cmd.h"

struct options {
	bool json;
	const char *output;
	const char *kind;
};

static int print_call(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	const struct options *o = options;

	printf("%s: output=%s kind=%s", cmd->name, o->output ? o->output : "-",
	       o->kind ? o->kind : "-");
	for (int i = 0; i < rest->count; i++)
		printf(" [%s]", rest->values[i]);
	putchar('\n');
	return 0;
}

static int fail_call(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	const struct options *o = options;
	struct flmem_error err = {0};

	(void)rest;
	flmem_error_set(&err, FLMEM_EFAILED, 0, "cannot make a table");
	return cmd_fail(cmd, o->json, &err);
}

static const char *const kinds[] = {"heap", "stack", NULL};

static const struct opt pack_options[] = {
	{"output", 'o', OPT_TEXT, offsetof(struct options, output), "FILE",
	 .complete = OPT_COMPLETE_FILE, .help = "write here"},
	{0},
};

static const struct opt probe_options[] = {
	{"kind", 'k', OPT_CHOICE, offsetof(struct options, kind), .choices = kinds,
	 .help = "what to probe"},
	{0},
};

static const struct opt table_options[] = {
	{"json", 0, OPT_FLAG, offsetof(struct options, json), .help = "print one JSON object"},
	{0},
};

static const struct opt no_options[] = {{0}};

static const char *const examples[] = {"flmem pack -o all.npz a.npz", "one file", NULL};

static const struct cmd pack_inspect = {
	.name = "pack inspect",
	.summary = "shows what a file has in it",
	.arguments = "FILE...",
	.examples = examples,
	.options = no_options,
	.options_size = sizeof(struct options),
	.complete = OPT_COMPLETE_FILE,
	.run = print_call,
};

static const struct cmd *const pack_verbs[] = {&pack_inspect, NULL};

static const struct cmd pack = {
	.name = "pack",
	.summary = "packs files",
	.arguments = "IN...",
	.examples = examples,
	.options = pack_options,
	.options_size = sizeof(struct options),
	.complete = OPT_COMPLETE_FILE,
	.verbs = pack_verbs,
	.run = print_call,
};

static const struct cmd probe_run = {
	.name = "probe run",
	.summary = "probes a command: all of it",
	.arguments = "COMMAND...",
	.examples = examples,
	.options = probe_options,
	.options_size = sizeof(struct options),
	.takes_command = true,
	.complete = OPT_COMPLETE_COMMAND,
	.run = print_call,
};

static const struct cmd probe_table = {
	.name = "probe table",
	.summary = "prints the result as a table",
	.examples = examples,
	.options = table_options,
	.options_size = sizeof(struct options),
	.run = fail_call,
};

static const struct cmd *const probe_verbs[] = {&probe_run, &probe_table, NULL};

static const struct cmd probe = {
	.name = "probe",
	.summary = "probes commands",
	.examples = examples,
	.options = no_options,
	.verbs = probe_verbs,
};

extern const struct cmd cmd_help;
extern const struct cmd *const __wrap_cmd_table[];

const struct cmd *const __wrap_cmd_table[] = {&pack, &probe, &cmd_help, NULL};
