/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_TRIM_REPEAT_H
#define FLMEM_CLI_TRIM_REPEAT_H

/* `flmem trim --every` and `--when`: trims again and again. */

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
	uint64_t least_bytes;
	uint64_t in_vain;
};

#define REPEAT_OFFSET(type, member, field) \
	(offsetof(type, member) + offsetof(struct repeat_options, field))

/* Rows of an option table whose options struct `type` has a struct repeat_options `member`. */
#define REPEAT_OPTIONS(type, member)                                                              \
	{                                                                                         \
		.name = "every",                                                                  \
		.kind = OPT_DURATION,                                                             \
		.offset = REPEAT_OFFSET(type, member, every_us),                                  \
		.metavar = "TIME",                                                                \
		.help = "trim again and again, this far apart; with --when, look so often "       \
			"(default 5s)",                                                           \
	},                                                                                        \
		{                                                                                 \
			.name = "when",                                                           \
			.kind = OPT_TEXT,                                                         \
			.offset = REPEAT_OFFSET(type, member, when),                              \
			.metavar = "CONDITION",                                                   \
			.help = "trim whenever this holds, as in 'rss > 8G and trimmable > 20%' " \
				"(see 'flmem help conditions')",                                  \
		},                                                                                \
		{                                                                                 \
			.name = "cool-down",                                                      \
			.kind = OPT_DURATION,                                                     \
			.offset = REPEAT_OFFSET(type, member, cool_down_us),                      \
			.metavar = "TIME",                                                        \
			.help = "between two trims of a process leave it alone for this long "    \
				"(default 1m with --when)",                                       \
		},                                                                                \
		{                                                                                 \
			.name = "count",                                                          \
			.kind = OPT_NUMBER,                                                       \
			.offset = REPEAT_OFFSET(type, member, count),                             \
			.metavar = "N",                                                           \
			.help = "end after so many trims of each process",                        \
		},                                                                                \
		{                                                                                 \
			.name = "least",                                                          \
			.kind = OPT_SIZE,                                                         \
			.offset = REPEAT_OFFSET(type, member, least_bytes),                       \
			.metavar = "SIZE",                                                        \
			.help = "a trim that releases less was in vain (default 1MiB)",           \
		},                                                                                \
	{                                                                                         \
		.name = "in-vain", .kind = OPT_NUMBER,                                            \
		.offset = REPEAT_OFFSET(type, member, in_vain), .metavar = "N",                   \
		.help = "leave a process after so many such trims in a row; each doubles the "    \
			"pause (default 3)",                                                      \
	}

/* True when trims are to be repeated. */
bool repeat_wanted(const struct repeat_options *options);

/* Refuses options that go only with --every or --when; parses the condition beforehand. */
int repeat_check(const struct repeat_options *options, bool dry_run, struct flmem_error *err);

/* Until all is over; the exit status. */
int repeat_run(const struct cmd *cmd, const struct repeat_options *options, bool json,
	       const struct flmem_trim_options *trim, const struct flmem_targets *targets);

#endif
