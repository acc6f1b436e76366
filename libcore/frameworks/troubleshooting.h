/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_TROUBLESHOOTING_H
#define FLMEM_FRAMEWORKS_TROUBLESHOOTING_H

/*
 * The steps of flmem/troubleshoot.h: tables of rows, each with the function that decides whether a
 * step is done. The functions use only findings that were made before, and read nothing themselves.
 * The lists of a framework's guide are applied to processes of every framework.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/troubleshoot.h>
#include <flmem/watch_result.h>

/* The facts about one process; a pointer is NULL if the fact is not known. */
struct flmem_troubleshoot_case {
	enum flmem_troubleshoot_list list;
	enum flmem_role role;
	enum flmem_framework framework;
	const char *place; /* `file` of findings about the process itself */
	pid_t pid;
	const struct flmem_process_report *process;
	const struct flmem_watch_result *recorded;
	const struct flmem_oom_kill *kill;
	const struct flmem_gpu_oom *gpu; /* GPU memory ran out, not that of the host */
	const struct flmem_recommendations *found;
};

#define FLMEM_TROUBLESHOOT_TEXT_MAX 320

/* The answer of a step. */
struct flmem_troubleshoot_answer {
	enum flmem_step_state state;
	char evidence[FLMEM_TROUBLESHOOT_TEXT_MAX];
	char next[FLMEM_TROUBLESHOOT_TEXT_MAX]; /* what to do next; "": nothing */
};

/* Decides whether a step is done, and fills the answer. */
typedef void flmem_troubleshoot_check(const struct flmem_troubleshoot_case *one,
				      struct flmem_troubleshoot_answer *ret_answer);

/* One step of a list. A table ends in a row without `check`. */
struct flmem_troubleshoot_row {
	struct flmem_troubleshoot_step step;
	flmem_troubleshoot_check *check;
};

/* Answers the step with this index, as flmem_troubleshoot_step() counts them. */
void flmem_troubleshoot_answer(size_t index, const struct flmem_troubleshoot_case *one,
			       struct flmem_troubleshoot_answer *ret_answer);

#endif
