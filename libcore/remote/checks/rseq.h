/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHECKS_RSEQ_H
#define FLMEM_REMOTE_CHECKS_RSEQ_H

/*
 * Detects restartable sequences: a few instructions that the kernel restarts if the thread was
 * interrupted in them. The kernel checks the address at which the thread continues, so a thread
 * that makes calls in between and then returns into the middle would not be restarted
 * (include/uapi/linux/rseq.h).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct flmem_process;

/* True if the thread, which the calling thread holds stopped at `pc`, is inside such a sequence. */
bool flmem_rseq_is_inside(const struct flmem_process *process, pid_t tid, uint64_t pc);

#endif
