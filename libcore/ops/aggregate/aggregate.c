/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/aggregate.h>

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/text.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "ops/aggregate/run.h"

#define CHUNK_STEP	  (UINT64_C(64) << 10)
#define CHUNK_LARGEST	  (UINT64_C(1) << 30)
#define INPUTS_MAX	  10000U
#define DISTANCES_MAX	  256U /* their pairs take 18 MB per thread */
#define THREADS_BY_ITSELF 8U
/* Blocks of all inputs of a thread together: in the second-level cache for a few inputs. */
#define BLOCKS_BYTES   (UINT64_C(1) << 20)
#define BLOCK_LARGEST  (UINT64_C(256) << 10)
#define BLOCK_SMALLEST (UINT64_C(64) << 10)

/* All that one call owns. */
struct call {
	const struct flmem_aggregate_request *request;
	uint64_t started_us;
	struct flmem_layout layout;
	struct flmem_input *inputs; /* and the base */
	struct flmem_part part;
	struct flmem_run run;
	double *weights, *factors; /* of the inputs that are not skipped */
	uint64_t read_bytes;
};

static void clear_call(struct call *call)
{
	struct flmem_run *run = &call->run;

	if (call->inputs)
		flmem_inputs_clear(call->inputs, call->request->input_count + 1);
	free(call->inputs);
	flmem_layout_clear(&call->layout);
	flmem_part_clear(&call->part);
	free(call->weights);
	free(call->factors);
	free(run->sums);
	free(run->inputs);
	free(run->chunks);
	free(run->cached);
	free(run->special);
	pthread_cond_destroy(&run->changed);
	pthread_mutex_destroy(&run->lock);
}

#define AUTO_CALL FLMEM_AUTO(clear_call)

static int aggregate_nomem(const struct call *call, struct flmem_error *err)
{
	return flmem_error_nomem(err, "cannot aggregate into '%s'", call->request->output);
}

static int check_request(const struct flmem_aggregate_request *request, struct flmem_error *err)
{
	if (!request->output || !*request->output)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "no output is named");
	if (!request->input_count)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "no input is named");
	if (request->input_count > INPUTS_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "%zu inputs; at most %u are averaged at once",
				       request->input_count, INPUTS_MAX);
	if (request->chunk_bytes > CHUNK_LARGEST)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "invalid chunk size %llu; expected at most 1 GiB",
				       (unsigned long long)request->chunk_bytes);
	if (request->threads > FLMEM_RUN_THREADS)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "invalid number of threads %u; expected at most %u",
				       request->threads, FLMEM_RUN_THREADS);
	return 0;
}

static unsigned count_threads(const struct flmem_aggregate_request *request)
{
	cpu_set_t set;
	int count = sched_getaffinity(0, sizeof(set), &set) < 0 ? 2 : CPU_COUNT(&set);

	if (request->threads)
		return request->threads;
	return (unsigned)count < THREADS_BY_ITSELF ? (unsigned)count : THREADS_BY_ITSELF;
}

static void size_run(struct call *call)
{
	const struct flmem_aggregate_request *request = call->request;
	uint64_t chunk = request->chunk_bytes ?: FLMEM_AGGREGATE_CHUNK_BYTES;
	uint64_t block = BLOCKS_BYTES / request->input_count / CHUNK_STEP * CHUNK_STEP;
	uint64_t bytes = flmem_layout_bytes(&call->layout);
	struct flmem_run *run = &call->run;

	run->chunk_bytes = (chunk + CHUNK_STEP - 1) / CHUNK_STEP * CHUNK_STEP;
	block = block > BLOCK_LARGEST	 ? BLOCK_LARGEST
		: block < BLOCK_SMALLEST ? BLOCK_SMALLEST
					 : block;
	run->block_bytes = (size_t)(block < run->chunk_bytes ? block : run->chunk_bytes);
	run->chunk_count = (size_t)((bytes + run->chunk_bytes - 1) / run->chunk_bytes);
	run->threads = count_threads(request);
}

