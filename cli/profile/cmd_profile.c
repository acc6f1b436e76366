/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

extern const struct cmd cmd_profile_attach;
extern const struct cmd cmd_profile_detach;
extern const struct cmd cmd_profile_analyze;
extern const struct cmd cmd_profile_diff;
extern const struct cmd cmd_profile_export;
extern const struct cmd cmd_profile_flamegraph;
extern const struct cmd cmd_profile_leaks;
extern const struct cmd cmd_profile_round;
extern const struct cmd cmd_profile_run;
extern const struct cmd cmd_profile_stats;
extern const struct cmd cmd_profile_summary;
extern const struct cmd cmd_profile_table;
extern const struct cmd cmd_profile_tree;

static const struct cmd *const profile_verbs[] = {
	&cmd_profile_run,    &cmd_profile_attach,
	&cmd_profile_detach, &cmd_profile_round,
	&cmd_profile_stats,  &cmd_profile_summary,
	&cmd_profile_table,  &cmd_profile_tree,
	&cmd_profile_leaks,  &cmd_profile_flamegraph,
	&cmd_profile_diff,   &cmd_profile_analyze,
	&cmd_profile_export, NULL,
};

static const char *const profile_examples[] = {
	"flmem profile run -o server.prof -- python3 server.py",
	"sample the heap of a server until it ends",
	"flmem profile attach --pid 4711 -o client.prof",
	"sample a running Python process",
	NULL,
};

static const struct opt profile_options_table[] = {{0}};

const struct cmd cmd_profile = {
	.name = "profile",
	.summary = "samples the heap of a process with Python and native stacks",
	.description = "A sampled heap profile shows which code allocates memory, and which "
		       "allocations are still live. It is a file of fixed size that can be read "
		       "while the process runs and after it was killed.",
	.examples = profile_examples,
	.options = profile_options_table,
	.verbs = profile_verbs,
};
