/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHECKS_WAIT_CHANGES_H
#define FLMEM_REMOTE_CHECKS_WAIT_CHANGES_H

/*
 * Checks whether a wait would continue if it were restarted. A call that already waits checks few
 * of its arguments again; one that is restarted after a stop checks all of them. Anything that has
 * changed meanwhile would end the wait.
 */

#include <stdbool.h>
#include <stdint.h>

#include "proc/process.h"
#include "proc/task.h"

struct statx;

/*
 * Returns why a read or accept that waits would not wait if it were restarted, as a static text, or
 * NULL. `file` is what its descriptor refers to now. A descriptor that was replaced by another one
 * of the same kind is not recognised.
 */
const char *flmem_wait_read_changed(const struct flmem_process *process, pid_t tid,
				    uint64_t descriptor, const struct statx *file);

/*
 * True if a poll() or ppoll() has more descriptors than the limit now allows; false for any other
 * call.
 */
bool flmem_wait_polls_too_many(const struct flmem_process *process,
			       const struct flmem_task_wait *at);

/*
 * Returns why the arguments of a futex, poll(), select() or wait for children would end the wait if
 * it were restarted, or NULL: memory that can no longer be read, a descriptor that was closed, the
 * process group of the caller.
 */
const char *flmem_wait_arguments_changed(const struct flmem_process *process, pid_t tid,
					 const struct flmem_task_wait *at);

#endif
