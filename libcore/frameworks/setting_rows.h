/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_SETTING_ROWS_H
#define FLMEM_FRAMEWORKS_SETTING_ROWS_H

/*
 * Rows of memory settings, and how text formats write them. Those for any framework are in
 * settings/, each framework has its own.
 */

#include <stdbool.h>

#include <flmem/roles.h>
#include <flmem/settings.h>

#include "base/text/quote.h"
#include "base/text/version_number.h"

#define FLMEM_BIT(value) (1U << (value))

/* Circumstances in which a row is used; all of its bits have to hold. */
enum {
	FLMEM_NEEDS_GPU = 1,
	FLMEM_NEEDS_HIGH_PARALLELISM = 2,
	FLMEM_NEEDS_NORMAL_PARALLELISM = 4,
};

/* One memory setting. All texts are static. */
struct flmem_setting_row {
	const char *name;
	const char *value;   /* NULL: the jemalloc library, which is appended to the user's list */
	unsigned roles;	     /* FLMEM_BIT(enum flmem_role) of each role that gets it */
	unsigned allocators; /* FLMEM_BIT(enum flmem_allocator_kind) of each allocator */
	unsigned frameworks; /* FLMEM_BIT(enum flmem_framework) of each framework */
	unsigned needs;	     /* FLMEM_NEEDS_* */
	/* First release of the framework that has it; all zero: every release. */
	struct flmem_version_number since;
	struct flmem_version_number before; /* first release without it; all zero: none */
	/* NULL: an environment variable; else the place of the setting in a job. */
	const char *where;
	/* Why it is set, and the source of that. */
	const char *reason;
	const char *source;
	/* Why it is left out for another allocator or release; NULL: nothing is said. */
	const char *otherwise;
	bool (*valid)(const char *value); /* whether a value is accepted; NULL: every value is */
	const char *invalid;		  /* effect of a value that is not accepted */
	/*
	 * Pattern for a shell's `case` of values without any effect, which count as not set. It
	 * covers most of them. NULL: every value is kept.
	 */
	const char *ignored_pattern;
	bool overrides_job; /* its reader prefers it to the value in the job */
};

/*
 * How a format writes settings. One line per variable: before, NAME, between, quoted value, after.
 */
struct flmem_settings_syntax {
	const char *head; /* written once, in front of all lines */
	const char *before, *between, *after;
	flmem_quote_fn *quote;
	const char *comment_before, *comment_after;
	/* Written once after all lines, followed by each name with `name_before`; NULL: none. */
	const char *tail;
	const char *name_before;
	flmem_quote_fn *comment_quote; /* quotes the text of comments; NULL: they are not quoted */
	enum flmem_settings_format format;
	bool quotes_pair; /* the quotes are around NAME=value, not around the value */
	bool elsewhere;	  /* the settings are used on another machine */
};

#endif
