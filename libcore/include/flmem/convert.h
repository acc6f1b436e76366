/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CONVERT_H
#define FLMEM_CONVERT_H

/*
 * Writes a model in another format or with another type of numbers. Data are read and written in
 * blocks, so memory use is in proportion to the number of tensors. The output appears complete or
 * not at all; until then the unfinished file has the name that flmem_aggregate() gives to one.
 * Calls share nothing: several threads may convert at once.
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
	/* Key of the dict that holds a checkpoint's tensors; NULL: the top level. */
	const char *key;
	/*
	 * "F16", "BF16", "F32" or "F64": the new type of all floating-point tensors, rounded to
	 * nearest, ties to even; NULL: unchanged. Other tensors are unchanged.
	 */
	const char *dtype;
	/*
	 * Reports progress as in struct flmem_aggregate_request. If it returns false, the call
	 * fails with FLMEM_EFAILED.
	 */
	bool (*progress)(void *context, const struct flmem_aggregate_progress *progress);
	void *context;
	/* For an input that is an address; NULL: the defaults. */
	const struct flmem_http_options *http;
	/*
	 * 0: the output is one file. Otherwise `output` is a folder, as in struct
	 * flmem_aggregate_request.
	 */
	uint64_t shard_bytes;
	bool resume; /* continue the unfinished output of an earlier call with the same request */
};

struct flmem_conversion {
	uint64_t tensors, converted; /* number of all tensors, and of those whose type changed */
	uint64_t output_bytes, took_us;
	/* Bytes of the output that an earlier call had written and that are intact. */
	uint64_t resumed_bytes;
	/* `resume` was set, but the unfinished output belonged to another request. */
	bool restarted;
	uint32_t crc32c; /* CRC-32C of the whole output */
};

/*
 * Converts a model. FLMEM_EUSAGE for invalid inputs, models that the format cannot hold, and finite
 * numbers that would become infinite; FLMEM_EPERM and FLMEM_EFAILED as for flmem_aggregate(). After
 * FLMEM_EFAILED the unfinished output is kept for `resume`.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_convert(const struct flmem_convert_request *request,
					     struct flmem_conversion *ret_conversion,
					     struct flmem_error *err);

#endif
