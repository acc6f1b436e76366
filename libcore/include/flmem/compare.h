/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_COMPARE_H
#define FLMEM_COMPARE_H

/*
 * Compares two models tensor by tensor. Data are read in blocks, so memory use is in proportion to
 * the number of tensors. Calls share nothing: several threads may compare at once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/aggregate.h>
#include <flmem/error.h>
#include <flmem/http.h>
#include <flmem/visibility.h>

struct flmem_compared_tensor {
	char *name; /* untrusted: escape it to print */
	/*
	 * Kind of the difference; static: "only in the first", "only in the second", "shapes",
	 * "types" or "values".
	 */
	const char *difference;
	/* Type in each model, as safetensors names it; NULL: not in that model. */
	const char *dtypes[2];
	char *shapes[2]; /* shape in each model, "[2, 3]"; NULL: not in that model */
	/* Number of differing elements; of bytes for types without arithmetic. */
	uint64_t differing;
	/*
	 * The largest differences of an element: the absolute one, |a - b|, and the relative one,
	 * |a - b| divided by the larger of |a| and |b|. Infinite where only one of the two is NaN
	 * or infinite; NaN if the elements were not compared.
	 */
	double absolute, relative;
	uint64_t at;  /* index of the first element with the largest absolute difference */
	bool exceeds; /* the difference exceeds the tolerance; always true except for "values" */
};

struct flmem_comparison {
	uint64_t tensors;			 /* number of tensors that are in either model */
	struct flmem_compared_tensor *differing; /* sorted by name */
	size_t differing_count;
	uint64_t exceeding;
};

struct flmem_compare_request {
	/* Each a safetensors file, a folder of shards or a PyTorch checkpoint. */
	const char *paths[2];
	/* Key of the dict that holds a checkpoint's tensors; NULL: the top level. */
	const char *key;
	double tolerance; /* absolute differences up to this are not counted as exceeding */
	/* For inputs that are addresses; NULL: the defaults. */
	const struct flmem_http_options *http;
	/*
	 * Reports progress as in struct flmem_aggregate_request. If it returns false, the call
	 * fails with FLMEM_EFAILED.
	 */
	bool (*progress)(void *context, const struct flmem_aggregate_progress *progress);
	void *context;
	unsigned threads; /* as in struct flmem_aggregate_request */
};

/*
 * Compares two models. Returns the errors of flmem_inspect(). Release the result with
 * flmem_comparison_clear().
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_compare(const struct flmem_compare_request *request,
					     struct flmem_comparison *ret_comparison,
					     struct flmem_error *err);

/* Frees what the comparison owns and zeroes the struct. */
FLMEM_API void flmem_comparison_clear(struct flmem_comparison *comparison);

#endif
