/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_INPUT_DIRECT_H
#define FLMEM_OPS_AGGREGATE_INPUT_DIRECT_H

/*
 * Reads bytes that the page cache does not have past it (O_DIRECT). Pages that are read ahead and
 * dropped again are soon scattered over the memory, so that the device gets requests of a few pages
 * each: less than half of the rate that it reaches with the large pages used here
 * (docs/benchmarks.md, "Averaging").
 */

#include "ops/aggregate/input.h"

/* Bytes of an input that a thread has read beyond what it needs at once. */
struct flmem_direct_window {
	/* The caller sets these two. */
	const struct flmem_input *input;
	uint64_t limit; /* end of what may be read in advance, in the output's data */

	char *memory;
	size_t room;
	const struct flmem_input_file *file; /* file of the bytes; NULL: none yet */
	uint64_t begin, end;		     /* offsets in the file */
};

/* The windows of a thread, one for each input. */
struct flmem_direct_windows {
	struct flmem_direct_window *windows; /* NULL: no windows */
	char *memory;
	size_t memory_bytes;
};

/* Returns the bytes of each of `threads` x `inputs` windows; 0: too few for direct reads. */
size_t flmem_direct_window_bytes(unsigned threads, size_t inputs);

/*
 * Allocates the windows; their memory is used only when it is written to. Where a limit leaves too
 * little there are no windows, and everything is read through the page cache. Clear them also after
 * a failure. Returns false if memory is out.
 */
bool flmem_direct_windows_init(struct flmem_direct_windows *windows, size_t inputs,
			       size_t window_bytes);
void flmem_direct_windows_clear(struct flmem_direct_windows *windows);

/* Opens the files of an input a second time for direct reads, where that is possible and helps. */
void flmem_direct_open(const struct flmem_input *input);
void flmem_direct_close(struct flmem_direct_file *direct);

/* Returns the descriptor of an open file on a block device; -1: none. */
int flmem_direct_descriptor(const struct flmem_input_file *file);

/* Returns true if bytes that are not in the page cache are read past it. */
bool flmem_direct_takes(const struct flmem_input_piece *piece);

/*
 * Reads as flmem_input_read() does, for bytes that are not in the page cache, or only a few of
 * which are. Bytes that follow in the file are read in advance. What cannot be read directly is
 * read through the page cache. Returns 0 or the code of the failure.
 */
int flmem_direct_read(struct flmem_direct_window *window, const struct flmem_layout *layout,
		      uint64_t begin, uint64_t end, char *out, struct flmem_error *err);

#endif
