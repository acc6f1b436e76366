/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_COMPARE_H
#define FLMEM_COMPARE_H

/*
 * Compares two models tensor by tensor. Data are read in blocks, so memory is
 * in proportion to the number of tensors. Nothing is shared between threads.
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
	/* Static: "only in the first", "only in the second", "shapes", "types" or "values". */
	const char *difference;
	const char *dtypes[2]; /* as safetensors names them; NULL: not in that model */
	char *shapes[2];       /* "[2, 3]"; NULL: not in that model */
	uint64_t differing;    /* elements that differ; bytes for types without arithmetic */
	/*
	 * The largest differences of an element: |a - b|, and that divided by the larger of |a| and
	 * |b|. Infinite where only one is NaN or infinite; NaN: the elements were not compared.
	 */
	double absolute, relative;
	uint64_t at;  /* the first element with the largest absolute difference */
	bool exceeds; /* exceeds the tolerance; always true for differences other than values */
};

struct flmem_comparison {
	uint64_t tensors;			 /* in either model */
	struct flmem_compared_tensor *differing; /* by name */
	size_t differing_count;
	uint64_t exceeding;
};

struct flmem_compare_request {
	const char *paths[2]; /* safetensors files, folders of shards, PyTorch checkpoints */
	const char *key;      /* for checkpoints: the dict with the tensors; NULL: the top level */
	double tolerance;     /* of absolute differences */
	const struct flmem_http_options *http; /* for addresses; NULL: the defaults */
	/* As in struct flmem_aggregate_request; if it returns false: FLMEM_EFAILED. */
	bool (*progress)(void *context, const struct flmem_aggregate_progress *progress);
	void *context;
};

/* Errors as for flmem_inspect(). */
FLMEM_API FLMEM_MUST_CHECK int flmem_compare(const struct flmem_compare_request *request,
					     struct flmem_comparison *ret_comparison,
					     struct flmem_error *err);

/* Frees what it owns and empties it. */
FLMEM_API void flmem_comparison_clear(struct flmem_comparison *comparison);

#endif
