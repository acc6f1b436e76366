/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_INPUT_MAPPED_H
#define FLMEM_OPS_AGGREGATE_INPUT_MAPPED_H

/*
 * Inputs that the page cache has are read where they are, without a copy: a quarter less processor
 * time (docs/guides/aggregate.md, "Measured"). A page that can no longer be read, as the file was
 * truncated or its device failed, raises SIGBUS: then the pages of that window are replaced by
 * zeros, and the reader repeats it by flmem_input_read(), which reports the cause.
 */

#include <signal.h>

#include "ops/aggregate/input.h"

/* What a thread has mapped of one input, at most `room` bytes. */
struct flmem_mapped_window {
	/* The caller sets these two. */
	const struct flmem_input *input;
	uint64_t limit; /* end of what may be mapped in advance, in the output's data */

	size_t room;
	char *pages; /* NULL: nothing is mapped */
	size_t length;
	const struct flmem_input_file *file;
	uint64_t begin, end; /* offsets in the file */
};

/* The windows of a thread, one for each input. */
struct flmem_mapped_windows {
	struct flmem_mapped_window *windows; /* NULL: no windows */
	size_t count;
	volatile sig_atomic_t failed; /* pages were replaced by zeros after a SIGBUS */
};

/*
 * Allocates the windows. There are none before flmem_aggregate_map_inputs(), or if windows of a
 * useful size would take too much together. Returns false if memory is out.
 */
bool flmem_mapped_windows_init(struct flmem_mapped_windows *windows, unsigned threads,
			       size_t inputs, size_t block_bytes);
void flmem_mapped_windows_clear(struct flmem_mapped_windows *windows);

/*
 * The reading thread calls this once: its windows then handle the SIGBUS that its reads raise;
 * NULL: none.
 */
void flmem_mapped_attach(struct flmem_mapped_windows *windows);

/*
 * Maps bytes [begin, end) of the output's data of the window's input, aligned to 8 bytes; valid
 * until the next call for the window. NULL if the bytes must be read.
 */
char *flmem_mapped_find(struct flmem_mapped_window *window, const struct flmem_layout *layout,
			uint64_t begin, uint64_t end);

#endif
