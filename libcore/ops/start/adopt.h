/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_START_ADOPT_H
#define FLMEM_OPS_START_ADOPT_H

/* Checks whether a process that a file names may be treated as a command that this user started. */

#include "proc/process.h"

/*
 * NULL when the process has only ids of this user, is in this pid namespace, is neither the first
 * process there nor an ancestor of this one, and has the command line `argv`; else the static
 * reason against it, as a clause after "process N, ".
 */
const char *flmem_adoptable(const struct flmem_process *process, char *const *argv);

#endif
