/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TRIM_TRIM_PARTS_H
#define FLMEM_OPS_TRIM_TRIM_PARTS_H

/* The parts of a trim; ops/trim/trim.c runs the requested ones and measures each. */

#include <flmem/trim.h>

#include "ops/target/inspection.h"
#include "remote/checks/candidates.h"

/* RSS around the calls of one part, as close to them as it can be read. */
struct flmem_trim_rss {
	struct flmem_u64 before, lowest;
	uint64_t next_us; /* earliest time of the next reading */
	bool seen;	  /* the part has observed its calls */
};

/* The state of one trim, shared by its parts. */
struct flmem_trim_job {
	const struct flmem_trim_options *options;
	struct flmem_trim_result *result;
	struct flmem_target_inspection *target;
	struct flmem_guard guard; /* guard for the target's allocators */
	uint64_t timeout_us;
	uint64_t checked_us; /* time of the last call of flmem_trim_check() */
	uint64_t inside_us;  /* time inside calls so far; part of result->stopped_us */
	bool unfinished;     /* a borrowed thread still makes its calls: no other part may follow */
	struct flmem_trim_rss rss; /* RSS around the calls of the current part */
};

/* Reads RSS while calls are made: a flmem_borrow_observe function, whose `context` is the job. */
void flmem_trim_job_observe(void *context, bool running);

/* Reads RSS after the calls have returned. */
void flmem_trim_job_observe_end(struct flmem_trim_job *job);

/*
 * Appends a step in which every value is unknown; returns the last one again if the list is full.
 */
struct flmem_trim_step *flmem_trim_job_step(struct flmem_trim_job *job, const char *name);

/* Adds to the time for which threads were stopped, and to the time that they spent inside calls. */
void flmem_trim_job_stopped(struct flmem_trim_job *job, uint64_t stopped_us, uint64_t inside_us);

/*
 * Records the borrowed thread and the system call that blocked it (or NULL); tid 0 changes nothing.
 */
void flmem_trim_job_thread(struct flmem_trim_job *job, pid_t tid, const char *waited_in);

/* Appends a sentence to the result's note. */
void flmem_trim_job_note(struct flmem_trim_job *job, const char *text);

/*
 * Notes that the borrowed thread's interrupted wait starts again and may end up to `late_us` late;
 * 0: no note.
 */
void flmem_trim_job_note_late(struct flmem_trim_job *job, uint64_t late_us);

/*
 * FLMEM_EUNSAFE if the heap is damaged, so that a call of the allocator would abort the process, on
 * whichever thread it runs.
 */
int flmem_trim_check(struct flmem_trim_job *job, struct flmem_error *err);

/* Checks the target as it is now: a flmem_borrow_recheck function, whose `context` is the job. */
int flmem_trim_check_again(void *context, struct flmem_error *err);

/*
 * Each part appends its steps. Returns 0 also when the part was skipped; on failure its step (if
 * there is one) holds the error's message.
 */
int flmem_trim_allocator(struct flmem_trim_job *job, struct flmem_error *err);
int flmem_trim_python(struct flmem_trim_job *job, struct flmem_error *err);
int flmem_trim_collect(struct flmem_trim_job *job, struct flmem_error *err);

/*
 * Calls glibc's malloc_trim from Python code, for a process without a thread to borrow; only if the
 * program has loaded ctypes itself. FLMEM_EUNSAFE otherwise.
 */
int flmem_trim_inside(struct flmem_trim_job *job, struct flmem_error *err);
int flmem_trim_cuda(struct flmem_trim_job *job, struct flmem_error *err);

#endif
