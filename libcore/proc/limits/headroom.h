/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_LIMITS_HEADROOM_H
#define FLMEM_PROC_LIMITS_HEADROOM_H

/*
 * Checks whether a process can still get memory from the kernel. Some functions end their process
 * when an allocation fails (PyGILState_Ensure of CPython), so they are not called if one may fail.
 */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/text/buf.h"
#include "proc/process.h"

/*
 * FLMEM_EUNSAFE, with the limit, if less than `bytes` may be mapped: RLIMIT_AS, RLIMIT_DATA,
 * RLIMIT_MEMLOCK where memory is locked, the number of mappings, or the commit limit of a host that
 * does not overcommit; also if a limit cannot be read. At least 256 MiB for RLIMIT_AS and
 * RLIMIT_MEMLOCK, which also count reserved memory. Limits of control groups make no allocation
 * fail: see group_room.h.
 */
int flmem_headroom_check(const struct flmem_process *process, uint64_t bytes,
			 struct flmem_error *err);

/*
 * Does the same as flmem_headroom_check() before a thread is started in the process, whose stack
 * may be larger than usual (ulimit -s).
 */
int flmem_headroom_check_thread(const struct flmem_process *process, uint64_t bytes,
				struct flmem_error *err);

/*
 * FLMEM_EUNSAFE if the control groups of the process (pids.max) or the limit of its user
 * (RLIMIT_NPROC) leave few threads: one that flmem starts would take the place of the next one that
 * the program starts. Groups that are not visible here refuse nothing, and processes that are not
 * visible do not count.
 */
int flmem_headroom_check_tasks(const struct flmem_process *process, struct flmem_error *err);

/*
 * Reads a soft limit by its name in /proc/PID/limits, in its unit there; UINT64_MAX: unlimited.
 * Returns false if it cannot be read.
 */
bool flmem_headroom_limit(const struct flmem_process *process, const char *name,
			  uint64_t *ret_limit);

/*
 * The two steps of flmem_headroom_limit(), for callers that need several limits: reading the text
 * of that file, and finding one limit in it.
 */
bool flmem_headroom_limits_read(const struct flmem_process *process, struct flmem_buf *limits);
bool flmem_headroom_limit_find(const char *limits, const char *name, uint64_t *ret_limit);

#endif
