/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/watch/next_step.h"

#include <flmem/detect.h>

#include "base/cleanup.h"

/*
 * Advises a profile only for a process that still runs: the cause of rising memory is in its code.
 */
void flmem_next_step_find(struct flmem_watch_result *result)
{
	const struct flmem_detect_options options = {.skip_heap = true};
	struct flmem_process_report report = {0};

	result->next = FLMEM_WATCH_NEXT_NONE;
	if (result->trend.verdict != FLMEM_TREND_CLIMBING || result->ended)
		return;
	result->next = FLMEM_WATCH_NEXT_ATTACH;
	if (flmem_detect_process(result->process.pid, &options, &report, NULL))
		return;
	if (report.sampled_into)
		result->next = FLMEM_WATCH_NEXT_LEAKS;
	else if (!report.python.version && !report.python.unknown)
		result->next = FLMEM_WATCH_NEXT_RUN;
	result->sampled_into = FLMEM_TAKE(report.sampled_into);
	flmem_process_report_clear(&report);
}
