/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERIES_THIN_JOB_H
#define FLMEM_SERIES_THIN_JOB_H

/*
 * Thinning a recording while it is written: a thread of its own writes the coarser one beside it,
 * so that no sample waits; then the writer adds what came meanwhile and puts the new file in the
 * old one's place. Whatever is killed or full at any moment, under the recording's name there is a
 * whole recording.
 */

#include <stddef.h>
#include <stdint.h>

#include "series/recording.h"

struct flmem_thin_job;

/*
 * Begins to thin the first `size` bytes of the file so that they take not much more than half of
 * `budget` bytes for each process. NULL when that cannot be begun.
 */
struct flmem_thin_job *flmem_thin_job_start(const char *path, uint64_t size, uint64_t budget);

enum flmem_thin_state {
	FLMEM_THIN_RUNS,
	FLMEM_THIN_DONE,     /* it may be put in place */
	FLMEM_THIN_NEEDLESS, /* the file is within the budget of its processes */
	FLMEM_THIN_FAILED,
};

enum flmem_thin_state flmem_thin_job_state(const struct flmem_thin_job *job);

/* Once it is done: what the recording's processes may take together. */
uint64_t flmem_thin_job_budget(const struct flmem_thin_job *job);

/*
 * Adds what stands in `fd` behind the thinned bytes, up to `size`, and puts the new file in place.
 * Gives its descriptor, locked as the old one is, and its size; negative errno, and all is as it
 * was.
 */
int flmem_thin_job_replace(struct flmem_thin_job *job, int fd, uint64_t size, uint64_t *ret_size);

/* Stops and undoes what was not put in place; waits for the thread, which does not take long. */
void flmem_thin_job_free(struct flmem_thin_job *job);

#endif
