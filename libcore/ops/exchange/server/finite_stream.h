/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_FINITE_STREAM_H
#define FLMEM_EXCHANGE_FINITE_STREAM_H

/*
 * Determines while an update arrives that it has no NaN and no infinity, so that it need not be
 * read again for that. It assumes a safetensors file with the tensors in the order of the layout;
 * the header, compared at the end, shows whether that is true.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/aggregate/output_layout.h"

struct flmem_finite_stream {
	const struct flmem_layout *layout;
	uint64_t at;   /* in the data: of what is not searched yet */
	uint64_t skip; /* bytes of the header that are still to come */
	size_t tensor;
	char part[8]; /* of a word that is not complete */
	size_t part_bytes;
	bool finite; /* all elements that are complete; else it is not known */
};

/* From byte `offset` of a file on that has `bytes`. */
void flmem_finite_stream_begin(struct flmem_finite_stream *stream,
			       const struct flmem_layout *layout, uint64_t offset, uint64_t bytes);

void flmem_finite_stream_add(struct flmem_finite_stream *stream, const char *bytes, size_t length);

/* Whether all that was added is known to be finite. */
bool flmem_finite_stream_end(struct flmem_finite_stream *stream);

#endif
