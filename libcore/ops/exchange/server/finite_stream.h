/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_FINITE_STREAM_H
#define FLMEM_EXCHANGE_FINITE_STREAM_H

/*
 * Determines, while an update arrives, that it has no NaN and no infinity, so that it need not be
 * read again for that. This assumes a safetensors file with the tensors in the order of the layout;
 * a comparison of the header at the end shows whether the assumption holds.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/aggregate/output_layout.h"

struct flmem_finite_stream {
	const struct flmem_layout *layout;
	uint64_t at;   /* offset in the data of the first byte that was not searched */
	uint64_t skip; /* bytes of the header that are still to come */
	size_t tensor;
	char part[8]; /* bytes of an incomplete word */
	size_t part_bytes;
	bool finite; /* all complete elements are finite; false: unknown */
};

/* Begins at byte `offset` of a file that has `bytes`. */
void flmem_finite_stream_begin(struct flmem_finite_stream *stream,
			       const struct flmem_layout *layout, uint64_t offset, uint64_t bytes);

void flmem_finite_stream_add(struct flmem_finite_stream *stream, const char *bytes, size_t length);

/* Returns true if all added bytes are known to be finite. */
bool flmem_finite_stream_end(struct flmem_finite_stream *stream);

#endif
