/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_TASK_SCHEDULING_H
#define FLMEM_PROC_TASK_SCHEDULING_H

/*
 * The priority of a thread, and its control groups, compared with those of the other threads of its
 * process. A borrowed thread takes locks that the others wait for: if it gets a processor only
 * after all of them, they wait for each other. A real-time thread keeps its processor for as long
 * as the calls take.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/text/buf.h"

struct flmem_process;

/* Control groups of the threads of a process, read once for all that are compared. */
struct flmem_task_groups {
	struct flmem_buf first; /* groups of one thread */
	bool is_read;
	bool differ; /* another thread is in other groups */
};

#define FLMEM_TASK_GROUPS_INIT           \
	{                                \
		.first = FLMEM_BUF_INIT, \
	}

void flmem_task_groups_clear(struct flmem_task_groups *groups);

#define FLMEM_AUTO_TASK_GROUPS FLMEM_AUTO(flmem_task_groups_clear)

/*
 * Returns NULL if calls may be made on this thread, else why not (static): it has a lower priority
 * than another thread and than a usual one, it is a real-time thread in a process whose first
 * thread is none, its processor time is limited, it is in another control group than another
 * thread, or its policy cannot be read. The first call fills `groups`; later changes are seen only
 * with an empty one.
 */
const char *flmem_task_scheduling_refuses(const struct flmem_process *process, pid_t tid,
					  struct flmem_task_groups *groups);

#endif
