/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_PLAN_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_PLAN_H

/* A plan with which the memory limits in files are compared. */

#include <flmem/finding.h>
#include <flmem/plan.h>

#include "rules/rules.h"

/* Returns the peaks of the strategy that the plan chose, and of the one with the lowest peaks. */
struct flmem_plan_peaks flmem_recommend_peaks(const struct flmem_plan *plan,
					      enum flmem_framework framework);

/* Stores the peaks in the result, in which no limit has been compared yet. */
void flmem_recommend_set_peaks(const struct flmem_plan_peaks *peaks,
			       struct flmem_recommendations *found);

/*
 * Adds a warning about `path` if no limit was compared: such a check has not passed. FLMEM_EFAILED
 * if memory is out.
 */
int flmem_recommend_no_limit(const char *path, struct flmem_recommendations *found,
			     struct flmem_error *err);

#endif
