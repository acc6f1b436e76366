/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHECKS_WAITS_H
#define FLMEM_REMOTE_CHECKS_WAITS_H

/*
 * The system calls in which a blocked thread may be borrowed: no allocator, dynamic linker or fork
 * makes them while it holds a lock, and each can be interrupted and resumed without effect on the
 * program. They are in a table; every other call is refused.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct flmem_process;
struct flmem_task_wait;

/* How exactly the wait continues after the thread was borrowed. Lower is better. */
enum flmem_wait_quality {
	FLMEM_WAIT_ENDLESS,  /* no timeout: continues as if nothing had happened */
	FLMEM_WAIT_DEADLINE, /* absolute timeout, or one that the kernel updates */
	FLMEM_WAIT_UNSURE,   /* no timeout, unless the socket has one, which cannot be read */
	FLMEM_WAIT_RELATIVE, /* relative timeout: it restarts and ends up to late_us later */
};

struct flmem_wait {
	const char *name; /* static: "futex", "epoll_wait" */
	enum flmem_wait_quality quality;
	uint64_t late_us; /* for FLMEM_WAIT_RELATIVE: how much later it may end */
	/*
	 * A raw result of EINTR at the stop means a timeout of unknown length that restarts:
	 * SO_RCVTIMEO (a socket without it restarts), or one that the kernel could not update.
	 */
	bool eintr_means_timeout;
	/* A stop alone restarts the relative timeout: the kernel keeps no remainder of it. */
	bool stop_restarts;
};

/*
 * True if a thread in this wait may be borrowed; else *ret_reason is the reason (static). Reads a
 * few words of the target to which the arguments of the call point, and the descriptors of the
 * thread, which may have its own table.
 */
bool flmem_wait_classify(const struct flmem_process *process, pid_t tid,
			 const struct flmem_task_wait *at, struct flmem_wait *ret_wait,
			 const char **ret_reason);

/*
 * True for system calls that may be repeated if an interrupt ended them with plain EINTR: those
 * above, and those for which EINTR means that nothing was done. Any other call keeps its result.
 */
bool flmem_wait_is_repeatable(const struct flmem_task_wait *at);

#endif
