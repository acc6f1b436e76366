/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_WATCH_AUTO_H
#define FLMEM_CLI_WATCH_AUTO_H

/*
 * Declares `flmem watch --auto` and its options, which have the names that they have in `flmem
 * trim`.
 */

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
	uint64_t min_release_bytes;
	uint64_t max_ineffective;
	uint64_t timeout_us;
	bool assume_seccomp;
};

#define AUTO_OFFSET(type, member, field) \
	(offsetof(type, member) + offsetof(struct auto_options, field))

/*
 * These are rows of an option table whose options struct `type` has a struct auto_options `member`.
 */
#define AUTO_OPTIONS(type, member)                                                                \
	{                                                                                         \
		.name = "auto",                                                                   \
		.kind = OPT_FLAG,                                                                 \
		.offset = AUTO_OFFSET(type, member, on),                                          \
		.help = "also trim: return retained memory to the kernel after each "             \
			"round on clients, after each fifth round on servers, less "              \
			"often while memory is flat, and at once under memory pressure",          \
	},                                                                                        \
		{                                                                                 \
			.name = "gc",                                                             \
			.kind = OPT_FLAG,                                                         \
			.offset = AUTO_OFFSET(type, member, collect),                             \
			.help = "with --auto: also run Python's garbage collector in processes "  \
				"that use Python",                                                \
		},                                                                                \
		{                                                                                 \
			.name = "cuda",                                                           \
			.kind = OPT_FLAG,                                                         \
			.offset = AUTO_OFFSET(type, member, cuda),                                \
			.help = "with --auto: also empty PyTorch's and CuPy's caches of CUDA "    \
				"device memory and pinned host memory, and CUDA's own pools",     \
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
			.help = "with --auto: minimum time between two trims of a process "       \
				"(default 1s) and between two checks of the condition (default "  \
				"30s)",                                                           \
		},                                                                                \
		{                                                                                 \
			.name = "min-release",                                                    \
			.kind = OPT_SIZE,                                                         \
			.offset = AUTO_OFFSET(type, member, min_release_bytes),                   \
			.metavar = "SIZE",                                                        \
			.help = "with --auto: a trim that releases less counts as ineffective "   \
				"(default 1MiB)",                                                 \
		},                                                                                \
		{                                                                                 \
			.name = "max-ineffective",                                                \
			.kind = OPT_NUMBER,                                                       \
			.offset = AUTO_OFFSET(type, member, max_ineffective),                     \
			.metavar = "N",                                                           \
			.help = "with --auto: pause trims of a process after this many "          \
				"ineffective ones in a row, until it grows or memory is short "   \
				"(default 3)",                                                    \
		},                                                                                \
		{                                                                                 \
			.name = "assume-seccomp",                                                 \
			.kind = OPT_FLAG,                                                         \
			.offset = AUTO_OFFSET(type, member, assume_seccomp),                      \
			.help = "with --auto: if the seccomp filters of a target cannot be "      \
				"read, assume that they allow the calls; if they do not, the "    \
				"kernel may kill the target",                                     \
		},                                                                                \
	{                                                                                         \
		.name = "timeout", .kind = OPT_DURATION,                                          \
		.offset = AUTO_OFFSET(type, member, timeout_us), .metavar = "TIME",               \
		.help = "with --auto: wait at most this long for a safe moment (default 2s); "    \
			"sampling continues meanwhile",                                           \
	}

/*
 * Reads the options. Returns FLMEM_EUSAGE for options that need --auto. The caller frees the
 * condition (NULL: none) after the last use of ret_auto.
 */
int auto_parse(const struct auto_options *options, struct flmem_condition **ret_when,
	       struct flmem_watch_auto *ret_auto, struct flmem_error *err);

#endif
