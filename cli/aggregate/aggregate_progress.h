/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_AGGREGATE_PROGRESS_H
#define FLMEM_CLI_AGGREGATE_PROGRESS_H

/* Shows the progress bar of an aggregation, and ends it by a signal. */

#include <stdbool.h>

#include <flmem/aggregate.h>

struct aggregate_progress {
	int end_fd; /* descriptor that is readable after SIGINT and SIGTERM; -1: none */
	bool drawn; /* a bar is to be drawn: standard error is a terminal */
	bool shown; /* a bar is on the screen */
};

/*
 * Draws the bar; this is the progress callback of struct flmem_aggregate_request. The bar appears
 * after a second.
 */
bool aggregate_progress_tick(void *context, const struct flmem_aggregate_progress *progress);

/* Removes the bar, until the next tick. */
void aggregate_progress_hide(struct aggregate_progress *progress);

/* Removes the bar and closes the descriptor. */
void aggregate_progress_end(struct aggregate_progress *progress);

#endif
