/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_PROFILE_JEMALLOC_ENGINE_H
#define FLMEM_OPS_PROFILE_JEMALLOC_ENGINE_H

/*
 * Controls the profiling of a process's own jemalloc from outside. Switching it is a call on a
 * borrowed thread, with all checks of a trim. Writing the dump is not: jemalloc opens and writes a
 * file under its locks. A thread that is started for it makes that call, so that no thread of the
 * program waits for a disk inside jemalloc.
 */

#include <flmem/attach.h>

#include "ops/target/inspection.h"

/* FLMEM_EUSAGE for options that jemalloc's own settings decide, or that belong to the detach. */
int flmem_jemalloc_engine_check(const struct flmem_profile_request *request,
				struct flmem_error *err);

/*
 * Attach: switches profiling on. Detach: writes the dump if a file is named, then switches
 * profiling off.
 */
int flmem_jemalloc_engine_run(struct flmem_target_inspection *target,
			      const struct flmem_attach_options *options, bool detach,
			      struct flmem_attach_result *result, struct flmem_error *err);

#endif
