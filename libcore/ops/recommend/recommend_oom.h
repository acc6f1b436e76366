/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_RECOMMEND_OOM_H
#define FLMEM_OPS_RECOMMEND_RECOMMEND_OOM_H

#include <stdbool.h>

#include <flmem/recommend.h>

/* Whether the file is a kernel's log that tells of a process that was killed. */
bool flmem_recommend_is_oom_log(const char *path);

/*
 * Holds the rules about kills against the last one of the log, and keeps what it tells in `found`.
 * One that cannot be read is a problem there. FLMEM_EFAILED when memory is out.
 */
int flmem_recommend_oom_log(const char *path, struct flmem_recommendations *found,
			    struct flmem_error *err);

#endif
