/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERIES_DOWNSAMPLE_H
#define FLMEM_SERIES_DOWNSAMPLE_H

/*
 * Stores old samples of a recording in fewer bytes: for each time span it keeps the lowest and the
 * highest sample of each process, with their times, and the very first sample; the older the
 * samples, the wider the spans. Sessions, processes, rounds and ends all stay. The result is a
 * recording like any other, and may be thinned again.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "series/recording.h"

struct flmem_recording_extent {
	uint64_t span_us; /* time from the first sample to the last */
	size_t processes; /* number of processes in the session with the most */
};

/* Both functions read to the end, or until `cancelled` (may be NULL) is true. */
void flmem_recording_measure(struct flmem_recording *recording, const atomic_bool *cancelled,
			     struct flmem_recording_extent *ret_extent);

/*
 * `end_us` is the measured length; samples younger than `keep_us` at that time are not changed.
 * Spans are 4 samples long from that age on, 16 from four times that age on, and so forth. False
 * when out of memory or cancelled; `to` holds any write errors.
 */
bool flmem_recording_downsample(struct flmem_recording *from, uint64_t end_us, uint64_t keep_us,
				const atomic_bool *cancelled, struct flmem_recorder *to);

#endif
