/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_OUTPUT_LAYOUT_H
#define FLMEM_OPS_AGGREGATE_OUTPUT_LAYOUT_H

/*
 * The tensors of the output and their places in its data. Their order is that of the format's own
 * writer, which aligns each tensor to its elements, so a chunk may be cut at any multiple of 8
 * bytes.
 */

#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "aggregate/kernels.h"
#include "base/text/buf.h"
#include "model/tensor_list.h"

struct flmem_layout {
	struct flmem_tensor_list list; /* list of the first input */
	const struct flmem_tensor **order;
	uint64_t *begins;	 /* place of each tensor in the data, and the end of the last */
	unsigned char *elements; /* enum flmem_element of each tensor */
	struct flmem_buf header;
};

/* Makes the layout and takes ownership of the list. `path` is for messages. */
int flmem_layout_init(struct flmem_layout *layout, struct flmem_tensor_list *list, const char *path,
		      struct flmem_error *err);

void flmem_layout_clear(struct flmem_layout *layout);

/*
 * Returns the last tensor that begins at or before this place in the data; tensors without bytes
 * count.
 */
size_t flmem_layout_find(const struct flmem_layout *layout, uint64_t at);

static inline uint64_t flmem_layout_bytes(const struct flmem_layout *layout)
{
	return layout->begins[layout->list.count];
}

#endif
