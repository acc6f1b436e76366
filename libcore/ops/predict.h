/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_PREDICT_H
#define FLMEM_OPS_PREDICT_H

/* How much a trim of a process would release, told beforehand by reading its heaps from outside. */

#include <flmem/value.h>

#include "ops/inspection.h"

/* Enough for several GiB; of more than that a sample is read. */
#define FLMEM_PREDICT_BUDGET_US 250000U

/* The sum over the allocators that a trim calls; unknown when one of them cannot be read. */
struct flmem_u64 flmem_predict(const struct flmem_inspection *target, uint64_t budget_us);

#endif
