/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_GENERATED_H
#define FLMEM_OPS_AGGREGATE_GENERATED_H

/*
 * Models whose values are made while they are read, and the check of a mean of such models. A
 * generated model is read like the safetensors file that would hold it.
 */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/error.h>

#include "aggregate/generator.h"
#include "ops/aggregate/output_layout.h"
#include "ops/aggregate/run.h"

struct flmem_generated {
	struct flmem_layout layout;	    /* layout of that file */
	struct flmem_generator *generators; /* one per tensor, in the order of the layout */
	uint64_t seed, client;
};

/* Returns true if the name is one of a generated model (flmem/aggregate.h). */
bool flmem_generated_is_name(const char *name);

/* Opens a generated model by its name. FLMEM_EUSAGE for a name with unknown or invalid parts. */
int flmem_generated_open(const char *name, struct flmem_generated **ret_generated,
			 struct flmem_tensor_list *ret_list, struct flmem_error *err);

void flmem_generated_free(struct flmem_generated *generated);

/* Returns the size in bytes of the file that would hold the model. */
uint64_t flmem_generated_size(const struct flmem_generated *generated);

/* Makes bytes of that file. */
void flmem_generated_read(const struct flmem_generated *generated, uint64_t offset, uint64_t bytes,
			  char *out);

/* Returns how many of the given bytes are those of the file, up to the first one that is not. */
uint64_t flmem_generated_compare(const struct flmem_generated *generated, uint64_t offset,
				 uint64_t bytes, const char *values);

/* Prepares the check of the run's mean. FLMEM_EUSAGE if it could not be checked. */
int flmem_verify_prepare(const struct flmem_run *run, struct flmem_error *err);

/*
 * Checks bytes [begin, end) of the mean, which are in `values`. For streamed inputs it also
 * compares their bytes, which are in `inputs`, with what their generators make. FLMEM_EFAILED for
 * an element that is not the exact mean, or not that of its generator.
 */
int flmem_verify_block(struct flmem_run *run, uint64_t begin, uint64_t end, char *const *inputs,
		       const char *values, struct flmem_error *err);

#endif
