/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_COUNTS_H
#define FLMEM_OPS_AGGREGATE_COUNTS_H

/* Counts of samples per input, as JSON: {"client-1": 600, "client-2": 1200}. */

#include <stddef.h>

#include <flmem/error.h>

#include "base/text/buf.h"

/* Reads the weight of each input from `text`, which is changed. `path` is for messages. */
int flmem_counts_parse(const char *path, struct flmem_buf *text, const char *const *inputs,
		       size_t count, double *ret_weights, struct flmem_error *err);

#endif