static int open_inputs(struct call *call, struct flmem_error *err)
{
	const struct flmem_aggregate_request *request = call->request;
	size_t count = request->input_count;
	int rc;

	call->inputs = calloc(count + 1, sizeof(*call->inputs));
	call->weights = calloc(count, sizeof(*call->weights));
	call->factors = calloc(count, sizeof(*call->factors));
	if (!call->inputs || !call->weights || !call->factors)
		return aggregate_nomem(call, err);
	for (size_t i = 0; i < count; i++) {
		call->inputs[i].weight = request->weights ? request->weights[i] : 1;
		call->weights[i] = call->inputs[i].weight;
	}
	rc = flmem_weights_scale(call->weights, count, &call->run.combination.total, err);
	if (!rc)
		rc = flmem_inputs_open(request->inputs, count, call->inputs, &call->layout, err);
	if (!rc && request->base)
		rc = flmem_input_open(request->base, request->inputs[0], &call->layout,
				      &call->inputs[count], err);
	for (size_t i = 0; i < count && !rc; i++)
		if (call->inputs[i].weight == 0)
			call->inputs[i].skipped = "its weight is 0";
	return rc;
}

/* Parameters of other algorithms would be ignored. */
static int check_parameters(const struct flmem_aggregate_request *request,
			    const struct flmem_algorithm *algorithm, struct flmem_error *err)
{
	const struct {
		bool given, used;
		const char *why;
	} rows[] = {
		{request->weights, algorithm->weighted,
		 "does not use weights: every input counts the same"},
		{request->trim != 0, algorithm->trims, "trims nothing"},
		{request->base, algorithm->takes_base, "uses no base"},
		{request->clip_norm != 0, algorithm->clips, "clips nothing"},
		{request->hostile, algorithm->measures == FLMEM_MEASURE_DISTANCES,
		 "does not use the number of hostile inputs"},
		{request->keep, algorithm->keeps, "keeps no number of inputs"},
		{request->nan == FLMEM_NAN_PROPAGATE, !algorithm->measures,
		 "measures the inputs, which has no result with NaN; use --nan skip-client"},
	};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		if (rows[i].given && !rows[i].used)
			return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' %s",
					       flmem_algorithm_name(algorithm), rows[i].why);
	if (!(request->clip_norm >= 0))
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "invalid norm %g", request->clip_norm);
	if (algorithm->measures == FLMEM_MEASURE_DISTANCES && request->input_count > DISTANCES_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "%zu inputs; '%s' compares at most %u",
				       request->input_count, flmem_algorithm_name(algorithm),
				       DISTANCES_MAX);
	return 0;
}

static int find_algorithm(struct call *call, struct flmem_error *err)
{
	const struct flmem_aggregate_request *request = call->request;
	const char *name = request->algorithm ?: "fedavg";
	struct flmem_combination *combination = &call->run.combination;

	combination->algorithm = flmem_algorithm_find(name);
	if (!combination->algorithm)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "unknown algorithm '%.60s'", name);
	combination->trim = request->trim;
	combination->hostile = request->hostile;
	combination->keep = request->keep;
	combination->clip_norm = request->clip_norm;
	combination->has_base = request->base;
	combination->kernels = flmem_kernels_best();
	return check_parameters(request, combination->algorithm, err);
}

static int make_run(struct call *call, struct flmem_error *err)
{
	struct flmem_run *run = &call->run;
	size_t count = call->request->input_count + 1;

	run->layout = &call->layout;
	run->part = &call->part;
	run->passes = run->combination.algorithm->measures ? 2 : 1;
	size_run(call);
	run->inputs = calloc(count, sizeof(*run->inputs));
	run->chunks = calloc(run->chunk_count + 1, sizeof(*run->chunks));
	run->cached = calloc(FLMEM_RUN_AHEAD * count, sizeof(*run->cached));
	run->special = calloc(count, sizeof(*run->special));
	if (!run->inputs || !run->chunks || !run->cached || !run->special)
		return aggregate_nomem(call, err);
	return 0;
}

