/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_MODEL_SHAPES_H
#define FLMEM_MODEL_SHAPES_H

/* Lists the tensors of models that are known by name, as their own files list them. */

#include <flmem/error.h>

#include "model/tensor_list.h"

/*
 * Lists the tensors of a model of FLMEM_SHAPES, sorted by name, without places in a file. `dtype`
 * replaces the floating-point types; NULL: those of the published model. FLMEM_EUSAGE for another
 * name.
 */
int flmem_shape_list(const char *shape, const struct flmem_dtype *dtype,
		     struct flmem_tensor_list *ret_list, struct flmem_error *err);

#endif
