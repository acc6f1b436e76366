/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_PROGRESS_METER_H
#define FLMEM_OPS_AGGREGATE_PROGRESS_METER_H

/* Reports the progress of a call that runs in one thread, a few times a second. */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/aggregate.h>

typedef bool flmem_progress_function(void *context,
				     const struct flmem_aggregate_progress *progress);

struct flmem_progress_meter {
	flmem_progress_function *progress; /* may be NULL */
	void *context;
	/* For the message of a stopped call: "stopped before '<path>' was <end>". */
	const char *path, *end;
	uint64_t started_us, reported_us;
	uint64_t done_bytes, total_bytes;
};

/* Starts the clock of the call. */
void flmem_progress_meter_start(struct flmem_progress_meter *meter);

/* Counts bytes and reports progress when due. FLMEM_EFAILED if the caller wants to stop. */
int flmem_progress_meter_add(struct flmem_progress_meter *meter, uint64_t bytes,
			     struct flmem_error *err);

/*
 * For struct flmem_http_access: returns true if the caller wants to stop while flmem waits for a
 * server.
 */
bool flmem_progress_meter_has_ended(void *meter);

#endif
