/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the pickle of a PyTorch checkpoint: all places are inside it, and every box ends after the
 * elements that it counts.
 */
#include <string.h>

#include "fuzz.h"
#include "model/pickle.h"

static void check_box(const struct flmem_pickle *pickle, const struct flmem_pickle_box *box)
{
	uint32_t node = box->first;

	for (uint32_t i = 0; i < box->count; i++, node = pickle->nodes[node].next)
		if (!node || node >= pickle->node_count)
			abort();
	if (box->count && node)
		abort();
}

static void check_value(const struct flmem_pickle *pickle, const struct flmem_pickle_value *value)
{
	uint64_t number = (uint64_t)value->number;

	switch (value->kind) {
	case FLMEM_PICKLE_STRING:
		if (number > pickle->length || value->length > pickle->length - number)
			abort();
		break;
	case FLMEM_PICKLE_TUPLE:
	case FLMEM_PICKLE_LIST:
	case FLMEM_PICKLE_DICT:
		if (number >= pickle->box_count)
			abort();
		break;
	case FLMEM_PICKLE_STORAGE:
		if (number >= pickle->storage_count)
			abort();
		break;
	case FLMEM_PICKLE_TENSOR:
		if (number >= pickle->tensor_count)
			abort();
		break;
	case FLMEM_PICKLE_MARK:
		abort();
	case FLMEM_PICKLE_OTHER:
	case FLMEM_PICKLE_BOOL:
	case FLMEM_PICKLE_INTEGER:
	case FLMEM_PICKLE_NAME:
	case FLMEM_PICKLE_DTYPE:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FLMEM_AUTO_PICKLE struct flmem_pickle pickle = {0};
	char *text = malloc(size + 1);

	if (!text)
		abort();
	memcpy(text, data, size);
	if (flmem_pickle_read("pickle", text, size, &pickle, NULL)) {
		if (pickle.text)
			abort();
		return 0;
	}
	if (pickle.stack_count != 1)
		abort();
	check_value(&pickle, &pickle.stack[0]);
	for (size_t i = 1; i < pickle.node_count; i++)
		check_value(&pickle, &pickle.nodes[i].value);
	for (size_t i = 0; i < pickle.box_count; i++)
		check_box(&pickle, &pickle.boxes[i]);
	for (size_t i = 0; i < pickle.tensor_count; i++)
		if (pickle.tensors[i].storage >= pickle.storage_count || !pickle.tensors[i].dtype)
			abort();
	return 0;
}
