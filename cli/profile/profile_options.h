/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_PROFILE_OPTIONS_H
#define FLMEM_CLI_PROFILE_OPTIONS_H

/* Declares options that the verbs of `profile` share which read files. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/heap_profile.h>

#include "cmd.h"
#include "options/opt.h"

struct profile_options {
	const char *by;
	const char *stack;
	const char *round;
	uint64_t limit;
	bool import_frames;
	bool json;
};

extern const char *const profile_measures[];
extern const char *const profile_stacks[];

#define PROFILE_STACK_OPTION                                                                  \
	{                                                                                     \
		.name = "stack", .letter = 's', .kind = OPT_CHOICE,                           \
		.offset = offsetof(struct profile_options, stack), .choices = profile_stacks, \
		.help = "frames to include: all, Python only or native only (default: "       \
			"Python if the file has such frames, else native; for flame "         \
			"graphs and exports all)"                                             \
	}

#define PROFILE_BY_OPTION                                                                    \
	{                                                                                    \
		.name = "by", .letter = 'b', .kind = OPT_CHOICE,                             \
		.offset = offsetof(struct profile_options, by), .choices = profile_measures, \
		.help = "measure: bytes that are live at the end, that were live at the "    \
			"peak of the process, or that were allocated or freed in total "     \
			"(default peak; with --round allocated, for a dump of jemalloc "     \
			"live)"                                                              \
	}

#define PROFILE_ROUND_OPTION                                                              \
	{                                                                                 \
		.name = "round", .letter = 'r', .kind = OPT_TEXT,                         \
		.offset = offsetof(struct profile_options, round), .metavar = "A..B",     \
		.help = "only rounds A to B: bytes that were allocated and freed during " \
			"them, and the allocated bytes that are still live; a single "    \
			"number selects one round"                                        \
	}

#define PROFILE_JSON_OPTION                                                                       \
	{                                                                                         \
		.name = "json", .kind = OPT_FLAG,                                                 \
		.offset = offsetof(struct profile_options, json), .help = "print one JSON object" \
	}

#define PROFILE_IMPORTS_OPTION                                                             \
	{                                                                                  \
		.name = "import-frames", .kind = OPT_FLAG,                                 \
		.offset = offsetof(struct profile_options, import_frames),                 \
		.help = "keep the frames of Python's import system (importlib) between a " \
			"line that imports and the module"                                 \
	}

/* This is the row of --limit. The largest lines are shown first. */
#define PROFILE_LIMIT_OPTION(what)                                                                \
	{                                                                                         \
		.name = "limit", .letter = 'n', .kind = OPT_NUMBER,                               \
		.offset = offsetof(struct profile_options, limit), .metavar = "N", .help = (what) \
	}

/*
 * These are rows of an option table, for an options struct that begins with a struct
 * profile_options.
 */
#define PROFILE_OPTIONS(what)                                                                  \
	PROFILE_BY_OPTION, PROFILE_STACK_OPTION, PROFILE_IMPORTS_OPTION, PROFILE_ROUND_OPTION, \
		PROFILE_LIMIT_OPTION(what), PROFILE_JSON_OPTION

/*
 * Finds the measure that the options ask for. Returns FLMEM_EUSAGE for one that a profile does not
 * know.
 */
int profile_measure_of_all(const struct profile_options *options,
			   const struct flmem_heap_profile *const *profiles, size_t count,
			   enum flmem_heap_measure *ret_measure, struct flmem_error *err);

/* Does the same for one profile. */
int profile_measure(const struct profile_options *options, const struct flmem_heap_profile *profile,
		    enum flmem_heap_measure *ret_measure, struct flmem_error *err);

/*
 * Does the same for a verb that shows more than amounts: where the profile knows no measure, and
 * none is asked for, the verb shows that.
 */
int profile_measure_shown(const struct profile_options *options,
			  const struct flmem_heap_profile *profile,
			  enum flmem_heap_measure *ret_measure, struct flmem_error *err);

/* Makes the request that says how these options read profiles. */
int profile_request(const struct profile_options *options, bool mixed,
		    struct flmem_heap_request *ret_request, struct flmem_error *err);

/*
 * Reads the file at place `at` of the arguments, of which there must be `count`. Without --stack it
 * reads Python frames where there are any, else native ones; with `mixed` all of them.
 */
int profile_load(const struct profile_options *options, const struct opt_rest *rest, int at,
		 bool mixed, struct flmem_heap_profile **ret_profile, struct flmem_error *err);

/* Returns FLMEM_EUSAGE unless there are `count` arguments. */
int profile_count_files(const struct opt_rest *rest, int count, struct flmem_error *err);

/*
 * Runs a verb that shows one profile: reads the file, the only argument, and calls `show`. Returns
 * the exit status.
 */
int profile_show_one(const struct cmd *cmd, const struct profile_options *options,
		     const struct opt_rest *rest,
		     int (*show)(const struct profile_options *options,
				 const struct flmem_heap_profile *profile,
				 struct flmem_error *err));

#endif
