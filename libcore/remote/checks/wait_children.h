/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHECKS_WAIT_CHILDREN_H
#define FLMEM_REMOTE_CHECKS_WAIT_CHILDREN_H

/*
 * Checks wait4() and waitid(), which search for a child when they are called, and fail with ECHILD
 * if there is none. A call that already waits continues when its child changes into one that it
 * does not wait for.
 */

#include <sys/types.h>

struct flmem_process;
struct flmem_task_wait;

/* Returns why such a call could fail if it were restarted, as a static text, or NULL. */
const char *flmem_wait_children_changed(const struct flmem_process *process, pid_t tid,
					const struct flmem_task_wait *at);

#endif
