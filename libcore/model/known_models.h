/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_MODEL_KNOWN_MODELS_H
#define FLMEM_MODEL_KNOWN_MODELS_H

/* Models known by name, as the shape of a decoder, which defines its tensors. */

#include <stdbool.h>
#include <stdint.h>

#include "model/tensors.h"

struct flmem_known_model {
	const char *name;
	uint64_t layers, hidden, inner, keys; /* keys: width of the key and the value projection */
	uint64_t vocabulary;
	bool tied;	   /* the output layer is the embedding */
	const char *dtype; /* type of the published weights */
};

/* Finds a model by name, ignoring case; NULL for none. */
const struct flmem_known_model *flmem_known_model_find(const char *name);

/* Computes the sizes of the model; `dtype` is the type of all its tensors. */
void flmem_known_model_measure(const struct flmem_known_model *model,
			       const struct flmem_dtype *dtype, struct flmem_tensors *ret_tensors);

#endif
