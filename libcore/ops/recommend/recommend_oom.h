/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_OOM_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_OOM_H

#include <stdbool.h>

#include <flmem/recommend.h>

/* Returns true if the file is a log that reports a killed process, or GPU memory that ran out. */
bool flmem_recommend_is_oom_log(const char *path);

/*
 * Checks the last kill or failure of the log against the rules and stores it in `found`. An
 * unreadable log becomes a problem there. FLMEM_EFAILED when out of memory.
 */
int flmem_recommend_oom_log(const char *path, struct flmem_recommendations *found,
			    struct flmem_error *err);

#endif
