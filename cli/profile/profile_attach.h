/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_PROFILE_ATTACH_H
#define FLMEM_CLI_PROFILE_ATTACH_H

/* Declares what `profile attach` and `profile detach` have in common. */

#include <flmem/attach.h>

#include "cmd.h"

struct profile_attach_options {
	pid_t pid;
	const char *engine;
	const char *output;
	uint64_t interval_bytes;
	uint64_t limit_bytes;
	bool native;
	bool force;
	bool dry_run;
	uint64_t timeout_us;
	bool assume_seccomp;
	bool json;
};

/* Attaches, or detaches, and prints what was done. Returns the exit status. */
int profile_attach_run(const struct cmd *cmd, const struct profile_attach_options *options,
		       const struct opt_rest *rest, bool detach);

/* These are rows of both option tables. */
#define PROFILE_ATTACH_PID_OPTION                                                         \
	{                                                                                 \
		.name = "pid", .letter = 'p', .kind = OPT_PID,                            \
		.offset = offsetof(struct profile_attach_options, pid), .metavar = "PID", \
		.complete = OPT_COMPLETE_PID, .help = "the process (required)"            \
	}

/* These are the values of the option for the engine, such as "sampler". */
extern const char *const profile_attach_engines[];

#define PROFILE_ATTACH_ENGINE_OPTION(what)                                 \
	{                                                                  \
		.name = "engine", .kind = OPT_CHOICE,                      \
		.offset = offsetof(struct profile_attach_options, engine), \
		.choices = profile_attach_engines, .help = (what)          \
	}

#define PROFILE_ATTACH_OUTPUT_OPTION(what)                                                    \
	{                                                                                     \
		.name = "output", .letter = 'o', .kind = OPT_TEXT,                            \
		.offset = offsetof(struct profile_attach_options, output), .metavar = "FILE", \
		.complete = OPT_COMPLETE_FILE, .help = (what)                                 \
	}

#define PROFILE_ATTACH_FORCE_OPTION                                       \
	{                                                                 \
		.name = "force", .letter = 'f', .kind = OPT_FLAG,         \
		.offset = offsetof(struct profile_attach_options, force), \
		.help = "replace an existing file"                        \
	}

#define PROFILE_ATTACH_COMMON_OPTIONS                                                          \
	{                                                                                      \
		.name = "dry-run",                                                             \
		.kind = OPT_FLAG,                                                              \
		.offset = offsetof(struct profile_attach_options, dry_run),                    \
		.help = "check everything, print the thread that would be borrowed; change "   \
			"nothing",                                                             \
	},                                                                                     \
		{                                                                              \
			.name = "timeout",                                                     \
			.kind = OPT_DURATION,                                                  \
			.offset = offsetof(struct profile_attach_options, timeout_us),         \
			.metavar = "TIME",                                                     \
			.help = "time limit for finding a safe moment, and again for the "     \
				"code (default 5s)",                                           \
		},                                                                             \
		{                                                                              \
			.name = "assume-seccomp",                                              \
			.kind = OPT_FLAG,                                                      \
			.offset = offsetof(struct profile_attach_options, assume_seccomp),     \
			.help = "if the seccomp filters of the target cannot be read, assume " \
				"that they allow the calls of flmem; if they do not, the "     \
				"kernel may kill the target",                                  \
		},                                                                             \
	{                                                                                      \
		.name = "json", .kind = OPT_FLAG,                                              \
		.offset = offsetof(struct profile_attach_options, json),                       \
		.help = "print one JSON object"                                                \
	}

#endif
