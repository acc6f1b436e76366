/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_COMMAND_H
#define FLMEM_PROC_COMMAND_H

/* Programs to be run, before there is a process. */

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include <flmem/error.h>

/* True when the file name of a program is that of a shell. */
bool flmem_command_is_shell(const char *program);

/*
 * Starts the command, searched in PATH, as a child with this signal mask. Returns when it has
 * become the command, so a command that cannot be run is an error here: see flmem_command_error().
 */
int flmem_command_spawn(char *const *argv, char *const *environment, const sigset_t *mask,
			pid_t *ret_pid, struct flmem_error *err);

/*
 * Says why execvp(3) gave `error` for `program`: FLMEM_ENOCOMMAND when there is no such command,
 * FLMEM_ENOEXEC when there is one that cannot be run. Returns the code.
 */
int flmem_command_error(const char *program, int error, struct flmem_error *err);

#endif
