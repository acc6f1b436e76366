/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_TICKER_H
#define FLMEM_OPS_AGGREGATE_TICKER_H

/* The progress of a call that one thread makes, reported a few times a second. */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/aggregate.h>

typedef bool flmem_progress_function(void *context,
				     const struct flmem_aggregate_progress *progress);

struct flmem_ticker {
	flmem_progress_function *progress; /* may be NULL */
	void *context;
	/* Of the message that it was stopped: "stopped before '<path>' was <end>". */
	const char *path, *end;
	uint64_t started_us, told_us;
	uint64_t done_bytes, total_bytes;
};

/* Starts the clock. */
void flmem_ticker_start(struct flmem_ticker *ticker);

/* Counts bytes. FLMEM_EFAILED if the caller wants to stop. */
int flmem_ticker_add(struct flmem_ticker *ticker, uint64_t bytes, struct flmem_error *err);

/* For struct flmem_http_access: whether the caller wants to stop while a server is waited for. */
bool flmem_ticker_has_ended(void *ticker);

#endif
