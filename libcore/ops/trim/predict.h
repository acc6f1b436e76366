/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TRIM_PREDICT_H
#define FLMEM_OPS_TRIM_PREDICT_H

/* Predicts how much a trim of a process will release, from the state of its heaps. */

#include <flmem/process_report.h>
#include <flmem/value.h>

#include "ops/target/inspection.h"
#include "remote/borrow.h"

/* Time that suffices to read several GiB completely; a larger heap is sampled. */
#define FLMEM_PREDICT_BUDGET_US 250000U

/*
 * Returns the sum over the allocators that a trim calls, in bytes; unknown if it is unknown for one
 * of them. Some allocators report their state only to a call on a borrowed thread: `borrow` as for
 * the trim, NULL if no thread may be borrowed. *ret_asked reports whether that was done and for how
 * long threads were stopped.
 */
struct flmem_u64 flmem_predict(const struct flmem_target_inspection *target, uint64_t budget_us,
			       const struct flmem_borrow_options *borrow,
			       struct flmem_query_report *ret_asked);

#endif
