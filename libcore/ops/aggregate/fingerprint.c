/* SPDX-License-Identifier: Apache-2.0 */
/* Fingerprints that differ for requests that would write different bytes. */
#include <string.h>

#include "base/bytes/fnv.h"
#include "net/http.h"
#include "ops/aggregate/call.h"
#include "ops/aggregate/generated.h"

/*
 * Mixes in a file's identity. It includes ctime, since a program may set the time of the last
 * modification back.
 */
static uint64_t mix_file(uint64_t hash, const struct stat *status)
{
	const uint64_t file[] = {status->st_dev,
				 status->st_ino,
				 (uint64_t)status->st_size,
				 (uint64_t)status->st_mtim.tv_sec,
				 (uint64_t)status->st_mtim.tv_nsec,
				 (uint64_t)status->st_ctim.tv_sec,
				 (uint64_t)status->st_ctim.tv_nsec};

	return flmem_fnv_mix(hash, file, sizeof(file));
}

/*
 * Mixes in a generated input; its tensors need not be mixed in, because the output's header has
 * them.
 */
static uint64_t mix_generated(uint64_t hash, const struct flmem_generated *generated)
{
	const uint64_t numbers[] = {generated->seed, generated->client};

	return flmem_fnv_mix(hash, numbers, sizeof(numbers));
}

uint64_t flmem_input_mix(const struct flmem_input *input, uint64_t hash)
{
	for (size_t f = 0; f < input->file_count; f++) {
		const struct flmem_input_file *file = &input->files[f];

		hash = file->generated ? mix_generated(hash, file->generated)
		       : file->remote  ? flmem_http_file_mix(file->remote, hash)
				       : mix_file(hash, &file->status);
	}
	return hash;
}

uint64_t flmem_aggregate_call_options_print(const struct flmem_aggregate_call *call)
{
	const struct flmem_aggregate_request *request = call->request;
	const struct flmem_combination *c = &call->run.combination;
	const char *name = flmem_algorithm_name(c->algorithm);
	const uint64_t numbers[] = {request->nan, request->non_float, request->input_count,
				    request->hostile, request->keep};
	const double reals[] = {request->trim, request->clip_norm, c->rate,
				c->beta1,      c->beta2,	   c->tau};
	uint64_t hash = flmem_fnv_mix(FLMEM_FNV_START, numbers, sizeof(numbers));

	hash = flmem_fnv_mix(hash, reals, sizeof(reals));
	hash = flmem_fnv_mix(hash, name, strlen(name));
	return flmem_fnv_mix(hash, request->key ?: "", request->key ? strlen(request->key) + 1 : 0);
}

uint64_t flmem_aggregate_call_request_print(const struct flmem_aggregate_call *call)
{
	const struct flmem_aggregate_request *request = call->request;
	uint64_t hash = flmem_aggregate_call_options_print(call);

	for (size_t i = 0; i < request->input_count; i++) {
		hash = flmem_fnv_mix(hash, &call->inputs[i].weight, sizeof(call->inputs[i].weight));
		hash = flmem_input_mix(&call->inputs[i], hash);
	}
	return hash;
}

uint64_t flmem_aggregate_call_fingerprint(const struct flmem_aggregate_call *call)
{
	const struct flmem_run *run = &call->run;
	const uint64_t numbers[] = {flmem_aggregate_call_request_print(call),
				    run->chunk_bytes,
				    run->input_count,
				    run->combination.trimmed,
				    run->combination.hostile,
				    call->request->shard_bytes};
	uint64_t hash = flmem_fnv_mix(FLMEM_FNV_START, numbers, sizeof(numbers));

	hash = flmem_fnv_mix(hash, call->weights, run->input_count * sizeof(*call->weights));
	hash = flmem_fnv_mix(hash, call->factors, run->input_count * sizeof(*call->factors));
	hash = flmem_fnv_mix(hash, call->layout.header.data, call->layout.header.length);
	for (size_t i = 0; i < flmem_run_sources(run); i++)
		hash = flmem_input_mix(run->inputs[i], hash);
	return flmem_input_mix(&call->state.input, hash);
}
