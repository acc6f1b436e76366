/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CONVERT_H
#define FLMEM_CONVERT_H

/*
 * Writes a model in another format or with another type of numbers. Data are read and written in
 * blocks, so memory is in proportion to the number of tensors. The output appears complete or not
 * at all; until then it has the names that flmem_aggregate() uses. Nothing is shared between
 * threads.
 */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/aggregate.h>
#include <flmem/error.h>
#include <flmem/http.h>
#include <flmem/visibility.h>

struct flmem_convert_request {
	const char *input;  /* a file or a folder, as for flmem_aggregate() */
	const char *output; /* its suffix selects the format, as for flmem_aggregate() */
	const char *key;    /* for a checkpoint: the dict with the tensors; NULL: the top level */
	/*
	 * "F16", "BF16", "F32" or "F64": the new type of all floating-point tensors, rounded to
	 * nearest, ties to even; NULL: unchanged. Other tensors are unchanged.
	 */
	const char *dtype;
	/* As in struct flmem_aggregate_request. */
	bool (*progress)(void *context, const struct flmem_aggregate_progress *progress);
	void *context;
	const struct flmem_http_options *http; /* for addresses; NULL: the defaults */
	/*
	 * 0: one file. Else `output` is a folder, which must not exist or be empty, of safetensors
	 * files with at most this many bytes of tensors each, or one tensor, and their index.
	 */
	uint64_t shard_bytes;
	bool resume; /* continue what an earlier call with the same request left */
};

struct flmem_conversion {
	uint64_t tensors, converted; /* tensors whose type changed */
	uint64_t output_bytes, took_us;
	uint64_t resumed_bytes; /* of the output, found done and intact */
	bool restarted;		/* with resume: the unfinished output was of another request */
	uint32_t crc32c;	/* of the whole output */
};

/*
 * FLMEM_EUSAGE for invalid inputs, models that the format cannot hold, and finite numbers that
 * would become infinite; FLMEM_EPERM and FLMEM_EFAILED as for flmem_aggregate(). After
 * FLMEM_EFAILED the unfinished output is kept for `resume`.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_convert(const struct flmem_convert_request *request,
					     struct flmem_conversion *ret_conversion,
					     struct flmem_error *err);

#endif
