/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/ticker.h"

#include "base/clock.h"

#define TICK_US UINT64_C(200000)

void flmem_ticker_start(struct flmem_ticker *ticker)
{
	ticker->started_us = ticker->told_us = flmem_clock_us();
}

bool flmem_ticker_has_ended(void *context)
{
	const struct flmem_ticker *ticker = context;
	const struct flmem_aggregate_progress progress = {
		/* Tensors that share bytes are read twice. */
		.done_bytes = ticker->done_bytes < ticker->total_bytes ? ticker->done_bytes
								       : ticker->total_bytes,
		.total_bytes = ticker->total_bytes,
		.elapsed_us = flmem_clock_us() - ticker->started_us,
	};

	return ticker->progress && !ticker->progress(ticker->context, &progress);
}

int flmem_ticker_add(struct flmem_ticker *ticker, uint64_t bytes, struct flmem_error *err)
{
	uint64_t now = flmem_clock_us();

	ticker->done_bytes += bytes;
	if (now - ticker->told_us < TICK_US)
		return 0;
	ticker->told_us = now;
	if (!flmem_ticker_has_ended(ticker))
		return 0;
	return flmem_error_set(err, FLMEM_EFAILED, 0, "stopped before '%s' was %s", ticker->path,
			       ticker->end);
}
