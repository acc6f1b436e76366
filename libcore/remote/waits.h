/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_WAITS_H
#define FLMEM_REMOTE_WAITS_H

/*
 * The system calls in which a blocked thread may be borrowed: no allocator, dynamic linker or fork
 * makes them while it holds a lock, and each can be interrupted and resumed without the program
 * noticing. A table; everything that is not in it is refused.
 */

#include <stdbool.h>
#include <stdint.h>

struct flmem_process;
struct flmem_task_wait;

/* How exactly the wait goes on after the thread was borrowed. Lower is better. */
enum flmem_wait_quality {
	FLMEM_WAIT_ENDLESS,  /* no timeout: goes on as if nothing had happened */
	FLMEM_WAIT_DEADLINE, /* absolute timeout, or one that the kernel keeps up to date */
	FLMEM_WAIT_UNSURE,   /* endless, unless the socket has a timeout, which cannot be read */
	FLMEM_WAIT_RELATIVE, /* relative timeout: it starts again, so it ends up to late_us late */
};

struct flmem_wait {
	const char *name; /* static: "futex", "epoll_wait" */
	enum flmem_wait_quality quality;
	uint64_t late_us; /* for FLMEM_WAIT_RELATIVE */
	/*
	 * Stopped with a raw result of EINTR, it has a timeout of unknown length that starts again:
	 * SO_RCVTIMEO (a socket without it restarts), or one that the kernel could not update.
	 */
	bool eintr_refutes;
};

/*
 * True when a thread in this wait may be borrowed; else *ret_reason says why not (static). Reads
 * a few words of the target where the call's arguments point to them.
 */
bool flmem_wait_classify(const struct flmem_process *process, const struct flmem_task_wait *at,
			 struct flmem_wait *ret_wait, const char **ret_reason);

/*
 * True for system calls that may be made again when an interrupt ended them with plain EINTR: those
 * above, and those in which that means that nothing was done. Anything else keeps its result.
 */
bool flmem_wait_is_repeatable(const struct flmem_task_wait *at);

#endif
