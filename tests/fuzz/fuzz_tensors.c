/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a safetensors file, tensor by tensor: accepted tensors fill the data without holes,
 * and a header that is written from them is read as the same tensors.
 */
#include <string.h>

#include "base/cleanup.h"
#include "file.h"
#include "fuzz.h"
#include "model/tensor_list.h"

static void check_places(const struct flmem_tensor_list *list, size_t size)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < list->count; i++) {
		const struct flmem_tensor *tensor = &list->tensors[i];

		if (tensor->offset < list->data_offset || tensor->bytes > size ||
		    tensor->offset + tensor->bytes > size)
			abort();
		if (flmem_tensor_list_find(list, tensor->name) != tensor)
			abort();
		bytes += tensor->bytes;
	}
	if (bytes != list->data_bytes || list->data_offset + list->data_bytes != size)
		abort();
}

static void check_copy(const struct flmem_tensor_list *list)
{
	FLMEM_AUTO_FREE const struct flmem_tensor **order = calloc(list->count + 1, sizeof(*order));
	FLMEM_AUTO_TENSOR_LIST struct flmem_tensor_list copy = {0};
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	for (size_t i = 0; order && i < list->count; i++)
		order[i] = &list->tensors[i];
	if (!order)
		abort();
	qsort(order, list->count, sizeof(*order), flmem_tensor_compare_stored);
	flmem_safetensors_print(list, order, &text);
	for (uint64_t i = 0; i < list->data_bytes; i++)
		flmem_buf_putc(&text, 'x');

	FLMEM_AUTO_CLOSE int fd = fuzz_file(text.data, text.length);

	if (flmem_safetensors_read(FLMEM_SOURCE_FD(fd), "copy", &copy, NULL) ||
	    copy.count != list->count || copy.note_count != list->note_count)
		abort();
	for (size_t i = 0; i < copy.count; i++)
		if (strcmp(copy.tensors[i].name, list->tensors[i].name) != 0 ||
		    copy.tensors[i].bytes != list->tensors[i].bytes ||
		    copy.tensors[i].rank != list->tensors[i].rank)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FLMEM_AUTO_CLOSE int fd = fuzz_file(data, size);
	FLMEM_AUTO_TENSOR_LIST struct flmem_tensor_list list = {0};

	if (flmem_safetensors_read(FLMEM_SOURCE_FD(fd), "tensors", &list, NULL)) {
		if (list.tensors || list.texts)
			abort();
		return 0;
	}
	check_places(&list, size);
	check_copy(&list);
	return 0;
}
