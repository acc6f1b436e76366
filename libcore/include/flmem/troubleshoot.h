/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TROUBLESHOOT_H
#define FLMEM_TROUBLESHOOT_H

/*
 * The three lists of NVFlare's guide "Memory Management", section "Troubleshooting", walked in
 * order for one process: what is known of each step from its live state, its recording, the
 * kernel's log of its end, and the jobs and scripts that were checked beside it. Nothing is read
 * twice: the findings of flmem_recommend() and flmem_recommend_processes() are what is looked at.
 *
 * Results own their strings, except for static ones: release with flmem_troubles_clear(). Texts
 * may hold what came from a process or a file; escape before printing.
 */

#include <stddef.h>

#include <flmem/detect.h>
#include <flmem/error.h>
#include <flmem/recommend.h>
#include <flmem/roles.h>

/* X(NAME, text, title) */
#define FLMEM_TROUBLE_LISTS(X)                    \
	X(SERVER, "server", "High RSS on server") \
	X(CLIENT, "client", "High RSS on client") \
	X(OOM, "oom", "OOM errors")

enum flmem_trouble_list {
#define FLMEM_TROUBLE_ENUM(name, text, title) FLMEM_TROUBLE_##name,
	FLMEM_TROUBLE_LISTS(FLMEM_TROUBLE_ENUM)
#undef FLMEM_TROUBLE_ENUM
};

/* "server", ... and what the guide calls it. Never NULL. */
FLMEM_API const char *flmem_trouble_list_name(enum flmem_trouble_list list);
FLMEM_API const char *flmem_trouble_list_title(enum flmem_trouble_list list);

/* X(NAME, text) */
#define FLMEM_STEP_STATES(X)        \
	X(DONE, "done")             \
	X(NOT_DONE, "not-done")     \
	X(NOT_NEEDED, "not-needed") \
	X(CANNOT_TELL, "cannot-tell")

enum flmem_step_state {
#define FLMEM_STEP_STATE_ENUM(name, text) FLMEM_STEP_##name,
	FLMEM_STEP_STATES(FLMEM_STEP_STATE_ENUM)
#undef FLMEM_STEP_STATE_ENUM
};

/* "done", ...; never NULL. */
FLMEM_API const char *flmem_step_state_name(enum flmem_step_state state);

/* A step as the guide has it. */
struct flmem_trouble_step {
	enum flmem_trouble_list list;
	const char *id;	  /* "SRV-ARENA"; stable */
	const char *text; /* what to do */
};

/* The steps, list by list and in order; NULL behind the last. */
FLMEM_API const struct flmem_trouble_step *flmem_trouble_step(size_t index);

/* What is known of a step. */
struct flmem_step_answer {
	const struct flmem_trouble_step *step;
	enum flmem_step_state state;
	char *evidence; /* or why it cannot be told */
	char *next;	/* what to do about it, mostly a command; NULL: nothing */
};

#define FLMEM_TROUBLE_STEPS_MAX 6

/* One list for one process. */
struct flmem_trouble_walk {
	char *subject; /* "process 4711 (client-job)", with the recording that it is from */
	enum flmem_trouble_list list;
	char *because; /* why this list */
	struct flmem_step_answer steps[FLMEM_TROUBLE_STEPS_MAX];
	size_t step_count;
};

struct flmem_troubles {
	struct flmem_trouble_walk *walks;
	size_t count;
};

/*
 * Walks a list for each process of `report` (NULL: none) and each recorded process that `found`
 * holds: that of its role, or that of OOM errors where the kernel has killed in its control group
 * and, of a process that lives, that group is limited; and the latter for the last process that
 * each kernel's log in `found` tells to be killed.
 * `role` names the list for all of them, FLMEM_ROLE_NONE leaves it to that. Processes whose role is
 * not known are left out, unless all would be: then FLMEM_EUSAGE says how to name it; so for no
 * process at all.
 *
 * `found` is of the files, joined with that of the processes.
 */
FLMEM_API int flmem_troubleshoot(const struct flmem_detect_report *report,
				 const struct flmem_recommendations *found, enum flmem_role role,
				 struct flmem_troubles *ret_troubles, struct flmem_error *err);

FLMEM_API void flmem_troubles_clear(struct flmem_troubles *troubles);

#endif