/* Masks of secure aggregation cancel in a sum only, and only where nothing is rounded. */
static int check_types(const struct call *call, struct flmem_error *err)
{
	const struct flmem_algorithm *algorithm = call->run.combination.algorithm;
	const char *name = flmem_algorithm_name(algorithm), *path = call->inputs[0].path;
	const struct flmem_layout *layout = &call->layout;
	const struct flmem_tensor *whole = NULL, *other = NULL;
	char shown[100];

	for (size_t i = 0; i < layout->list.count; i++)
		if (flmem_element_is_integer((enum flmem_element)layout->elements[i]))
			whole = layout->order[i];
		else
			other = layout->order[i];
	if (algorithm->combine_whole && other)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' adds integers, but tensor '%s' of '%s' is %s", name,
				       flmem_text_escape(other->name, shown, sizeof(shown)), path,
				       other->dtype->stored);
	if (algorithm->compares && whole && !other)
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"'%s' compares models, but all tensors of '%s' are integers: if they are "
			"masked for secure aggregation, only their sum has a meaning; use "
			"--algorithm sum",
			name, path);
	return 0;
}

/* Takes the inputs that are not skipped, with their weights. */
static int take_inputs(struct call *call, struct flmem_error *err)
{
	size_t count = call->request->input_count;
	struct flmem_run *run = &call->run;

	run->input_count = 0;
	for (size_t i = 0; i < count; i++) {
		if (call->inputs[i].skipped)
			continue;
		call->weights[run->input_count] = call->inputs[i].weight;
		call->factors[run->input_count] = call->inputs[i].factor;
		run->inputs[run->input_count++] = &call->inputs[i];
	}
	run->inputs[run->input_count] = &call->inputs[count];
	if (!run->input_count)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "no input is left for '%s': all have a NaN or an infinity",
				       call->request->output);
	run->combination.inputs = run->input_count;
	run->combination.weights = call->weights;
	run->combination.factors = call->factors;
	return flmem_weights_scale(call->weights, run->input_count, &run->combination.total, err);
}

static int choose_inputs(struct call *call, struct flmem_error *err)
{
	struct flmem_combination *combination = &call->run.combination;
	int rc = take_inputs(call, err);

	if (!rc && combination->algorithm->prepare)
		rc = combination->algorithm->prepare(combination, err);
	return rc;
}

/* FNV-1a. */
static uint64_t mix(uint64_t hash, const void *bytes, size_t length)
{
	const unsigned char *at = bytes;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ at[i]) * UINT64_C(1099511628211);
	return hash;
}

static uint64_t mix_file(uint64_t hash, const struct stat *status)
{
	const uint64_t file[] = {status->st_dev, status->st_ino, (uint64_t)status->st_size,
				 (uint64_t)status->st_mtim.tv_sec,
				 (uint64_t)status->st_mtim.tv_nsec};

	return mix(hash, file, sizeof(file));
}

/* Equal for requests whose chunks have the same bytes. */
static uint64_t fingerprint(const struct call *call)
{
	const struct flmem_aggregate_request *request = call->request;
	const struct flmem_run *run = &call->run;
	const char *name = flmem_algorithm_name(run->combination.algorithm);
	const uint64_t numbers[] = {
		request->nan,	  request->non_float,	    run->chunk_bytes,
		run->input_count, run->combination.trimmed, run->combination.hostile};
	uint64_t hash = mix(UINT64_C(14695981039346656037), numbers, sizeof(numbers));

	hash = mix(hash, name, strlen(name));
	hash = mix(hash, call->weights, run->input_count * sizeof(*call->weights));
	hash = mix(hash, call->factors, run->input_count * sizeof(*call->factors));
	hash = mix(hash, call->layout.header.data, call->layout.header.length);
	for (size_t i = 0; i < flmem_run_sources(run); i++)
		for (size_t f = 0; f < run->inputs[i]->file_count; f++)
			hash = mix_file(hash, &run->inputs[i]->files[f].status);
	return hash;
}

static int skip_special(struct call *call, struct flmem_error *err)
{
	struct flmem_run *run = &call->run;

	if (run->combination.has_base && run->special[run->input_count])
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s', the base, has a NaN or an infinity",
				       call->request->base);
	for (size_t i = 0; i < run->input_count; i++) {
		if (run->special[i])
			run->inputs[i]->skipped = "it has a NaN or an infinity";
		run->special[i] = false;
	}
	return choose_inputs(call, err);
}

