/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/find_special.h"

#include <stdlib.h>

#include "base/cleanup.h"

#define PIECE_BYTES ((uint64_t)64 << 10)

struct special_search {
	const struct flmem_input *input;
	const struct flmem_layout *layout;
	char *piece;
	double *row; /* elements of a piece */
};

static int search_tensor(const struct special_search *search, size_t tensor, bool *ret_found,
			 struct flmem_error *err)
{
	const struct flmem_kernels *kernels = flmem_kernels_best();
	enum flmem_element element = search->layout->elements[tensor];
	uint64_t at = search->layout->begins[tensor];
	uint64_t end = at + search->layout->order[tensor]->bytes, bytes;

	*ret_found = false;
	for (; at < end && !*ret_found; at += bytes) {
		size_t count;
		int rc;

		bytes = end - at < PIECE_BYTES ? end - at : PIECE_BYTES;
		count = (size_t)bytes / flmem_element_bytes(element);
		rc = flmem_input_read(search->input, search->layout, at, at + bytes, search->piece,
				      err);
		if (rc)
			return rc;
		kernels->load[element](search->piece, search->row, count);
		*ret_found = !kernels->finite(search->row, count);
	}
	return 0;
}

int flmem_input_find_special(const struct flmem_input *input, const struct flmem_layout *layout,
			     const struct flmem_tensor **ret_tensor, struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *piece = malloc(PIECE_BYTES);
	FLMEM_AUTO_FREE double *row = calloc(PIECE_BYTES, sizeof(*row));
	const struct special_search search = {input, layout, piece, row};
	bool found = false;
	int rc = 0;

	*ret_tensor = NULL;
	if (!piece || !row)
		return flmem_error_nomem(err, "cannot check '%s'", input->path);
	for (size_t i = 0; i < layout->list.count && !found && !rc; i++) {
		if (!flmem_element_is_real(layout->elements[i]))
			continue;
		rc = search_tensor(&search, i, &found, err);
		if (found)
			*ret_tensor = layout->order[i];
	}
	return rc;
}
