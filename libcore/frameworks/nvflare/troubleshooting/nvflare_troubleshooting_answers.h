/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_TROUBLE_ANSWERS_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_TROUBLE_ANSWERS_H

/*
 * Shared parts of the answers to the troubleshooting steps: the state of a step, and what to do
 * next.
 */

#include "frameworks/troubleshooting.h"

/* Sets the state and the evidence for it (printf format). */
__attribute__((format(printf, 3, 4))) void
flmem_answer_set_state(struct flmem_troubleshoot_answer *answer, enum flmem_step_state state,
		       const char *format, ...);

/* Sets what to do next (printf format). */
__attribute__((format(printf, 2, 3))) void
flmem_answer_set_next(struct flmem_troubleshoot_answer *answer, const char *format, ...);

/*
 * Finds the first finding of one of the rules (ends in NULL) about files or about this process, not
 * about other processes. NULL: none.
 */
const struct flmem_finding *flmem_answer_find(const struct flmem_troubleshoot_case *one,
					      const char *const *rules);

/* The same with the rules as arguments. */
#define FLMEM_ANSWER_FINDING(one, ...) \
	flmem_answer_find((one), (const char *const[]){__VA_ARGS__, NULL})

#define FLMEM_ANSWER_NAME_JOB "also pass the job's folder, with its Python files"

/*
 * Sets the state "not done" with the value and place of a finding as evidence. A finding about the
 * process itself has no place.
 */
void flmem_answer_report(struct flmem_troubleshoot_answer *answer, const struct flmem_finding *f);

/*
 * Set what to do next: to start the process by flmem with more options, or to record it for a
 * reason.
 */
void flmem_answer_advise_start(const struct flmem_troubleshoot_case *one,
			       struct flmem_troubleshoot_answer *answer, const char *more);
void flmem_answer_advise_watch(const struct flmem_troubleshoot_case *one,
			       struct flmem_troubleshoot_answer *answer, const char *why);

/*
 * Sets the state "not needed" and returns true if the process is of another framework, which lacks
 * the settings of NVFlare's guide.
 */
bool flmem_answer_is_foreign(const struct flmem_troubleshoot_case *one,
			     struct flmem_troubleshoot_answer *answer, const char *setting);

#endif
