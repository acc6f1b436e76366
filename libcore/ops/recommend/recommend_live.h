/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_LIVE_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_LIVE_H

#include <flmem/recommend.h>

#include "base/release.h"

/*
 * Holds the rules about live processes against one of them. One that may not be read is a problem
 * in `found`, beside what its status tells. FLMEM_EFAILED when memory is out.
 */
int flmem_recommend_process(const struct flmem_process_report *process,
			    const struct flmem_release *release,
			    struct flmem_recommendations *found, struct flmem_error *err);

/* A process that gave no report is a problem in `found`. The same. */
int flmem_recommend_skipped(const struct flmem_skipped *skipped,
			    struct flmem_recommendations *found, struct flmem_error *err);

#endif
