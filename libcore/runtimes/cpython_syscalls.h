/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_SYSCALLS_H
#define FLMEM_RUNTIMES_CPYTHON_SYSCALLS_H

/*
 * The system calls of each entry point into an interpreter, for targets under seccomp.
 *
 * Whatever Python code runs, also flmem's own, may let the collector run, and with it finalisers of
 * the program: any call at all. So a filter that could end or stop the thread for any call is
 * refused; one that only makes calls fail is the program's own business, except for the calls that
 * are listed, which flmem's part needs.
 *
 * All of it runs under the filters of one thread: the borrowed one, or one that this thread starts
 * and that inherits them. Finalisers run on whatever thread lets an object go, so they are none the
 * worse off where all threads have the same filters; where threads differ, and this one has some,
 * remote/seccomp.c refuses.
 */

#include "remote/syscalls.h"

/* On a borrowed thread that starts a new one, which then runs the code. */
extern const struct flmem_syscall_list flmem_cpython_syscalls_new_thread;

/* On the main thread, which runs the code between two instructions. */
extern const struct flmem_syscall_list flmem_cpython_syscalls_pending;

/* The same, from a script that the main thread opens. */
extern const struct flmem_syscall_list flmem_cpython_syscalls_debugger;

#endif
