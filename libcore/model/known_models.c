/* SPDX-License-Identifier: Apache-2.0 */
#include "model/known_models.h"

#include <stddef.h>
#include <strings.h>

#define LAYER_TENSORS 9U /* four tensors of attention, three of the feed-forward part, two norms */

/* Shapes from the models' own config.json. */
static const struct flmem_known_model known_models[] = {
	{"llama-3.1-8b", 32, 4096, 14336, 1024, 128256, false, "bf16"},
	{"llama-3.1-70b", 80, 8192, 28672, 1024, 128256, false, "bf16"},
	{"llama-3.1-405b", 126, 16384, 53248, 1024, 128256, false, "bf16"},
	{"llama-3.2-1b", 16, 2048, 8192, 512, 128256, true, "bf16"},
	{"llama-3.2-3b", 28, 3072, 8192, 1024, 128256, true, "bf16"},
	{NULL, 0, 0, 0, 0, 0, false, NULL},
};

const struct flmem_known_model *flmem_known_model_find(const char *name)
{
	for (const struct flmem_known_model *m = known_models; m->name; m++)
		if (strcasecmp(m->name, name) == 0)
			return m;
	return NULL;
}

void flmem_known_model_measure(const struct flmem_known_model *model,
			       const struct flmem_dtype *dtype, struct flmem_tensors *ret_tensors)
{
	uint64_t ends = model->tied ? 1 : 2;
	uint64_t embedding = model->vocabulary * model->hidden;
	uint64_t layer = 2 * model->hidden * model->hidden + 2 * model->keys * model->hidden +
			 3 * model->inner * model->hidden + 2 * model->hidden;
	uint64_t elements = model->layers * layer + ends * embedding + model->hidden;

	*ret_tensors = (struct flmem_tensors){
		.elements = elements,
		.bytes = elements * dtype->bits / 8,
		.count = model->layers * LAYER_TENSORS + ends + 1,
		.largest_bytes = embedding * dtype->bits / 8,
		.dtype = dtype,
		.counted = true,
		.listed = true,
	};
}
