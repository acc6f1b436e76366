/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_LAUNCH_CHECK_H
#define FLMEM_FRAMEWORKS_LAUNCH_CHECK_H

/* Shared by rules about launch files: calls per launch or variable, and reporting of findings. */

#include "frameworks/launch/launch_search.h"

/* One launch or variable of a checked file, as it is passed to a rule. */
struct flmem_launch_check {
	struct flmem_check *check;
	const struct flmem_launches *launches;
	/* The launch, or NULL for a variable that applies to several or to none. */
	const struct flmem_launch *launch;
	int index;	     /* index of the launch; -1: none */
	const void *context; /* as the caller passed it */
};

/* Calls `look` for each launch in the file of the framework that the rule is about. */
void flmem_launch_check_each(struct flmem_check *check,
			     void (*look)(const struct flmem_launch_check *one));

/*
 * Calls `look` for each variable whose value is known, possibly empty. one->launch is the launch
 * that the variable is for; NULL if the file has several or none.
 */
void flmem_launch_check_variables(struct flmem_check *check,
				  void (*look)(const struct flmem_launch_check *one,
					       const struct flmem_launch_variable *variable));

/* The same, with a context that `look` finds in one->context. */
void flmem_launch_check_variables_with(struct flmem_check *check,
				       void (*look)(const struct flmem_launch_check *one,
						    const struct flmem_launch_variable *variable),
				       const void *context);

/* The last assignment that reaches the launch; NULL if there is none. */
const struct flmem_launch_variable *flmem_launch_variable_of(const struct flmem_launch_check *one,
							     const char *name);

/* Reports a finding at the value of a variable; `proposed` and `detail` may be NULL. */
void flmem_launch_report(struct flmem_check *check, const struct flmem_launch_variable *variable,
			 const char *proposed, const char *detail);

/* Reports at a place something that the file does not show; `why` may be NULL. */
void flmem_launch_report_doubt(struct flmem_check *check, const struct flmem_place *place,
			       const char *path, const char *why);

/* Detail of the finding about a file with more launches or variables than the tables hold. */
#define FLMEM_LAUNCH_CUT "not all of the file was read: it is too long"

/* Reports each doubt of a file that the other checked files do not resolve. */
void flmem_launch_report_doubts(struct flmem_check *check, const struct flmem_launches *launches);

/* Message of a rule that only calls flmem_launch_check_starts(). */
#define FLMEM_LAUNCH_STARTS_MESSAGE                                                            \
	"cannot tell whether its allocator is set: of what starts this framework only values " \
	"are checked; start it with flmem start, and check what runs with flmem recommend --pid"

/*
 * For a framework without rules about its start: reports each of its programs that the file starts.
 * If there is none, reports the Python that a file about the framework runs.
 */
void flmem_launch_check_starts(struct flmem_check *check);

/* The recommended MALLOC_ARENA_MAX of a role. */
const char *flmem_launch_arenas(enum flmem_role role);

/* The checked Python file that resolves a doubt; NULL if it is not among the checked files. */
const struct flmem_rule_input *flmem_launch_script_of(const struct flmem_check *check,
						      const struct flmem_launch_doubt *doubt);

/*
 * Whether other files that were read with the checked one set one of the variables for it: files
 * that start it, or belong to it (drop-ins of a unit, an override of Compose, the Dockerfile that
 * it builds). `names` ends in NULL. FLMEM_LAUNCH_NEVER also if no file starts it.
 */
enum flmem_launch_reach flmem_launch_reach_of_callers(const struct flmem_check *check,
						      const char *const *names);

#endif
