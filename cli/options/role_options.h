/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_ROLE_OPTIONS_H
#define FLMEM_CLI_ROLE_OPTIONS_H

/* Declares options that `env` and `start` share: they select the settings. */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>
#include <flmem/settings.h>

#include "options/opt.h"

struct role_options {
	const char *role;
	const char *parallelism;
	const char *allocator;
	const char *jemalloc_library;
	const char *framework;
	const char *framework_version;
	const char *job;
	bool gpu;
	bool no_gpu;
	bool force;
};

extern const char *const role_choices[];
extern const char *const role_parallelism_choices[];
extern const char *const role_allocator_choices[];
extern const char *const role_framework_choices[];

/*
 * These are rows of an option table, for an options struct that begins with a struct role_options.
 */
#define ROLE_OPTIONS                                                                              \
	{.name = "role",                                                                          \
	 .letter = 'r',                                                                           \
	 .kind = OPT_CHOICE,                                                                      \
	 .offset = offsetof(struct role_options, role),                                           \
	 .choices = role_choices,                                                                 \
	 .help = "role of the process in the federation (required)"},                             \
		{.name = "parallelism",                                                           \
		 .kind = OPT_CHOICE,                                                              \
		 .offset = offsetof(struct role_options, parallelism),                            \
		 .choices = role_parallelism_choices,                                             \
		 .help = "for a server: normal sets 4 malloc arenas (default); high "             \
			 "sets 8, for a server that works on many clients at once"},              \
		{.name = "allocator",                                                             \
		 .letter = 'a',                                                                   \
		 .kind = OPT_CHOICE,                                                              \
		 .offset = offsetof(struct role_options, allocator),                              \
		 .choices = role_allocator_choices,                                               \
		 .help = "allocator whose settings are printed or set (default glibc); "          \
			 "auto selects jemalloc if it is installed"},                             \
		{.name = "jemalloc-library",                                                      \
		 .kind = OPT_TEXT,                                                                \
		 .offset = offsetof(struct role_options, jemalloc_library),                       \
		 .metavar = "PATH",                                                               \
		 .complete = OPT_COMPLETE_FILE,                                                   \
		 .help = "jemalloc library to preload (default: the installed one)"},             \
		{.name = "framework",                                                             \
		 .letter = 'f',                                                                   \
		 .kind = OPT_CHOICE,                                                              \
		 .offset = offsetof(struct role_options, framework),                              \
		 .choices = role_framework_choices,                                               \
		 .help = "framework whose variables are added (default nvflare)"},                \
		{.name = "framework-version",                                                     \
		 .kind = OPT_TEXT,                                                                \
		 .offset = offsetof(struct role_options, framework_version),                      \
		 .metavar = "VERSION",                                                            \
		 .help = "version of the framework that will run, for example 2.8 or "            \
			 "2.9.0: omit settings that it does not read"},                           \
		{.name = "job",                                                                   \
		 .kind = OPT_TEXT,                                                                \
		 .offset = offsetof(struct role_options, job),                                    \
		 .metavar = "PATH",                                                               \
		 .complete = OPT_COMPLETE_FILE,                                                   \
		 .help = "folder of the NVFlare job that will run: if its external "              \
			 "trainers have no memory_gc_rounds, add the variables for them "         \
			 "(such variables override the job's values, so they are "                \
			 "omitted without --job)"},                                               \
		{.name = "gpu",                                                                   \
		 .kind = OPT_FLAG,                                                                \
		 .offset = offsetof(struct role_options, gpu),                                    \
		 .help = "the client uses a GPU (default: if this machine has one)"},             \
	{                                                                                         \
		.name = "no-gpu", .kind = OPT_FLAG,                                               \
		.offset = offsetof(struct role_options, no_gpu), .help = "the client uses no GPU" \
	}

/* Returns the given role, or FLMEM_ROLE_NONE. */
enum flmem_role role_named(const struct role_options *options);

/*
 * Makes a request for flmem_settings_make() from the options and this process's environment.
 * Returns FLMEM_EUSAGE for contradictory options, or the code of a job that cannot be read.
 */
int role_request(const struct role_options *options, struct flmem_settings_request *ret_request,
		 struct flmem_error *err);

/*
 * Prints a line to standard error for each value of the user that does not have the intended
 * effect.
 */
void role_print_problems(const char *command, const struct flmem_settings *settings);

#endif
