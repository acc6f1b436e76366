/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHECKS_LIBC_THREADS_H
#define FLMEM_REMOTE_CHECKS_LIBC_THREADS_H

/*
 * Detects threads that the C library does not know. A program may create threads with clone()
 * itself, or processes in the same memory. Until glibc has created a thread itself, its malloc
 * takes no locks. Other allocators keep data for each thread, which such a thread may share with
 * its creator. A call from outside would change a heap while another thread changes it.
 */

#include <stdbool.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "elf/view.h"

/*
 * FLMEM_EUNSAFE if the process has several threads, or another one runs in its memory, and glibc
 * takes it for single-threaded. Also returns 0 if that cannot be read: before glibc 2.32, and in a
 * static program without symbols.
 */
int flmem_libc_threads_check(const struct flmem_view *view, struct flmem_error *err);

/* True if a child of that thread runs in the same memory, and so with its thread-local data. */
bool flmem_libc_threads_shares_data(const struct flmem_process *process, pid_t tid);

#endif
