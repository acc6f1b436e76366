/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/progress_meter.h"

#include "base/clock.h"

#define REPORT_US UINT64_C(200000)

void flmem_progress_meter_start(struct flmem_progress_meter *meter)
{
	meter->started_us = meter->reported_us = flmem_clock_us();
}

bool flmem_progress_meter_has_ended(void *context)
{
	const struct flmem_progress_meter *meter = context;
	const struct flmem_aggregate_progress progress = {
		/* Tensors that share bytes are read twice, so the sum can exceed the total. */
		.done_bytes = meter->done_bytes < meter->total_bytes ? meter->done_bytes
								     : meter->total_bytes,
		.total_bytes = meter->total_bytes,
		.elapsed_us = flmem_clock_us() - meter->started_us,
	};

	return meter->progress && !meter->progress(meter->context, &progress);
}

int flmem_progress_meter_add(struct flmem_progress_meter *meter, uint64_t bytes,
			     struct flmem_error *err)
{
	uint64_t now = flmem_clock_us();

	meter->done_bytes += bytes;
	if (now - meter->reported_us < REPORT_US)
		return 0;
	meter->reported_us = now;
	if (!flmem_progress_meter_has_ended(meter))
		return 0;
	return flmem_error_set(err, FLMEM_EFAILED, 0, "stopped before '%s' was %s", meter->path,
			       meter->end);
}