static int make_pass(struct call *call, enum flmem_run_kind kind, struct flmem_error *err)
{
	struct flmem_run *run = &call->run;
	int rc;

	run->kind = kind;
	rc = flmem_run_pass(run, call->started_us, err);
	call->read_bytes += run->done_bytes - run->resumed_bytes * flmem_run_sources(run);
	return rc;
}

/* Combines all; once more, without those inputs, if some have to be skipped. */
static int combine_all(struct call *call, struct flmem_error *err)
{
	struct flmem_run *run = &call->run;
	int rc = make_pass(call, FLMEM_RUN_COMBINE, err);

	if (rc || !run->found_special)
		return rc;
	memset(run->chunks, 0, run->chunk_count * sizeof(*run->chunks));
	rc = make_pass(call, FLMEM_RUN_SCAN, err);
	if (rc)
		return rc;
	rc = skip_special(call, err);
	if (!rc)
		rc = flmem_part_restart(&call->part, fingerprint(call), err);
	return rc ? rc : make_pass(call, FLMEM_RUN_COMBINE, err);
}

static int finish_output(struct call *call, struct flmem_error *err)
{
	const struct flmem_buf *header = &call->layout.header;
	int rc = 0;

	for (size_t i = 0; i <= call->request->input_count && !rc; i++)
		rc = flmem_input_check(&call->inputs[i], err);
	if (!rc)
		rc = flmem_part_write(&call->part, 0, header->data, header->length, err);
	return rc ? rc : flmem_part_commit(&call->part, err);
}

/* The squares of inputs that were skipped after the measurement are left out. */
static double *take_squares(const struct call *call, size_t measured, const bool *left)
{
	const struct flmem_run *run = &call->run;
	bool pairs = run->combination.algorithm->measures == FLMEM_MEASURE_DISTANCES;
	double *squares =
		calloc(run->input_count, (pairs ? run->input_count : 1) * sizeof(*squares));
	struct flmem_exact_sum *sum = run->sums;

	if (!squares)
		return NULL;
	for (size_t i = 0, x = 0; i < measured; x += !left[i++]) {
		if (!pairs && !left[i])
			squares[x] = flmem_exact_sum_value(sum);
		sum += !pairs;
		for (size_t j = i + 1, y = x + 1; pairs && j < measured; y += !left[j++], sum++)
			if (!left[i] && !left[j])
				squares[x * run->input_count + y] =
					squares[y * run->input_count + x] =
						flmem_exact_sum_value(sum);
	}
	return squares;
}

/* Lets the algorithm decide which inputs it uses, and how much of them. */
static int judge_inputs(struct call *call, size_t measured, const bool *left,
			struct flmem_error *err)
{
	const struct flmem_combination *combination = &call->run.combination;
	size_t count = call->run.input_count;
	FLMEM_AUTO_FREE double *squares = take_squares(call, measured, left);
	FLMEM_AUTO_FREE double *scratch = calloc(2 * count, sizeof(*scratch));

	if (!squares || !scratch)
		return aggregate_nomem(call, err);
	combination->algorithm->judge(combination, squares, call->factors, scratch);
	for (size_t i = 0; i < count; i++) {
		call->run.inputs[i]->factor = call->factors[i];
		if (call->factors[i] == 0)
			call->run.inputs[i]->skipped = combination->algorithm->left_out;
	}
	return take_inputs(call, err);
}

/* The first of two passes. */
static int measure_inputs(struct call *call, struct flmem_error *err)
{
	struct flmem_run *run = &call->run;
	size_t measured = run->input_count;
	FLMEM_AUTO_FREE bool *left = calloc(measured, sizeof(*left));
	int rc;

	run->sums = calloc(flmem_run_measured(run) + 1, sizeof(*run->sums));
	if (!left || !run->sums)
		return aggregate_nomem(call, err);
	rc = make_pass(call, FLMEM_RUN_MEASURE, err);
	for (size_t i = 0; i < measured; i++)
		left[i] = run->special[i];
	if (!rc)
		rc = skip_special(call, err);
	return rc ? rc : judge_inputs(call, measured, left, err);
}

