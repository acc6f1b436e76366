/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TRIM_TRIM_PARTS_H
#define FLMEM_OPS_TRIM_TRIM_PARTS_H

/* The parts of a trim; ops/trim/trim.c runs those that are asked for and measures each. */

#include <flmem/trim.h>

#include "ops/target/inspection.h"
#include "remote/candidates.h"

/* One trim from start to end. */
struct flmem_trim_job {
	const struct flmem_trim_options *options;
	struct flmem_trim_result *result;
	struct flmem_inspection *target;
	struct flmem_guard guard; /* of the target's allocators */
	uint64_t timeout_us;
	uint64_t inside_us; /* spent in calls so far, of what result->stopped_us counts */
};

/* A new step, with everything unknown; the last one again when there are too many. */
struct flmem_trim_step *flmem_trim_job_step(struct flmem_trim_job *job, const char *name);

/* Adds to what threads were stopped for, and to what they spent inside of calls. */
void flmem_trim_job_stopped(struct flmem_trim_job *job, uint64_t stopped_us, uint64_t inside_us);

/* The thread that is borrowed now, and what it was blocked in (or NULL); none changes nothing. */
void flmem_trim_job_thread(struct flmem_trim_job *job, pid_t tid, const char *waited_in);

/* Appends a sentence to the result's note. */
void flmem_trim_job_note(struct flmem_trim_job *job, const char *text);

/* The borrowed thread's wait starts again and may end later: says so in the note. */
void flmem_trim_job_note_late(struct flmem_trim_job *job, uint64_t late_us);

/*
 * FLMEM_EUNSAFE where the calls of an allocator would meet damage to its heap, whoever makes them.
 */
int flmem_trim_check(const struct flmem_trim_job *job, struct flmem_error *err);

/*
 * Each part appends its steps. 0 also when it was skipped; on failure the step (if there is one)
 * tells what the error tells.
 */
int flmem_trim_allocator(struct flmem_trim_job *job, struct flmem_error *err);
int flmem_trim_python(struct flmem_trim_job *job, struct flmem_error *err);
int flmem_trim_collect(struct flmem_trim_job *job, struct flmem_error *err);

/*
 * glibc's malloc_trim called by Python code, for a process that has no thread to borrow now; only
 * where the program has loaded ctypes itself. FLMEM_EUNSAFE otherwise.
 */
int flmem_trim_inside(struct flmem_trim_job *job, struct flmem_error *err);
int flmem_trim_cuda(struct flmem_trim_job *job, struct flmem_error *err);

#endif
