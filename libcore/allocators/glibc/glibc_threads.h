/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_THREADS_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_THREADS_H

/*
 * A program may make threads with clone() itself, or processes in the same memory. glibc does not
 * know them: until it has made a thread, its malloc takes no locks, and a call from outside would
 * change a heap that another thread is changing.
 */

#include <stdbool.h>

#include "elf/view.h"

/*
 * True if the process has several threads, or another one runs in its memory, and glibc takes it
 * for single-threaded. False also where that cannot be read: before glibc 2.32, and in a static
 * program without symbols.
 */
bool flmem_glibc_takes_no_locks(const struct flmem_view *view);

#endif
