/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/output_layout.h"

#include <stdlib.h>

void flmem_layout_clear(struct flmem_layout *layout)
{
	flmem_tensor_list_clear(&layout->list);
	free(layout->order);
	free(layout->begins);
	free(layout->elements);
	flmem_buf_clear(&layout->header);
}

static void place_tensors(struct flmem_layout *layout)
{
	size_t count = layout->list.count;
	uint64_t at = 0;

	for (size_t i = 0; i < count; i++)
		layout->order[i] = &layout->list.tensors[i];
	if (count)
		qsort(layout->order, count, sizeof(*layout->order), flmem_tensor_compare_stored);
	for (size_t i = 0; i < count; i++) {
		layout->begins[i] = at;
		layout->elements[i] =
			(unsigned char)flmem_element_find(layout->order[i]->dtype->stored);
		at += layout->order[i]->bytes; /* no overflow: the sum is the size of one file */
	}
	layout->begins[count] = at;
}

int flmem_layout_init(struct flmem_layout *layout, struct flmem_tensor_list *list, const char *path,
		      struct flmem_error *err)
{
	size_t count = list->count;

	*layout = (struct flmem_layout){.list = *list};
	*list = (struct flmem_tensor_list){0};
	flmem_buf_init(&layout->header);
	layout->order = calloc(count + 1, sizeof(*layout->order));
	layout->begins = calloc(count + 1, sizeof(*layout->begins));
	layout->elements = calloc(count + 1, sizeof(*layout->elements));
	if (!layout->order || !layout->begins || !layout->elements)
		return flmem_error_nomem(err, "cannot list the tensors of '%s'", path);
	place_tensors(layout);
	flmem_safetensors_print(&layout->list, layout->order, &layout->header);
	if (layout->header.failed)
		return flmem_error_nomem(err, "cannot make a header like that of '%s'", path);
	return 0;
}

size_t flmem_layout_find(const struct flmem_layout *layout, uint64_t at)
{
	size_t low = 0, high = layout->list.count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (layout->begins[middle] <= at)
			low = middle;
		else
			high = middle;
	}
	return low;
}
