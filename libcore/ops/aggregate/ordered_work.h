/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_ORDERED_WORK_H
#define FLMEM_OPS_AGGREGATE_ORDERED_WORK_H

/*
 * Work in pieces by several threads, whose results are joined in the order of the pieces: so the
 * result has the same bits for any number of threads. The calling thread is one of them and reports
 * the progress.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "ops/aggregate/progress_meter.h"

struct flmem_ordered_work {
	/* Fills in the next piece and its bytes, for the progress. Returns false after the last. */
	bool (*take)(void *context, void *piece, uint64_t *ret_bytes);
	/* Works on a piece, in any thread; `room` is the thread's own memory. */
	int (*work)(const void *context, void *room, void *piece, struct flmem_error *err);
	/*
	 * Adds a piece to the result. take() and join() are not called by two threads at once.
	 */
	int (*join)(void *context, const void *piece, struct flmem_error *err);
	void *context;
	size_t piece_size, room_bytes;
	unsigned threads;
	struct flmem_progress_meter *meter;
};

/* Works on all pieces. After a failure the error is that of the first piece that failed. */
int flmem_ordered_work(const struct flmem_ordered_work *work, struct flmem_error *err);

#endif
