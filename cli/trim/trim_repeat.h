/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_TRIM_REPEAT_H
#define FLMEM_CLI_TRIM_REPEAT_H

/* Declares `flmem trim --every` and `--when`: repeated trims. */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/error.h>
#include <flmem/select.h>
#include <flmem/trim.h>

#include "cmd.h"

struct repeat_options {
	const char *when;
	uint64_t every_us;
	uint64_t cool_down_us;
	uint64_t count;
	uint64_t min_release_bytes;
	uint64_t max_ineffective;
};

#define REPEAT_OFFSET(type, member, field) \
	(offsetof(type, member) + offsetof(struct repeat_options, field))

/*
 * These are rows of an option table whose options struct `type` has a struct repeat_options
 * `member`.
 */
#define REPEAT_OPTIONS(type, member)                                                             \
	{                                                                                        \
		.name = "every",                                                                 \
		.kind = OPT_DURATION,                                                            \
		.offset = REPEAT_OFFSET(type, member, every_us),                                 \
		.metavar = "TIME",                                                               \
		.help = "trim repeatedly at this interval; with --when, check the condition at " \
			"this interval (default 5s)",                                            \
	},                                                                                       \
		{                                                                                \
			.name = "when",                                                          \
			.kind = OPT_TEXT,                                                        \
			.offset = REPEAT_OFFSET(type, member, when),                             \
			.metavar = "CONDITION",                                                  \
			.help = "trim whenever this condition holds, for example 'rss > 8G and " \
				"trimmable > 20%' (see 'flmem help conditions')",                \
		},                                                                               \
		{                                                                                \
			.name = "cool-down",                                                     \
			.kind = OPT_DURATION,                                                    \
			.offset = REPEAT_OFFSET(type, member, cool_down_us),                     \
			.metavar = "TIME",                                                       \
			.help = "minimum time between two trims of a process (default 1m with "  \
				"--when)",                                                       \
		},                                                                               \
		{                                                                                \
			.name = "count",                                                         \
			.kind = OPT_NUMBER,                                                      \
			.offset = REPEAT_OFFSET(type, member, count),                            \
			.metavar = "N",                                                          \
			.help = "with --every or --when: end after this many trims of each "     \
				"process",                                                       \
		},                                                                               \
		{                                                                                \
			.name = "min-release",                                                   \
			.kind = OPT_SIZE,                                                        \
			.offset = REPEAT_OFFSET(type, member, min_release_bytes),                \
			.metavar = "SIZE",                                                       \
			.help = "with --every or --when: a trim that releases less counts as "   \
				"ineffective (default 1MiB)",                                    \
		},                                                                               \
	{                                                                                        \
		.name = "max-ineffective", .kind = OPT_NUMBER,                                   \
		.offset = REPEAT_OFFSET(type, member, max_ineffective), .metavar = "N",          \
		.help = "stop trimming a process after this many ineffective trims in a row; "   \
			"each one doubles the pause (default 3)",                                \
	}

/* Returns true with --every or --when. */
bool repeat_wanted(const struct repeat_options *options);

/* Refuses options that need --every or --when; parses the condition to report errors early. */
int repeat_check(const struct repeat_options *options, bool dry_run, struct flmem_error *err);

/* Trims until all targets are finished or a signal arrives. Returns the exit status. */
int repeat_run(const struct cmd *cmd, const struct repeat_options *options, bool json,
	       const struct flmem_trim_options *trim, const struct flmem_targets *targets);

#endif
