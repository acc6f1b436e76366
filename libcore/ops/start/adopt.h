/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_START_ADOPT_H
#define FLMEM_OPS_START_ADOPT_H

/* Checks whether a process that a file names may be treated as a command that this user started. */

#include "proc/process.h"

/*
 * Returns NULL if the process has only IDs of this user, is in this PID namespace, is neither the
 * first process there nor an ancestor of this one, and has the command line `argv`; else the reason
 * against it: a static clause that follows "process N, ".
 */
const char *flmem_adoptable(const struct flmem_process *process, char *const *argv);

#endif
