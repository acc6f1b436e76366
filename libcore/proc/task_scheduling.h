/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_TASK_SCHEDULING_H
#define FLMEM_PROC_TASK_SCHEDULING_H

/*
 * The priority of a thread, and its control groups, compared with those of the others of its
 * process. A borrowed thread takes locks that the others wait for: where it gets a processor after
 * all of them, they wait for each other. A real-time thread keeps its processor for as long as the
 * calls take.
 */

#include <sys/types.h>

struct flmem_process;

/*
 * NULL if calls may be made on this thread, else why not (static): it has a lower priority than
 * another thread and than a usual one, it is a real-time thread in a process whose first thread is
 * none, one whose processor time is limited, it is in another control group than one of the first
 * threads, or its policy cannot be read.
 */
const char *flmem_task_scheduling_refuses(const struct flmem_process *process, pid_t tid);

#endif
