/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHECKS_CANDIDATES_H
#define FLMEM_REMOTE_CHECKS_CANDIDATES_H

/*
 * Finds the threads of a process that may be borrowed now, best first, without stopping any. A
 * thread qualifies if it is blocked in a wait of remote/checks/waits.h, outside the
 * allocator and signal handlers, with enough room on its stack.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "elf/view.h"
#include "proc/task.h"
#include "remote/arch.h"
#include "remote/checks/waits.h"

/* Addresses that exclude a thread from being borrowed. */
struct flmem_range {
	uint64_t start, end;
};

#define FLMEM_GUARD_RANGES 32
#define FLMEM_GUARD_WORDS  4096 /* glibc has 8 arenas for each processor */

struct flmem_guard {
	/* Code of allocators: must not be at the top of the thread's stack. */
	struct flmem_range code[FLMEM_GUARD_RANGES];
	size_t code_count;
	/* Locks: the thread must not wait for a futex in them. */
	struct flmem_range locks[FLMEM_GUARD_RANGES];
	size_t lock_count;
	/* Addresses of locks that the calls take: an int, 0 when free. */
	uint64_t words[FLMEM_GUARD_WORDS];
	size_t word_count;
	/* There are more words or ranges than the tables can store. */
	bool has_more_words, has_more_ranges;
	const char *unread; /* static: why the locks of an allocator are unknown, or NULL */
	bool is_for_report; /* set by the caller: swapped pages are not read in, and not a reason */
	/* fork(): a thread inside it may hold locks of the allocator; empty: fork() takes none. */
	struct flmem_range fork;
	bool may_join_threads; /* an allocator that joins threads, whose code is not in `code` */
};

/* Add a range of code, or of locks; if the table is full, they only record that there are more. */
void flmem_guard_add_code(struct flmem_guard *guard, uint64_t start, uint64_t end);
void flmem_guard_add_locks(struct flmem_guard *guard, uint64_t start, uint64_t end);

/* Adds a lock word; if the table is full, it only records that there are more. */
void flmem_guard_add_word(struct flmem_guard *guard, uint64_t address);

struct flmem_candidate {
	pid_t tid;
	bool computes; /* the thread is not blocked: its place is known only when it is stopped */
	bool leader;   /* the main thread: borrowed last among equals, because it handles signals */
	struct flmem_task_wait at;
	struct flmem_wait wait;
	uint64_t link; /* flmem_arch_link() once the thread is stopped, else 0 */
	uint64_t cpu_ns;
	uint64_t sleeps; /* number of times it went to sleep, including this wait */
	uint64_t losses; /* number of times it lost its processor */
};

/*
 * The caller's condition for a thread, in addition to the general ones: false with a static reason
 * if it must not be borrowed. Called before the thread is stopped, with `pointer` 0, and again when
 * it is stopped, with its thread pointer.
 */
struct flmem_candidate_filter {
	bool (*accepts)(void *context, const struct flmem_candidate *candidate, uint64_t pointer,
			const char **ret_reason);
	void *context;
};

struct flmem_candidate_needs {
	const struct flmem_guard *guard;
	const struct flmem_gadgets *gadgets;
	const struct flmem_candidate_filter *filter; /* may be NULL: no further condition */
	size_t area_bytes;    /* size of the chain's area, which must be mapped already */
	size_t stack_bytes;   /* stack that the calls need; 0: what an allocator needs */
	pid_t only;	      /* examine only this thread; 0: all */
	uint64_t deadline_us; /* end of the search, by flmem_clock_us() */
};

/* Most threads in a result: as many as a caller can sensibly try, the most suitable ones. */
#define FLMEM_CANDIDATES_MAX 16U

struct flmem_candidates {
	struct flmem_candidate *rows; /* best first */
	size_t count;
	size_t threads;	      /* number of threads of the process */
	size_t running;	      /* number of threads on a processor, or runnable */
	const char *rejected; /* static: the last reason to reject a blocked thread, or NULL */
	pid_t rejected_tid;
	pid_t handling; /* what flmem_handlers_find() returned */
};

/* Longest relative timeout: a thread with a longer one would wake up too late, and is excluded. */
#define FLMEM_LATE_US_MAX 10000000U

/*
 * Finds the threads. Returns 0 or -errno; -EACCES or -EPERM if this user may not trace the process.
 */
int flmem_candidates_find(const struct flmem_view *view, const struct flmem_candidate_needs *needs,
			  struct flmem_candidates *ret_candidates);

/* Returns FLMEM_EUNSAFE with the reason why no thread can be borrowed now. */
int flmem_candidates_refuse(const struct flmem_process *process,
			    const struct flmem_candidates *found, struct flmem_error *err);

void flmem_candidates_clear(struct flmem_candidates *candidates);

#define FLMEM_AUTO_CANDIDATES FLMEM_AUTO(flmem_candidates_clear)

#endif
