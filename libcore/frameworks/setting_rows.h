/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_SETTING_ROWS_H
#define FLMEM_FRAMEWORKS_SETTING_ROWS_H

/*
 * A memory setting as a row, and how a text format writes settings; settings/ has those of any
 * framework, each framework its own.
 */

#include <stdbool.h>

#include <flmem/roles.h>
#include <flmem/settings.h>

#include "base/text/quote.h"
#include "base/text/version_number.h"

#define FLMEM_BIT(value) (1U << (value))

/* Circumstances that a row needs. */
enum {
	FLMEM_NEEDS_GPU = 1,
	FLMEM_NEEDS_HIGH_PARALLELISM = 2,
	FLMEM_NEEDS_NORMAL_PARALLELISM = 4,
};

struct flmem_setting_row {
	const char *name;
	const char *value;   /* NULL: the jemalloc library, appended to the user's list */
	unsigned roles;	     /* FLMEM_BIT(enum flmem_role) */
	unsigned allocators; /* FLMEM_BIT(enum flmem_allocator_kind) */
	unsigned frameworks; /* FLMEM_BIT(enum flmem_framework) */
	unsigned needs;	     /* FLMEM_NEEDS_* */
	struct flmem_version_number since; /* of the framework; all zero: always */
	struct flmem_version_number before;
	const char *where; /* NULL: an environment variable; else the job setting */
	const char *reason;
	const char *source;
	const char
		*otherwise; /* why it is left out for another allocator or release; NULL: silent */
	bool (*valid)(const char *value); /* NULL: every value is valid */
	const char *invalid;		  /* the effect of a value that is not valid */
	/*
	 * Such values have no effect at all, so they count as not set: the pattern of most of them
	 * for a shell's `case`. NULL: they are kept.
	 */
	const char *ignored_pattern;
	bool overrides_job; /* its reader uses it instead of the value in the job */
};

/* One line per variable: before, NAME, between, quoted value, after. */
struct flmem_settings_syntax {
	const char *head; /* once, before all lines */
	const char *before, *between, *after;
	flmem_quote_fn *quote;
	const char *comment_before, *comment_after;
	const char *tail; /* after all lines, then each name with name_before; NULL: none */
	const char *name_before;
	flmem_quote_fn *comment_quote; /* NULL: the text of a comment is not quoted */
	enum flmem_settings_format format;
	bool quotes_pair; /* the quotes go around NAME=value */
	bool elsewhere;	  /* used on another machine */
};

#endif
