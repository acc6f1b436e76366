/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_FIND_SPECIAL_H
#define FLMEM_OPS_AGGREGATE_FIND_SPECIAL_H

#include "ops/aggregate/input.h"

/* Reads all of an input. *ret_tensor is one with a NaN or an infinity, or NULL. */
int flmem_input_find_special(const struct flmem_input *input, const struct flmem_layout *layout,
			     const struct flmem_tensor **ret_tensor, struct flmem_error *err);

#endif
