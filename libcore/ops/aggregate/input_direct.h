/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_INPUT_DIRECT_H
#define FLMEM_OPS_AGGREGATE_INPUT_DIRECT_H

/*
 * Reads past the page cache (O_DIRECT), for bytes that it does not have. Pages that are read ahead
 * and dropped again are soon scattered over the memory, so that the device gets requests of a few
 * pages each: less than half of the rate that it has with the large pages here (docs/benchmarks.md,
 * "Averaging").
 */

#include "ops/aggregate/input.h"

/* What a thread has read of an input, more than it needs at once. */
struct flmem_direct_window {
	/* Set by the caller. */
	const struct flmem_input *input;
	uint64_t limit; /* of what is read along, in the output's data */

	char *memory;
	size_t room;
	const struct flmem_input_file *file; /* NULL: nothing yet */
	uint64_t begin, end;		     /* in the file */
};

/* The windows of a thread, one for each input. */
struct flmem_direct_windows {
	struct flmem_direct_window *windows; /* NULL: none */
	char *memory;
	size_t memory_bytes;
};

/* Bytes that each window of `threads` x `inputs` may have; 0: too few for separate reads. */
size_t flmem_direct_window_bytes(unsigned threads, size_t inputs);

/*
 * Memory is taken when it is written to. Where a limit leaves too little there are none, and all
 * is read through the page cache. Clear them also after a failure.
 */
bool flmem_direct_windows_init(struct flmem_direct_windows *windows, size_t inputs,
			       size_t window_bytes);
void flmem_direct_windows_clear(struct flmem_direct_windows *windows);

/* Opens the files of an input once more, where that is possible and helps. */
void flmem_direct_open(const struct flmem_input *input);
void flmem_direct_close(struct flmem_direct_file *direct);

/* Of an open file that is on a block device; -1: none. */
int flmem_direct_descriptor(const struct flmem_input_file *file);

/* Whether bytes that are not in the page cache are read past it. */
bool flmem_direct_takes(const struct flmem_input_piece *piece);

/*
 * flmem_input_read() of bytes that are not in the page cache, or a few of them; what follows in the
 * file is read along. What cannot be read so is read through
 * the page cache.
 */
int flmem_direct_read(struct flmem_direct_window *window, const struct flmem_layout *layout,
		      uint64_t begin, uint64_t end, char *out, struct flmem_error *err);

#endif
