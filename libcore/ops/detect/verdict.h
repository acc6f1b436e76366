/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_DETECT_VERDICT_H
#define FLMEM_OPS_DETECT_VERDICT_H

/*
 * Derives the verdict from a report. Reads nothing: the same report always gives the same verdict.
 */

#include <flmem/detect.h>

/*
 * The class that holds at least this part of RSS is the verdict (shared memory and files count as
 * one). If no class does, the verdict is "mixed", or missing if more than the second percentage of
 * RSS is unknown.
 */
#define FLMEM_VERDICT_DOMINANT_PERCENT 50U
#define FLMEM_VERDICT_UNKNOWN_PERCENT  10U

/* An amount below this part of RSS, or below this many bytes, gets no sentence and no command. */
#define FLMEM_VERDICT_WORTH_PERCENT 2U
#define FLMEM_VERDICT_WORTH_BYTES   ((uint64_t)1 << 20)

/*
 * Fills kind, unknown, classes and confidence. The confidence is the part of RSS that is neither
 * unknown nor in error, and at most 50 percent if the error, moved to another class, would change
 * the verdict.
 */
void flmem_verdict_judge(const struct flmem_process_report *report,
			 struct flmem_verdict *ret_verdict);

/* Leaves the classes, but gives no verdict, for this reason (static text). */
void flmem_verdict_withhold(struct flmem_verdict *verdict, const char *why);

/* Returns why part of the memory could not be classified; static text. */
const char *flmem_verdict_reason(const struct flmem_process_report *report);

/* Returns the smallest amount that gets a sentence. */
uint64_t flmem_verdict_worth(const struct flmem_process_report *report);

/*
 * Appends the sentences and commands to a verdict. FLMEM_EFAILED if out of memory. The texts may
 * hold names from the target, which are untrusted.
 */
int flmem_verdict_explain(const struct flmem_process_report *report, struct flmem_verdict *verdict,
			  struct flmem_error *err);

void flmem_verdict_clear(struct flmem_verdict *verdict);

#endif
