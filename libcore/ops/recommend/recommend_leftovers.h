/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_LEFTOVERS_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_LEFTOVERS_H

/* Findings about directories that killed processes left behind on this host. */

#include <flmem/recommend.h>

#include "base/text/version_number.h"

/*
 * Searches the places for temporary files of flmem and of these processes for directories of the
 * processes' frameworks. `of_host`: of all frameworks. FLMEM_EFAILED if memory is out.
 */
int flmem_recommend_leftovers(const struct flmem_detect_report *report, bool of_host,
			      const struct flmem_version_number *release,
			      struct flmem_recommendations *found, struct flmem_error *err);

#endif
