/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_SHARED_SIGNALS_H
#define FLMEM_REMOTE_SHARED_SIGNALS_H

/* Waits for signals that are pending for a stopped thread, or for its process as a whole. */

#include <sys/types.h>

/*
 * Waits, at most FLMEM_SHARED_SIGNALS_US, while a signal for the process is pending that the
 * stopped thread `tid` would take when it continues, although the kernel has chosen the main thread
 * for it (complete_signal() in kernel/signal.c) and the main thread only lacks a processor. If
 * another thread takes the signal, its handler runs there, and the wait of the main thread does not
 * end with EINTR. The calling thread must be the tracer of `tid`.
 */
#define FLMEM_SHARED_SIGNALS_US 50000U
void flmem_shared_signals_await(pid_t tid, pid_t leader);

#endif
