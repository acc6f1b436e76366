/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERIES_DOWNSAMPLE_JOB_H
#define FLMEM_SERIES_DOWNSAMPLE_JOB_H

/*
 * Thins a recording while it is written: a separate thread writes the coarser file next to it, so
 * that no sample is delayed; then the writer appends the records written meanwhile and replaces the
 * old file with the new one. After a kill or a full disk at any moment the recording's name still
 * refers to a whole recording.
 */

#include <stddef.h>
#include <stdint.h>

#include "series/recording.h"

struct flmem_downsample_job;

/*
 * Starts to thin the first `size` bytes of the file to a little more than half of `budget` bytes
 * for each process. NULL when it cannot start.
 */
struct flmem_downsample_job *flmem_downsample_job_start(const char *path, uint64_t size,
							uint64_t budget);

enum flmem_downsample_state {
	FLMEM_DOWNSAMPLE_RUNS,
	FLMEM_DOWNSAMPLE_DONE,	   /* the thinned file is complete and can replace the old one */
	FLMEM_DOWNSAMPLE_NEEDLESS, /* the file is within the budget of its processes */
	FLMEM_DOWNSAMPLE_FAILED,
};

enum flmem_downsample_state flmem_downsample_job_state(const struct flmem_downsample_job *job);

/* Returns the budget of all processes of the recording together, once the job is done. */
uint64_t flmem_downsample_job_budget(const struct flmem_downsample_job *job);

/*
 * Appends the bytes of `fd` after the thinned ones, up to `size`, and replaces the old file.
 * Returns the descriptor of the new file, locked like the old one, and its size; negative errno,
 * and then nothing is changed.
 */
int flmem_downsample_job_replace(struct flmem_downsample_job *job, int fd, uint64_t size,
				 uint64_t *ret_size);

/* Stops the thread, waits briefly for it and removes a thinned file that was not put in place. */
void flmem_downsample_job_free(struct flmem_downsample_job *job);

#endif
