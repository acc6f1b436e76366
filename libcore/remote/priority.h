/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_PRIORITY_H
#define FLMEM_REMOTE_PRIORITY_H

/*
 * The scheduling of the calling thread while it holds a thread of another process: exact sleeps,
 * the processor that the held thread last ran on, and the highest priority there if the caller may
 * have it (CAP_SYS_NICE or RLIMIT_NICE), so that a busy machine does not prolong the hold. It is of
 * the usual class meanwhile where its own one could cost it the processor. A destructor restores
 * all that.
 *
 * The kernel wakes a thread on its last processor and first lets the running thread finish its
 * slice of 3 ms, each time. A caller that runs on this processor with the highest priority and
 * yields passes it to the held thread at once: with all processors busy 0.2 ms instead of 5 ms in
 * the median. A real-time class can pass a processor on only by sleeping, which was slower.
 *
 * Since Linux 6.6 (EEVDF) a yield has no effect while the other thread has used up its share, as
 * after a long call of the allocator (kernel/sched/fair.c, pick_eevdf()). Therefore a short sleep
 * follows each yield; on an idle machine, where the other thread has its own processor, each 40 us
 * of yields: an idle processor takes as long to wake up, above all a virtual one.
 */

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"

struct flmem_process;

struct flmem_priority {
	bool raised, changed_class;
	bool is_last;	  /* other threads run first (SCHED_IDLE), and that cannot be changed */
	int nice, policy; /* values to restore */
	struct sched_param parameters;
	unsigned long slack_ns; /* timer slack to restore; 0: unchanged */
};

/* Prepares for holding thread `tid` of the process. */
struct flmem_priority flmem_priority_raise(const struct flmem_process *process, pid_t tid);
void flmem_priority_restore(struct flmem_priority *priority);

#define FLMEM_AUTO_PRIORITY FLMEM_AUTO(flmem_priority_restore) __attribute__((unused))

/*
 * Pauses between two checks of something that the caller has awaited for `spent_us`: at first
 * yields, with brief sleeps between them, later sleeps for `sleep_us`.
 */
void flmem_priority_pause(uint64_t spent_us, uint64_t sleep_us);

#endif
