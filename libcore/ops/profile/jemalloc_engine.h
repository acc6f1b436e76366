/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_PROFILE_JEMALLOC_ENGINE_H
#define FLMEM_OPS_PROFILE_JEMALLOC_ENGINE_H

/*
 * The profiling of a process's own jemalloc, switched from outside. The switch is a call on a
 * borrowed thread, with all checks of a trim. The dump is not: it opens and writes a file under
 * locks of jemalloc. A thread that is started for it makes that call, so that no thread of the
 * program waits for a disk inside it.
 */

#include <flmem/attach.h>

#include "ops/target/inspection.h"

/* FLMEM_EUSAGE: what jemalloc's settings decide, or what belongs to the end. */
int flmem_jemalloc_engine_check(const struct flmem_profile_request *request,
				struct flmem_error *err);

/* Switches it on, or writes the dump, where one is named, and switches it off. */
int flmem_jemalloc_engine_run(struct flmem_target_inspection *target,
			      const struct flmem_attach_options *options, bool detach,
			      struct flmem_attach_result *result, struct flmem_error *err);

#endif
