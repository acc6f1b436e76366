/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_SILENT_CHILD_H
#define FLMEM_BASE_SILENT_CHILD_H

/*
 * A child process that the program does not notice: fork() without the program's fork handlers, and
 * without SIGCHLD at its end. A program that uses the library may not expect that signal, or may
 * handle it by reaping all children; waitpid(-1) without __WALL does not report this child.
 */

#include <sys/types.h>

/*
 * Like fork(): returns 0 in the child, in which locks of other threads stay locked; -1 with errno.
 */
pid_t flmem_silent_child_start(void);

/* Waits until the child has ended; a negative errno if that fails. */
int flmem_silent_child_wait(pid_t child, int *ret_status);

#endif
