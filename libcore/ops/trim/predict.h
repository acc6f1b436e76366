/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TRIM_PREDICT_H
#define FLMEM_OPS_TRIM_PREDICT_H

/* How much a trim of a process would release, by the state of its heaps beforehand. */

#include <flmem/detect.h>
#include <flmem/value.h>

#include "ops/target/inspection.h"
#include "remote/borrow.h"

/* Enough for several GiB; of more than that a sample is read. */
#define FLMEM_PREDICT_BUDGET_US 250000U

/*
 * The sum over the allocators that a trim calls; unknown when one of them cannot be told. Some have
 * to be asked on a borrowed thread: `borrow` as for the trim, NULL where nothing may be touched.
 * *ret_asked says whether that was done and how long threads stood still for it.
 */
struct flmem_u64 flmem_predict(const struct flmem_inspection *target, uint64_t budget_us,
			       const struct flmem_borrow_options *borrow,
			       struct flmem_asked *ret_asked);

#endif
