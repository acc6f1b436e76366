/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_COMMAND_H
#define FLMEM_PROC_COMMAND_H

/* Starts programs and explains why one cannot be run. */

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include <flmem/error.h>

/* Returns true if the file name of a program is that of a shell. */
bool flmem_command_is_shell(const char *program);

/*
 * Starts the command, searched in PATH, as a child with this signal mask. Returns after the child's
 * execve, so a command that cannot be run is an error here, as by flmem_command_error().
 */
int flmem_command_spawn(char *const *argv, char *const *environment, const sigset_t *mask,
			pid_t *ret_pid, struct flmem_error *err);

/*
 * Finds the file that execvp(3) would execute, without executing it. Errors as by
 * flmem_command_error(). What only execve(2) finds out, for example a missing interpreter, is not
 * noticed. Release the path with free().
 */
int flmem_command_find(const char *program, char **ret_path, struct flmem_error *err);

/*
 * Explains the errno `error` of execvp(3) for `program`: FLMEM_ENOCOMMAND if there is no such
 * command, FLMEM_ENOEXEC if it exists but cannot be run. Returns the code.
 */
int flmem_command_error(const char *program, int error, struct flmem_error *err);

#endif
