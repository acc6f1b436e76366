/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_SYSCALLS_H
#define FLMEM_RUNTIMES_CPYTHON_SYSCALLS_H

/*
 * The system calls of each entry point into an interpreter, for targets under seccomp.
 *
 * All Python code, including flmem's, may trigger the collector, and with it finalisers of the
 * program, which can make any system call. So a filter that could kill or stop the thread for any
 * call is refused; a filter that only makes calls fail is accepted, except for the listed calls,
 * which flmem's code needs.
 *
 * All of it runs under the filters of one thread: the borrowed one, or one that this thread starts
 * and that inherits them. Finalisers run on the thread that drops the last reference, so with the
 * same filters on all threads nothing changes for them; where threads differ, and this one has
 * filters, remote/seccomp/seccomp.c refuses.
 */

#include "remote/seccomp/syscalls.h"

/* Calls of a borrowed thread that starts a new one, which then runs the code. */
extern const struct flmem_syscall_list flmem_cpython_syscalls_new_thread;

/* Calls of the main thread, which opens a script and starts a thread between two instructions. */
extern const struct flmem_syscall_list flmem_cpython_syscalls_debugger;

#endif
