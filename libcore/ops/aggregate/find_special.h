/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_FIND_SPECIAL_H
#define FLMEM_OPS_AGGREGATE_FIND_SPECIAL_H

#include "aggregate/kernels.h"
#include "ops/aggregate/input.h"

/* Returns true if one of these elements, of a real type, is a NaN or an infinity. */
bool flmem_elements_have_special(enum flmem_element element, const char *from, size_t bytes);

/* Reads all of an input. *ret_tensor is the first tensor with a NaN or an infinity, or NULL. */
int flmem_input_find_special(const struct flmem_input *input, const struct flmem_layout *layout,
			     const struct flmem_tensor **ret_tensor, struct flmem_error *err);

#endif
