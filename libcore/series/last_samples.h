/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERIES_LAST_SAMPLES_H
#define FLMEM_SERIES_LAST_SAMPLES_H

/*
 * The last sample of each process in a block of a recording, in KiB; a block stores differences
 * from it. Writer and reader keep the same values. A zeroed struct is empty.
 */

#include <stddef.h>
#include <stdint.h>

struct flmem_last_samples {
	uint64_t *kib; /* by number of the process; 0: no sample yet */
	size_t count;
};

/* Returns the entry of a process, whose number the caller has checked; NULL when out of memory. */
uint64_t *flmem_last_samples_at(struct flmem_last_samples *samples, uint64_t process);

/* Resets all samples for the next block. */
void flmem_last_samples_reset(struct flmem_last_samples *samples);

void flmem_last_samples_clear(struct flmem_last_samples *samples);

#endif
