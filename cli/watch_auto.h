/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_WATCH_AUTO_H
#define FLMEM_CLI_WATCH_AUTO_H

/* `flmem watch --auto` and the options that go with it; named as those of `flmem trim`. */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/error.h>
#include <flmem/watch.h>

struct auto_options {
	bool on;
	bool collect;
	bool cuda;
	bool full;
	const char *when;
	uint64_t every_rounds;
	uint64_t cool_down_us;
	uint64_t least_bytes;
	uint64_t in_vain;
	uint64_t timeout_us;
	bool assume_seccomp;
};

#define AUTO_OFFSET(type, member, field) \
	(offsetof(type, member) + offsetof(struct auto_options, field))

/* Rows of an option table whose options struct `type` has a struct auto_options `member`. */
#define AUTO_OPTIONS(type, member)                                                                \
	{                                                                                         \
		.name = "auto",                                                                   \
		.kind = OPT_FLAG,                                                                 \
		.offset = AUTO_OFFSET(type, member, on),                                          \
		.help = "give retained memory back: after each round on clients, each fifth on "  \
			"servers, rarer while memory is flat, at once when it is short",          \
	},                                                                                        \
		{                                                                                 \
			.name = "gc",                                                             \
			.kind = OPT_FLAG,                                                         \
			.offset = AUTO_OFFSET(type, member, collect),                             \
			.help = "with --auto: also run the garbage collector of a process's "     \
				"Python",                                                         \
		},                                                                                \
		{                                                                                 \
			.name = "cuda",                                                           \
			.kind = OPT_FLAG,                                                         \
			.offset = AUTO_OFFSET(type, member, cuda),                                \
			.help = "with --auto: also empty PyTorch's caches of CUDA device memory " \
				"and of pinned host memory",                                      \
		},                                                                                \
		{                                                                                 \
			.name = "full",                                                           \
			.kind = OPT_FLAG,                                                         \
			.offset = AUTO_OFFSET(type, member, full),                                \
			.help = "the same as --gc --cuda",                                        \
		},                                                                                \
		{                                                                                 \
			.name = "every-rounds",                                                   \
			.kind = OPT_NUMBER,                                                       \
			.offset = AUTO_OFFSET(type, member, every_rounds),                        \
			.metavar = "N",                                                           \
			.help = "with --auto: after every N rounds, whatever the role and trend", \
		},                                                                                \
		{                                                                                 \
			.name = "when",                                                           \
			.kind = OPT_TEXT,                                                         \
			.offset = AUTO_OFFSET(type, member, when),                                \
			.metavar = "CONDITION",                                                   \
			.help = "with --auto: also whenever this holds (default "                 \
				"'" FLMEM_WATCH_WHEN_DEFAULT "' where no round is known; see "    \
				"'flmem help conditions')",                                       \
		},                                                                                \
		{                                                                                 \
			.name = "cool-down",                                                      \
			.kind = OPT_DURATION,                                                     \
			.offset = AUTO_OFFSET(type, member, cool_down_us),                        \
			.metavar = "TIME",                                                        \
			.help = "with --auto: leave a process alone for this long after a trim "  \
				"(default 1s), and look at the condition so often (default 30s)", \
		},                                                                                \
		{                                                                                 \
			.name = "least",                                                          \
			.kind = OPT_SIZE,                                                         \
			.offset = AUTO_OFFSET(type, member, least_bytes),                         \
			.metavar = "SIZE",                                                        \
			.help = "with --auto: a trim that releases less was in vain "             \
				"(default 1MiB)",                                                 \
		},                                                                                \
		{                                                                                 \
			.name = "in-vain",                                                        \
			.kind = OPT_NUMBER,                                                       \
			.offset = AUTO_OFFSET(type, member, in_vain),                             \
			.metavar = "N",                                                           \
			.help = "with --auto: after so many such trims in a row leave a process " \
				"alone, until it grows or memory is short (default 3)",           \
		},                                                                                \
		{                                                                                 \
			.name = "assume-seccomp",                                                 \
			.kind = OPT_FLAG,                                                         \
			.offset = AUTO_OFFSET(type, member, assume_seccomp),                      \
			.help = "with --auto: if the seccomp filters of a target cannot be "      \
				"read, assume that they allow the calls; if they do not, the "    \
				"target may be killed",                                           \
		},                                                                                \
	{                                                                                         \
		.name = "timeout", .kind = OPT_DURATION,                                          \
		.offset = AUTO_OFFSET(type, member, timeout_us), .metavar = "TIME",               \
		.help = "with --auto: wait this long for a safe moment (default 2s); sampling "   \
			"goes on meanwhile",                                                      \
	}

/*
 * FLMEM_EUSAGE for options that go with --auto alone. The condition, NULL without one, is for the
 * caller to free, later than ret_auto is used.
 */
int auto_parse(const struct auto_options *options, struct flmem_condition **ret_when,
	       struct flmem_watch_auto *ret_auto, struct flmem_error *err);

#endif
