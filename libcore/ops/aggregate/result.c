/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the result of a call. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes/crc32c.h"
#include "base/clock.h"
#include "ops/aggregate/call.h"

static uint32_t output_crc32c(const struct flmem_aggregate_call *call)
{
	uint32_t crc;

	if (call->output.format != FLMEM_FORMAT_SAFETENSORS)
		return call->output.crc32c;
	crc = flmem_crc32c(0, call->layout.header.data, call->layout.header.length);
	return flmem_crc32c_join(crc, call->crc32c, flmem_layout_bytes(&call->layout));
}

void flmem_aggregate_result_clear(struct flmem_aggregate_result *result)
{
	for (size_t i = 0; i < result->input_count; i++)
		free(result->inputs[i].path);
	free(result->inputs);
	free(result->output);
	*result = (struct flmem_aggregate_result){0};
}

static void fill_numbers(const struct flmem_aggregate_call *call,
			 struct flmem_aggregate_result *result)
{
	const struct flmem_run *run = &call->run;

	result->algorithm = flmem_algorithm_name(run->combination.algorithm);
	result->tensors = call->layout.list.count;
	result->output_bytes =
		run->verifies ? call->layout.header.length + flmem_layout_bytes(&call->layout)
			      : call->output.bytes;
	result->read_bytes = call->read_bytes;
	result->resumed_bytes = run->resumed_bytes;
	result->restarted = call->part.restarted || call->state.part.restarted;
	result->verified_elements = run->verified;
	result->took_us = flmem_clock_us() - call->started_us;
	result->peak_anon_bytes = run->peak_anon_bytes
					  ? FLMEM_KNOWN(run->peak_anon_bytes)
					  : FLMEM_UNKNOWN("/proc/self/statm is not readable");
	result->chunk_bytes = run->chunk_bytes;
	result->threads = run->threads;
	result->processes = call->ranks.count;
	result->kernels = run->combination.kernels->name;
	result->crc32c = output_crc32c(call);
}

/* Finds inputs that are the same file, by mistake or on purpose: both count. */
static void find_repeated(const struct flmem_aggregate_call *call,
			  struct flmem_aggregate_result *result)
{
	const char *const *paths = call->request->inputs;

	for (size_t i = 1; i < result->input_count; i++)
		for (size_t j = 0; j < i && !result->inputs[i].same_as; j++)
			if (!result->inputs[i].skipped && !result->inputs[j].skipped &&
			    (flmem_input_is_same(&call->inputs[i], &call->inputs[j]) ||
			     strcmp(paths[i], paths[j]) == 0))
				result->inputs[i].same_as = result->inputs[j].path;
}

int flmem_aggregate_call_name_result(const struct flmem_aggregate_call *call,
				     struct flmem_aggregate_result *result, struct flmem_error *err)
{
	size_t count = call->request->input_count;

	result->output = strdup(call->request->output);
	result->inputs = calloc(count, sizeof(*result->inputs));
	if (!result->output || !result->inputs)
		return flmem_aggregate_call_nomem(call, err);
	while (result->input_count < count) {
		char *path = strdup(call->inputs[result->input_count].path);

		if (!path)
			return flmem_aggregate_call_nomem(call, err);
		result->inputs[result->input_count++].path = path;
	}
	return 0;
}

struct flmem_aggregate_result
flmem_aggregate_call_fill_result(const struct flmem_aggregate_call *call,
				 struct flmem_aggregate_result named)
{
	size_t active = 0;

	fill_numbers(call, &named);
	for (size_t i = 0; i < named.input_count; i++) {
		struct flmem_aggregate_input *input = &named.inputs[i];

		input->skipped = call->inputs[i].skipped;
		if (!input->skipped)
			input->weight = call->weights[active++] / call->run.combination.total;
	}
	find_repeated(call, &named);
	return named;
}