static int write_output(struct call *call, struct flmem_error *err)
{
	uint64_t bytes = call->layout.header.length + flmem_layout_bytes(&call->layout);
	struct flmem_run *run = &call->run;
	int rc = flmem_part_open(&call->part, call->request->output, err);

	if (!rc && run->combination.algorithm->measures)
		rc = measure_inputs(call, err);
	if (!rc)
		rc = flmem_part_prepare(&call->part, bytes, fingerprint(call),
					call->request->resume ? run->chunks : NULL,
					run->chunk_count, err);
	if (rc)
		return rc;
	rc = combine_all(call, err);
	if (!rc)
		rc = finish_output(call, err);
	if (rc) /* a failed read or write may succeed later; other inputs make other chunks */
		call->part.keep = rc == FLMEM_EFAILED;
	return rc;
}

static uint32_t checksum(const struct call *call)
{
	const struct flmem_run *run = &call->run;
	uint64_t bytes = flmem_layout_bytes(&call->layout);
	uint32_t crc = flmem_crc32c(0, call->layout.header.data, call->layout.header.length);

	for (size_t i = 0; i < run->chunk_count; i++) {
		uint64_t rest = bytes - i * run->chunk_bytes;

		crc = flmem_crc32c_join(crc, run->chunks[i].crc32c,
					rest < run->chunk_bytes ? rest : run->chunk_bytes);
	}
	return crc;
}

void flmem_aggregate_result_clear(struct flmem_aggregate_result *result)
{
	for (size_t i = 0; i < result->input_count; i++)
		free(result->inputs[i].path);
	free(result->inputs);
	free(result->output);
	*result = (struct flmem_aggregate_result){0};
}

static void fill_numbers(const struct call *call, struct flmem_aggregate_result *result)
{
	const struct flmem_run *run = &call->run;

	result->algorithm = flmem_algorithm_name(run->combination.algorithm);
	result->tensors = call->layout.list.count;
	result->output_bytes = call->layout.header.length + flmem_layout_bytes(&call->layout);
	result->read_bytes = call->read_bytes;
	result->resumed_bytes = run->resumed_bytes;
	result->took_us = flmem_clock_us() - call->started_us;
	result->peak_anon_bytes = run->peak_anon_bytes
					  ? FLMEM_KNOWN(run->peak_anon_bytes)
					  : FLMEM_UNKNOWN("/proc/self/statm is not readable");
	result->chunk_bytes = run->chunk_bytes;
	result->threads = run->threads;
	result->kernels = run->combination.kernels->name;
	result->crc32c = checksum(call);
}

static int fill_result(const struct call *call, struct flmem_aggregate_result *result,
		       struct flmem_error *err)
{
	size_t count = call->request->input_count, active = 0;

	fill_numbers(call, result);
	result->output = strdup(call->request->output);
	result->inputs = calloc(count, sizeof(*result->inputs));
	if (!result->output || !result->inputs)
		return aggregate_nomem(call, err);
	for (size_t i = 0; i < count; i++) {
		struct flmem_aggregate_input *input = &result->inputs[result->input_count++];

		input->path = strdup(call->inputs[i].path);
		input->skipped = call->inputs[i].skipped;
		if (!input->path)
			return aggregate_nomem(call, err);
		if (!input->skipped)
			input->weight = call->weights[active++] / call->run.combination.total;
	}
	return 0;
}

int flmem_aggregate(const struct flmem_aggregate_request *request,
		    struct flmem_aggregate_result *ret_result, struct flmem_error *err)
{
	AUTO_CALL struct call call = {
		.request = request,
		.started_us = flmem_clock_us(),
		.part = FLMEM_PART_INIT,
		.run = {.request = request},
	};
	struct flmem_aggregate_result result = {0};
	int rc = check_request(request, err);

	flmem_buf_init(&call.layout.header);
	pthread_mutex_init(&call.run.lock, NULL);
	pthread_cond_init(&call.run.changed, NULL);
	if (!rc)
		rc = find_algorithm(&call, err);
	if (!rc)
		rc = open_inputs(&call, err);
	if (!rc)
		rc = make_run(&call, err);
	if (!rc)
		rc = check_types(&call, err);
	if (!rc)
		rc = choose_inputs(&call, err);
	if (!rc)
		rc = write_output(&call, err);
	if (rc)
		return rc;
	rc = fill_result(&call, &result, err);
	if (rc)
		flmem_aggregate_result_clear(&result);
	else
		*ret_result = result;
	return rc;
}
