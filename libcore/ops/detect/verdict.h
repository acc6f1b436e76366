/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_DETECT_VERDICT_H
#define FLMEM_OPS_DETECT_VERDICT_H

/* Judges a report. Nothing is read here: the same report always gives the same verdict. */

#include <flmem/detect.h>

/*
 * The class that holds at least this part of RSS is the verdict (shared memory and files count as
 * one); when none does it is "mixed", unless more than the second figure of RSS is unknown: then
 * there is none.
 */
#define FLMEM_VERDICT_DOMINANT_PERCENT 50U
#define FLMEM_VERDICT_UNKNOWN_PERCENT  10U

/*
 * What is smaller is not worth a sentence or a command: this part of RSS, but at least this much.
 */
#define FLMEM_VERDICT_WORTH_PERCENT 2U
#define FLMEM_VERDICT_WORTH_BYTES   ((uint64_t)1 << 20)

/*
 * Fills kind, unknown, classes and confidence. The confidence is the part of RSS that is neither
 * unknown nor in doubt, and at most 50 percent where the doubt, moved to another class, would make
 * another verdict.
 */
void flmem_verdict_judge(const struct flmem_process_report *report,
			 struct flmem_verdict *ret_verdict);

/* Why part of its memory could not be told apart; static text. */
const char *flmem_verdict_reason(const struct flmem_process_report *report);

/* The least that is worth a sentence. */
uint64_t flmem_verdict_worth(const struct flmem_process_report *report);

/*
 * Appends the sentences and commands to a judged verdict. FLMEM_EFAILED when memory is out. Texts
 * may hold names from the target, which are untrusted.
 */
int flmem_verdict_explain(const struct flmem_process_report *report, struct flmem_verdict *verdict,
			  struct flmem_error *err);

void flmem_verdict_clear(struct flmem_verdict *verdict);

#endif
