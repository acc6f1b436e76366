/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TROUBLESHOOT_H
#define FLMEM_TROUBLESHOOT_H

/*
 * The three lists of NVFlare's guide "Memory Management", section "Troubleshooting", evaluated in
 * order for one process: the state of each step according to the live process, its recording, the
 * kernel log of its kill, and the jobs and scripts checked with it. The evaluation uses the
 * findings of flmem_recommend() and flmem_recommend_processes() and reads nothing again.
 *
 * Results own their strings, except for static ones: release with
 * flmem_troubleshoot_report_clear(). Texts may contain parts of a process or a file; escape before
 * printing.
 */

#include <stddef.h>

#include <flmem/error.h>
#include <flmem/finding.h>
#include <flmem/process_report.h>
#include <flmem/roles.h>

struct flmem_detect_report; /* flmem/detect.h */

/* The guide's lists. X(NAME, text, title) */
#define FLMEM_TROUBLESHOOT_LISTS(X)               \
	X(SERVER, "server", "High RSS on server") \
	X(CLIENT, "client", "High RSS on client") \
	X(OOM, "oom", "OOM errors")

enum flmem_troubleshoot_list {
#define FLMEM_TROUBLESHOOT_ENUM(name, text, title) FLMEM_TROUBLESHOOT_##name,
	FLMEM_TROUBLESHOOT_LISTS(FLMEM_TROUBLESHOOT_ENUM)
#undef FLMEM_TROUBLESHOOT_ENUM
};

/* Return the short name of a list ("server", ...) and its title in the guide. Never NULL. */
FLMEM_API const char *flmem_troubleshoot_list_name(enum flmem_troubleshoot_list list);
FLMEM_API const char *flmem_troubleshoot_list_title(enum flmem_troubleshoot_list list);

/* States of a step. X(NAME, text) */
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

/* Returns the name of a state ("done", ...); never NULL. */
FLMEM_API const char *flmem_step_state_name(enum flmem_step_state state);

/* A step of the guide; all texts are static. */
struct flmem_troubleshoot_step {
	enum flmem_troubleshoot_list list;
	const char *id;	  /* stable identifier, "SRV-ARENA" */
	const char *text; /* what the step asks to do */
};

/* Returns a step; the steps are in the order of the lists. NULL after the last. */
FLMEM_API const struct flmem_troubleshoot_step *flmem_troubleshoot_step(size_t index);

/* Evaluation of a step for one process. */
struct flmem_step_answer {
	const struct flmem_troubleshoot_step *step;
	enum flmem_step_state state;
	char *evidence; /* why the step has this state, or why the state is unknown */
	char *next;	/* next action, usually a command; NULL: none */
};

#define FLMEM_TROUBLESHOOT_STEPS_MAX 6

/* One list for one process. */
struct flmem_troubleshoot_evaluation {
	char *subject; /* process and its recording: "process 4711 (client-job)" */
	enum flmem_troubleshoot_list list;
	char *reason; /* why this list applies */
	struct flmem_step_answer steps[FLMEM_TROUBLESHOOT_STEPS_MAX];
	size_t step_count;
};

struct flmem_troubleshoot_report {
	struct flmem_troubleshoot_evaluation *evaluations;
	size_t count;
};

/*
 * Evaluates the lists. For each process of `report` (NULL: none) and each recorded process in
 * `found`, this is the list of its role; or the list of OOM errors if the kernel killed a process
 * in its control group and, for a live process, that group has a limit. The list of OOM errors is
 * also evaluated for the last killed process of each kernel log in `found`, and for each log of a
 * job that ran out of GPU memory. `role` selects the list for all of them, FLMEM_ROLE_NONE the one
 * of each process. Processes of unknown role are skipped; if no process remains, FLMEM_EUSAGE names
 * the option to use.
 *
 * `found` holds the findings of the files, joined with those of the processes. Release with
 * flmem_troubleshoot_report_clear().
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_troubleshoot(const struct flmem_detect_report *report,
						  const struct flmem_recommendations *found,
						  enum flmem_role role,
						  struct flmem_troubleshoot_report *ret_troubles,
						  struct flmem_error *err);

/* Frees the evaluations and zeroes the struct. */
FLMEM_API void flmem_troubleshoot_report_clear(struct flmem_troubleshoot_report *troubles);

#endif
