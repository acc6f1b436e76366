/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_RECORDING_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_RECORDING_H

#include <flmem/recommend.h>

#include "base/text/version_number.h"

/*
 * Checks one process of the recording `file` against all rules about trends. How often the process
 * cleans up is known from the jobs in `found`, or from its environment if it still runs: `live`,
 * else NULL. FLMEM_EFAILED if memory is out.
 */
int flmem_recommend_recorded(const struct flmem_watch_result *result,
			     const struct flmem_process_report *live, const char *file,
			     const struct flmem_version_number *release,
			     struct flmem_recommendations *found, struct flmem_error *err);

/*
 * Checks every process of a recording, which options->replay reads, against the rules about trends.
 * An unreadable recording becomes a problem in `found`. FLMEM_EFAILED if memory is out.
 */
int flmem_recommend_recording(const char *path, const struct flmem_recommend_options *options,
			      const struct flmem_version_number *release,
			      struct flmem_recommendations *found, struct flmem_error *err);

#endif
