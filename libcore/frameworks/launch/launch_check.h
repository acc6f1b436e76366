/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_LAUNCH_CHECK_H
#define FLMEM_FRAMEWORKS_LAUNCH_CHECK_H

/* What rules about launch files share: one call per launch or variable, and their findings. */

#include "frameworks/launch/launch_search.h"

/* One launch of a file that is checked. */
struct flmem_launch_check {
	struct flmem_check *check;
	const struct flmem_launches *launches;
	const struct flmem_launch *launch;
	int index;	     /* of the launch; -1: none */
	const void *context; /* that the caller gave */
};

/* Calls `look` for each launch in the file of the framework that the rule is about. */
void flmem_launch_check_each(struct flmem_check *check,
			     void (*look)(const struct flmem_launch_check *one));

/*
 * Calls `look` for each variable of the file whose value is known, possibly empty, with the launch
 * that it is for; that launch is NULL if it is for several, or none is in the file.
 */
void flmem_launch_check_variables(struct flmem_check *check,
				  void (*look)(const struct flmem_launch_check *one,
					       const struct flmem_launch_variable *variable));

/* The same with a context. */
void flmem_launch_check_variables_with(struct flmem_check *check,
				       void (*look)(const struct flmem_launch_check *one,
						    const struct flmem_launch_variable *variable),
				       const void *context);

/* The last value that holds for the launch; NULL when there is none. */
const struct flmem_launch_variable *flmem_launch_variable_of(const struct flmem_launch_check *one,
							     const char *name);

/* Reports a finding at the value of a variable; `proposed` and `detail` may be NULL. */
void flmem_launch_report(struct flmem_check *check, const struct flmem_launch_variable *variable,
			 const char *proposed, const char *detail);

/* Reports what a file leaves open at a place; `why` may be NULL. */
void flmem_launch_report_doubt(struct flmem_check *check, const struct flmem_place *place,
			       const char *path, const char *why);

/* The doubt about a file that sets or starts more than is kept. */
#define FLMEM_LAUNCH_CUT "not all of the file was read: it is too long"

/* Reports each doubt of a file that the other checked files do not resolve. */
void flmem_launch_report_doubts(struct flmem_check *check, const struct flmem_launches *launches);

/* The message of a rule that does only this. */
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

/* The Python file of a doubt, if it is checked together with what runs it; or NULL. */
const struct flmem_rule_input *flmem_launch_script_of(const struct flmem_check *check,
						      const struct flmem_launch_doubt *doubt);

/*
 * Whether files that start the checked one or belong to it (drop-ins of a unit, an override of
 * Compose, the Dockerfile that it builds) set one of the variables for it, as far as they are read
 * with it; the names end in NULL. NEVER also if no file starts it.
 */
enum flmem_launch_reach flmem_launch_reach_of_callers(const struct flmem_check *check,
						      const char *const *names);

#endif
