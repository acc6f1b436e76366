/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_LIVE_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_LIVE_H

#include <flmem/recommend.h>

#include "base/text/version_number.h"

/*
 * Checks one live process against the rules. If its memory is not readable, `found` gets a problem
 * in addition to the findings from its status. FLMEM_EFAILED when out of memory.
 */
int flmem_recommend_process(const struct flmem_process_report *process,
			    const struct flmem_version_number *release,
			    struct flmem_recommendations *found, struct flmem_error *err);

/* Adds a problem for a process without a report. FLMEM_EFAILED when out of memory. */
int flmem_recommend_skipped(const struct flmem_skipped *skipped,
			    struct flmem_recommendations *found, struct flmem_error *err);

#endif
