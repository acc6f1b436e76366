/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_INSPECT_H
#define FLMEM_INSPECT_H

/*
 * Lists the tensors of model files: types, shapes, checksums, statistics. Data are read in blocks,
 * so memory use is in proportion to the number of tensors, not to their size. Calls share nothing:
 * several threads may inspect at once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/aggregate.h>
#include <flmem/error.h>
#include <flmem/http.h>
#include <flmem/value.h>
#include <flmem/visibility.h>

/*
 * Statistics of a tensor's finite elements. A value is NaN if there are none, or if it exceeds a
 * double.
 */
struct flmem_tensor_statistics {
	double min, max, mean;
	double norm; /* L2 norm */
	uint64_t nans, infinities;
};

struct flmem_inspected_tensor {
	char *name;	   /* untrusted: escape it to print */
	const char *dtype; /* type, as safetensors names it; static */
	uint64_t *shape;
	size_t rank;
	uint64_t elements, bytes;
	uint32_t file;	 /* index in flmem_inspection.files */
	uint32_t crc32c; /* CRC-32C of the tensor's bytes; valid if has_data */
	struct flmem_tensor_statistics statistics;
	const char *no_statistics; /* static: why there are no statistics, or NULL */
};

struct flmem_inspected_file {
	char *path;
	uint64_t bytes;
	uint32_t crc32c; /* CRC-32C of the whole file; valid if has_data */
};

struct flmem_inspection {
	char *path;
	/*
	 * Format of the model; static: "safetensors", "safetensors shards", "PyTorch checkpoint" or
	 * "NumPy archive".
	 */
	const char *format;
	struct flmem_u64 tensor_count, parameters;
	uint64_t bytes;				/* bytes of all tensors together */
	struct flmem_inspected_tensor *tensors; /* sorted by name; NULL if not listed */
	struct flmem_inspected_file *files;
	size_t file_count;
	char *unlisted; /* why tensors and files are not listed, or NULL */
	bool has_data;	/* the data were read: checksums are valid */
};

struct flmem_inspect_request {
	const char *path; /* a model file of any format, or a folder of shards */
	/* Key of the dict that holds a checkpoint's tensors; NULL: the top level. */
	const char *key;
	bool headers_only; /* do not read the data; there are no checksums then */
	bool statistics;
	/* For a path that is an address; NULL: the defaults. */
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
 * Inspects a model. FLMEM_EUSAGE for invalid files and for files that change during the call;
 * FLMEM_EPERM for unreadable ones; FLMEM_EFAILED for failed reads. Release with
 * flmem_inspection_clear().
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_inspect(const struct flmem_inspect_request *request,
					     struct flmem_inspection *ret_inspection,
					     struct flmem_error *err);

/* Frees what the inspection owns and zeroes the struct. */
FLMEM_API void flmem_inspection_clear(struct flmem_inspection *inspection);

#endif
