/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_START_ADOPT_H
#define FLMEM_OPS_START_ADOPT_H

/* Whether a process that a file names may be taken for a command that this user started. */

#include "proc/process.h"

/*
 * NULL when the process is this user's with all its ids, lives in this pid namespace, is neither
 * the first process of that nor one that this one descends from, and has the command line `argv`;
 * else what speaks against it, static, to be read behind "process N, ".
 */
const char *flmem_adoptable(const struct flmem_process *process, char *const *argv);

#endif
