/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_TARGETS_H
#define FLMEM_CLI_TARGETS_H

/*
 * Declares options that select target processes, shared by all commands that have targets. A
 * command embeds struct target_options in its options and puts TARGET_OPTIONS() into its table.
 */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/error.h>
#include <flmem/select.h>

#include "options/opt.h"

struct target_options {
	struct opt_pids pids;
	const char *name;
	bool all;
	pid_t tree;
	const char *role;
	uint64_t min_rss_bytes;
};

/* These are the names of all roles; the list ends in NULL. */
extern const char *const target_roles[];

#define TARGET_OFFSET(type, member, field) \
	(offsetof(type, member) + offsetof(struct target_options, field))

/*
 * These are rows of an option table whose options struct `type` has a struct target_options
 * `member`.
 */
#define TARGET_NAME_OPTIONS(type, member)                                                     \
	{                                                                                     \
		.name = "pid",                                                                \
		.letter = 'p',                                                                \
		.kind = OPT_PIDS,                                                             \
		.offset = TARGET_OFFSET(type, member, pids),                                  \
		.metavar = "PID",                                                             \
		.complete = OPT_COMPLETE_PID,                                                 \
		.help = "this process; may be repeated, or a comma-separated list of "        \
			"PIDs",                                                               \
	},                                                                                    \
		{                                                                             \
			.name = "name",                                                       \
			.kind = OPT_TEXT,                                                     \
			.offset = TARGET_OFFSET(type, member, name),                          \
			.metavar = "REGEX",                                                   \
			.once = true,                                                         \
			.help = "all processes whose command line matches this regular "      \
				"expression",                                                 \
		},                                                                            \
		{                                                                             \
			.name = "all",                                                        \
			.letter = 'a',                                                        \
			.kind = OPT_FLAG,                                                     \
			.offset = TARGET_OFFSET(type, member, all),                           \
			.help = "all processes that this user may read",                      \
		},                                                                            \
	{                                                                                     \
		.name = "tree", .kind = OPT_PID, .offset = TARGET_OFFSET(type, member, tree), \
		.metavar = "PID", .complete = OPT_COMPLETE_PID, .once = true,                 \
		.help = "this process and its descendants",                                   \
	}

/* This has the same rows, and those of the options that filter the selection. */
#define TARGET_OPTIONS(type, member)                                                     \
	TARGET_NAME_OPTIONS(type, member),                                               \
		{                                                                        \
			.name = "role",                                                  \
			.kind = OPT_CHOICE,                                              \
			.offset = TARGET_OFFSET(type, member, role),                     \
			.metavar = "ROLE",                                               \
			.choices = target_roles,                                         \
			.help = "of the selected processes, only those with this role; " \
				"'server' and 'client' include their variants",          \
		},                                                                       \
	{                                                                                \
		.name = "min-rss", .letter = 'm', .kind = OPT_SIZE,                      \
		.offset = TARGET_OFFSET(type, member, min_rss_bytes), .metavar = "SIZE", \
		.zero = true,                                                            \
		.help = "of the selected processes, only those with at least this much " \
			"resident memory (RSS)",                                         \
	}

/* Returns true if the options select any target. */
bool targets_given(const struct target_options *options);

/*
 * Makes the selection of the options, for commands that select repeatedly. It borrows memory of the
 * options. Returns FLMEM_EUSAGE for contradictory options or no target.
 */
int targets_selection(const struct target_options *options, struct flmem_selection *ret_selection,
		      struct flmem_error *err);

/* Rewrites the message of FLMEM_ENOPROC in terms of the options. Returns the code. */
int targets_nothing_matched(const struct target_options *options, struct flmem_error *err);

/*
 * Selects the targets; release ret_targets with flmem_targets_clear(). Returns FLMEM_EUSAGE for
 * contradictory options or no target, and FLMEM_ENOPROC when nothing matches.
 */
int targets_select(const struct target_options *options, struct flmem_targets *ret_targets,
		   struct flmem_error *err);

/* Returns true if each target was given by pid, so that a missing one is a failure. */
bool targets_are_explicit(const struct target_options *options);

#endif
