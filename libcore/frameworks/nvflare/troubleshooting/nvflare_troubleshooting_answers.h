/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_TROUBLE_ANSWERS_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_TROUBLE_ANSWERS_H

/* Parts of the answers to the troubleshooting steps: what is known, and what to do next. */

#include "frameworks/troubleshooting.h"

/* Sets the state and the evidence for it. */
__attribute__((format(printf, 3, 4))) void
flmem_answer_set_state(struct flmem_troubleshoot_answer *answer, enum flmem_step_state state,
		       const char *format, ...);

/* Sets what to do next. */
__attribute__((format(printf, 2, 3))) void
flmem_answer_set_next(struct flmem_troubleshoot_answer *answer, const char *format, ...);

/*
 * The first finding of one of the rules (the list ends in NULL) about files or about this process;
 * NULL: none.
 */
const struct flmem_finding *flmem_answer_find(const struct flmem_troubleshoot_case *one,
					      const char *const *rules);

/* The same, with the rules as arguments. */
#define FLMEM_ANSWER_FINDING(one, ...) \
	flmem_answer_find((one), (const char *const[]){__VA_ARGS__, NULL})

#define FLMEM_ANSWER_NAME_JOB "also pass the job's folder, with its Python files"

/* Not done, as the finding says. */
void flmem_answer_report(struct flmem_troubleshoot_answer *answer, const struct flmem_finding *f);

/* What to do next: start it by flmem, with more options; or record it, for a reason. */
void flmem_answer_advise_start(const struct flmem_troubleshoot_case *one,
			       struct flmem_troubleshoot_answer *answer, const char *more);
void flmem_answer_advise_watch(const struct flmem_troubleshoot_case *one,
			       struct flmem_troubleshoot_answer *answer, const char *why);

/* Not needed and true if the process is of a framework without the settings of NVFlare's guide. */
bool flmem_answer_is_foreign(const struct flmem_troubleshoot_case *one,
			     struct flmem_troubleshoot_answer *answer, const char *setting);

#endif
