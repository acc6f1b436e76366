/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_INSPECT_H
#define FLMEM_INSPECT_H

/*
 * The tensors of model files: types, shapes, checksums, statistics. Data are read in blocks, so
 * memory is in proportion to the number of tensors, not to their size. Nothing is shared between
 * threads.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/aggregate.h>
#include <flmem/error.h>
#include <flmem/http.h>
#include <flmem/value.h>
#include <flmem/visibility.h>

/* Of the finite elements. NaN if there are none, or if the result exceeds a double. */
struct flmem_tensor_statistics {
	double min, max, mean;
	double norm; /* L2 */
	uint64_t nans, infinities;
};

struct flmem_inspected_tensor {
	char *name;	   /* untrusted: escape it to print */
	const char *dtype; /* as safetensors names it; static */
	uint64_t *shape;
	size_t rank;
	uint64_t elements, bytes;
	uint32_t file;	 /* index of the file */
	uint32_t crc32c; /* of the tensor's bytes; valid with data */
	struct flmem_tensor_statistics statistics;
	const char *no_statistics; /* static: why there are no statistics, or NULL */
};

struct flmem_inspected_file {
	char *path;
	uint64_t bytes;
	uint32_t crc32c; /* of the whole file; valid with data */
};

struct flmem_inspection {
	char *path;
	/* Static: "safetensors", "safetensors shards", "PyTorch checkpoint", "NumPy archive". */
	const char *format;
	struct flmem_u64 tensor_count, parameters;
	uint64_t bytes;				/* of all tensors */
	struct flmem_inspected_tensor *tensors; /* sorted by name; NULL if not listed */
	struct flmem_inspected_file *files;
	size_t file_count;
	char *unlisted; /* why tensors and files are not listed, or NULL */
	bool has_data;	/* checksums are valid */
};

struct flmem_inspect_request {
	const char *path;  /* a file of any format, a folder of shards */
	const char *key;   /* for a checkpoint: the dict with the tensors; NULL: the top level */
	bool headers_only; /* read no data: no checksums */
	bool statistics;
	const struct flmem_http_options *http; /* for addresses; NULL: the defaults */
	/* As in struct flmem_aggregate_request; if it returns false: FLMEM_EFAILED. */
	bool (*progress)(void *context, const struct flmem_aggregate_progress *progress);
	void *context;
};

/*
 * FLMEM_EUSAGE for invalid files and for files that change during the call; FLMEM_EPERM for
 * unreadable ones; FLMEM_EFAILED for failed reads.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_inspect(const struct flmem_inspect_request *request,
					     struct flmem_inspection *ret_inspection,
					     struct flmem_error *err);

/* Frees what it owns and empties it. */
FLMEM_API void flmem_inspection_clear(struct flmem_inspection *inspection);

#endif
