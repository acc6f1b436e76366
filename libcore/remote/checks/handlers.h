/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHECKS_HANDLERS_H
#define FLMEM_REMOTE_CHECKS_HANDLERS_H

/*
 * Finds threads inside signal handlers, or held by a debugger. A handler may have interrupted any
 * code, including the allocator, and may block: garbage collectors that stop their threads by
 * signals (Boehm's, Mono's, D's) block them in a handler until the collecting thread resumes them.
 * A call that waits for a lock of such a thread returns only after that, and never if the borrowed
 * thread is the collecting one. A debugger may hold a thread anywhere for as long as it likes.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "elf/view.h"
#include "remote/arch.h"

/* Limit of copies of the restorer: more than any process has. */
#define FLMEM_RESTORERS_MAX 8U

struct flmem_handler_search {
	const struct flmem_process *process;
	const struct flmem_maps *maps;
	uint64_t restorer; /* restorer of the C library, as in struct flmem_gadgets */
	/* A frame counts if one of these signals is blocked now and unblocked when it returns. */
	uint64_t blocked;
	/*
	 * The search fills this: code that was read already, so that a hostile stack costs few
	 * reads.
	 */
	struct flmem_known_code {
		uint64_t address;
		bool is_restorer;
	} known[FLMEM_RESTORERS_MAX];
	size_t known_count;
};

/*
 * True if a signal frame lies between `sp` and `end` on a stack of the process, as far as that can
 * be read without a gap; also true if nothing can be read, and for more different frames than
 * FLMEM_RESTORERS_MAX.
 */
bool flmem_handlers_on_stack(struct flmem_handler_search *search, uint64_t sp, uint64_t end);

/*
 * Returns the first thread that waits in a signal handler or is about to enter one, that is
 * stopped, or that waits for a lock in calls of flmem (flmem_handlers_is_in_chain()); 0 if there is
 * none, FLMEM_HANDLERS_LATE if the search was not complete at `deadline_us` of flmem_clock_us(),
 * FLMEM_HANDLERS_UNREAD if the threads could not be listed, or not all of them (FLMEM_TASKS_MAX). A
 * computing thread that blocks a signal which the program handles is read again for two
 * milliseconds, and until it has used one of processor time: on a busy machine its handler may not
 * have had a processor. Not detected: a handler that computes for longer, and one that waits with
 * nothing blocked (SA_NODEFER) other than in sigsuspend(). `own` is the thread that the caller has
 * stopped itself, or 0.
 */
#define FLMEM_HANDLERS_LATE   ((pid_t)-1)
#define FLMEM_HANDLERS_UNREAD ((pid_t)-2)
pid_t flmem_handlers_find(const struct flmem_view *view, const struct flmem_gadgets *gadgets,
			  pid_t own, uint64_t deadline_us);

bool flmem_handlers_is_stopped(const struct flmem_process *process, pid_t tid);

/*
 * True if the thread runs calls of this or another flmem and waits in them, without a time limit,
 * for a lock. Each further borrowed thread could be blocked as well.
 */
bool flmem_handlers_is_in_chain(const struct flmem_process *process, pid_t tid);

#endif
