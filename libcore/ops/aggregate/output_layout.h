/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_OUTPUT_LAYOUT_H
#define FLMEM_OPS_AGGREGATE_OUTPUT_LAYOUT_H

/*
 * The tensors of the output and their places in it. They are in the order of the format's own
 * writer, which aligns each to its elements, so a chunk may be cut at any multiple of 8 bytes.
 */

#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "aggregate/kernels.h"
#include "base/text/buf.h"
#include "model/tensor_list.h"

struct flmem_layout {
	struct flmem_tensor_list list; /* of the first input */
	const struct flmem_tensor **order;
	uint64_t *begins;	 /* of each in the data, and the end */
	unsigned char *elements; /* of each; enum flmem_element */
	struct flmem_buf header;
};

/* Takes ownership of the list. `path` is for messages. */
int flmem_layout_init(struct flmem_layout *layout, struct flmem_tensor_list *list, const char *path,
		      struct flmem_error *err);

void flmem_layout_clear(struct flmem_layout *layout);

/* The last tensor that begins at or before this place in the data; tensors without bytes count. */
size_t flmem_layout_find(const struct flmem_layout *layout, uint64_t at);

static inline uint64_t flmem_layout_bytes(const struct flmem_layout *layout)
{
	return layout->begins[layout->list.count];
}

#endif
