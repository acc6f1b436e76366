/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_TASK_CONTEXT_H
#define FLMEM_PROC_TASK_CONTEXT_H

/*
 * What a thread passes on to a thread that it starts, and that code may find there: its table of
 * descriptors, working directory, identity, namespaces and scheduling. Nearly always the process
 * has one of each.
 */

#include <stdbool.h>
#include <sys/types.h>

struct flmem_process;

/*
 * NULL when the thread has all of it as the first thread of the process has, else what differs or
 * cannot be told (static).
 */
const char *flmem_task_context_differs(const struct flmem_process *process, pid_t tid);

#endif
