/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_COMMAND_H
#define FLMEM_PROC_COMMAND_H

/* Programs to be run, before there is a process. */

#include <flmem/error.h>

/*
 * Says why execvp(3) gave `error` for `program`: FLMEM_ENOCOMMAND when there is no such command,
 * FLMEM_ENOEXEC when there is one that cannot be run. Returns the code.
 */
int flmem_command_error(const char *program, int error, struct flmem_error *err);

#endif
