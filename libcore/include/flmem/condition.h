/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CONDITION_H
#define FLMEM_CONDITION_H

/*
 * Conditions on the memory of a process, as text:
 *
 *	rss > 8G and (trimmable > 20% or headroom < 1GiB) and not swap > 0
 *
 * A parsed condition is constant and may be used by several threads.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>
#include <flmem/process_report.h>

/*
 * Fields of a comparison. X(NAME, text, meaning, whether the field needs a read of the heap,
 * whether a percentage refers to the memory limit instead of RSS)
 */
#define FLMEM_CONDITION_FIELDS(X)                                                         \
	X(RSS, "rss", "resident memory", false, false)                                    \
	X(ANON, "anon", "anonymous resident memory", false, false)                        \
	X(FILE, "file", "resident pages of files", false, false)                          \
	X(SHMEM, "shmem", "resident shared memory", false, false)                         \
	X(SWAP, "swap", "swapped out", false, false)                                      \
	X(TRIMMABLE, "trimmable", "what a trim would release", true, false)               \
	X(FREE, "free", "free according to the allocators, and resident", true, false)    \
	X(PINNED, "pinned", "part of free that cannot be released", true, false)          \
	X(CACHED, "cached", "freed, in thread caches", true, false)                       \
	X(IN_USE, "in-use", "allocated by the program", true, false)                      \
	X(CGROUP, "cgroup", "use of the lowest memory limit of the process", false, true) \
	X(HEADROOM, "headroom", "memory left below that limit", false, true)

enum flmem_condition_field {
#define FLMEM_CONDITION_FIELD_ENUM(name, text, what, heap, limit) FLMEM_CONDITION_##name,
	FLMEM_CONDITION_FIELDS(FLMEM_CONDITION_FIELD_ENUM)
#undef FLMEM_CONDITION_FIELD_ENUM
	FLMEM_CONDITION_FIELD_COUNT
};

/* Returns the text of a field in conditions ("rss"); static, NULL for other values. */
FLMEM_API const char *flmem_condition_field_name(enum flmem_condition_field field);

/* Returns the meaning of a field ("resident memory"); static, NULL for other values. */
FLMEM_API const char *flmem_condition_field_meaning(enum flmem_condition_field field);

/* Limits of a condition: longer texts, deeper parentheses and more comparisons are refused. */
#define FLMEM_CONDITION_TEXT_MAX  1024U
#define FLMEM_CONDITION_DEPTH_MAX 32U
#define FLMEM_CONDITION_PARTS_MAX 64U

struct flmem_condition;

/*
 * Parses a condition. A comparison is FIELD, one of > >= < <=, and a size (8G, 1.5GiB) or a
 * percentage. A percentage refers to RSS, for the fields cgroup and headroom to the limit.
 * Comparisons are combined with `and`, `or`, `not` and parentheses; `not` binds tightest, then
 * `and`. FLMEM_EUSAGE with the position of the error. Release with flmem_condition_free().
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_condition_parse(const char *text,
						     struct flmem_condition **ret_condition,
						     struct flmem_error *err);

/* Frees a condition; NULL is allowed. */
FLMEM_API void flmem_condition_free(struct flmem_condition *condition);

/*
 * Value of a condition. With an unknown figure it is unknown, unless other comparisons decide it.
 */
enum flmem_truth {
	FLMEM_FALSE,
	FLMEM_TRUE,
	FLMEM_UNDECIDED,
};

/*
 * Evaluates the condition for the process. *ret_why is NULL or, if the condition is undecided, the
 * reason why a figure is unknown (static).
 */
FLMEM_API enum flmem_truth flmem_condition_check(const struct flmem_condition *condition,
						 const struct flmem_process_report *report,
						 const char **ret_why);

/* Returns true if some comparison needs a read of the heap. */
FLMEM_API bool flmem_condition_needs_heap(const struct flmem_condition *condition);

#endif
