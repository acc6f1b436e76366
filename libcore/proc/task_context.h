/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_TASK_CONTEXT_H
#define FLMEM_PROC_TASK_CONTEXT_H

/*
 * Properties of a thread that a thread started by it inherits, and that code may depend on: table
 * of descriptors, working directory, identity, namespaces and scheduling. Nearly always all threads
 * of a process share them.
 */

#include <stdbool.h>
#include <sys/types.h>

struct flmem_process;

/*
 * Returns NULL if the thread's context equals that of the first thread of the process, else what
 * differs or is unknown (static).
 */
const char *flmem_task_context_differs(const struct flmem_process *process, pid_t tid);

#endif
