/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/aggregate_progress.h"

#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "print/print_format.h"

#define BAR_CELLS  24U
#define APPEARS_US 1000000U
#define CLEAR_LINE "\r\033[K"

static void draw_progress(struct aggregate_progress *bar,
			  const struct flmem_aggregate_progress *progress)
{
	char done[FORMAT_MAX], total[FORMAT_MAX], rate[FORMAT_MAX], left[FORMAT_MAX];
	double share, speed;
	unsigned cells;

	if (progress->elapsed_us < APPEARS_US || !progress->done_bytes)
		return;
	share = (double)progress->done_bytes / (double)progress->total_bytes;
	speed = (double)progress->done_bytes / ((double)progress->elapsed_us / 1e6);
	cells = (unsigned)(share * BAR_CELLS);
	fprintf(stderr, CLEAR_LINE "[%.*s%*s] %3.0f %%  %s of %s, %s/s, %s left", (int)cells,
		"########################", (int)(BAR_CELLS - cells), "", share * 100,
		format_bytes(progress->done_bytes, done),
		format_bytes(progress->total_bytes, total), format_bytes((uint64_t)speed, rate),
		format_span(
			(uint64_t)((double)(progress->total_bytes - progress->done_bytes) / speed),
			left));
	fflush(stderr);
	bar->shown = true;
}

bool aggregate_progress_tick(void *context, const struct flmem_aggregate_progress *progress)
{
	struct aggregate_progress *bar = context;
	struct signalfd_siginfo signal;

	if (bar->drawn)
		draw_progress(bar, progress);
	return bar->end_fd < 0 ||
	       read(bar->end_fd, &signal, sizeof(signal)) != (ssize_t)sizeof(signal);
}

void aggregate_progress_hide(struct aggregate_progress *progress)
{
	if (progress->shown)
		fputs(CLEAR_LINE, stderr);
	progress->shown = false;
}

void aggregate_progress_end(struct aggregate_progress *progress)
{
	aggregate_progress_hide(progress);
	if (progress->end_fd >= 0)
		close(progress->end_fd);
}
