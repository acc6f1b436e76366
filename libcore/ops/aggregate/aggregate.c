/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/aggregate.h>

#include <stdlib.h>
#include <string.h>

#include <flmem/text.h>

#include "base/clock.h"
#include "base/files/file_place.h"
#include "base/text/url.h"
#include "ops/aggregate/call.h"
#include "ops/aggregate/generated.h"
#include "ops/aggregate/shared_call.h"
#include "ops/aggregate/threads.h"

#define ALGORITHM_WORD(identifier, name, meaning) ", " name

#define CHUNK_STEP    (UINT64_C(64) << 10)
#define CHUNK_LARGEST (UINT64_C(1) << 30)
#define INPUTS_MAX    10000U
#define DISTANCES_MAX 256U /* limit of inputs compared in pairs, which take 18 MB per thread */
/*
 * Bytes that the blocks of a thread's inputs take: about a second-level cache, which matters less
 * than long writes, for which the kernel takes larger folios.
 */
#define BLOCKS_BYTES   (UINT64_C(2) << 20)
#define BLOCK_LARGEST  (UINT64_C(512) << 10)
#define BLOCK_SMALLEST (UINT64_C(64) << 10)

static void clear_call(struct flmem_aggregate_call *call)
{
	struct flmem_run *run = &call->run;

	if (call->inputs)
		flmem_inputs_clear(call->inputs, call->request->input_count + 1);
	free(call->inputs);
	flmem_layout_clear(&call->layout);
	flmem_state_clear(&call->state);
	flmem_output_clear(&call->output);
	free(call->reports);
	free(call->weights);
	free(call->factors);
	free(run->sums);
	free(run->inputs);
	free(run->chunks);
	free(run->cached);
	free(run->non_finite);
	flmem_run_locks_clear(run);
}

#define AUTO_CALL FLMEM_AUTO(clear_call)

static int check_request(const struct flmem_aggregate_request *request, struct flmem_error *err)
{
	if (!request->output || !*request->output)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "no output is named");
	if (flmem_url_is(request->output) || (request->state && flmem_url_is(request->state)))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "addresses are read only; name a file as %s",
				       flmem_url_is(request->output) ? "output" : "state");
	if (!request->input_count)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "no input is named");
	if (request->input_count > INPUTS_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "%zu inputs; at most %u are averaged at once",
				       request->input_count, INPUTS_MAX);
	if (request->chunk_bytes > CHUNK_LARGEST)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "--chunk accepts at most 1 GiB");
	return flmem_threads_check(request->threads, err) ?: flmem_shared_call_check(request, err);
}

static void size_run(struct flmem_aggregate_call *call)
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
	run->threads = flmem_threads_count(request->threads);
	flmem_run_limit(run, 0, bytes);
}

/* Called while flmem waits for servers. Returns true if the caller or the run wants to stop. */
static bool is_run_cancelled(void *context)
{
	const struct flmem_aggregate_call *call = context;
	const struct flmem_aggregate_request *request = call->request;
	const struct flmem_aggregate_progress progress = {
		.done_bytes = call->run.earlier_bytes,
		.total_bytes = call->run.earlier_bytes,
		.elapsed_us = flmem_clock_us() - call->started_us,
	};

	if (call->reading)
		return call->run.stop;
	return request->progress && !request->progress(request->context, &progress);
}

static bool is_same_file(const char *one, const char *other)
{
	struct stat a, b;

	return stat(one, &a) == 0 && stat(other, &b) == 0 && flmem_file_is_same(&a, &b);
}

static bool is_name_or_part(const char *name, const char *other)
{
	static const char *const suffixes[] = {"", ".part", FLMEM_PART_FILE_JOURNAL_SUFFIX};
	size_t length = strlen(other);

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(suffixes); i++)
		if (strncmp(name, other, length) == 0 && strcmp(name + length, suffixes[i]) == 0)
			return true;
	return false;
}

/*
 * Returns true if writing one file would overwrite the other: they are the same file, or one is
 * FILE.part of the other in the same directory, whatever the paths are.
 */
static bool is_written_with(const char *one, const char *other)
{
	FLMEM_AUTO_FILE_PLACE struct flmem_file_place a = FLMEM_FILE_PLACE_INIT;
	FLMEM_AUTO_FILE_PLACE struct flmem_file_place b = FLMEM_FILE_PLACE_INIT;
	struct stat x, y;

	if (is_same_file(one, other))
		return true;
	return !flmem_file_place_open(one, &a) && !flmem_file_place_open(other, &b) &&
	       fstat(a.directory, &x) == 0 && fstat(b.directory, &y) == 0 &&
	       flmem_file_is_same(&x, &y) && is_name_or_part(a.name, b.name);
}

/* A round that is interrupted between its two renames is repeated with the same inputs. */
static int check_state_names(const struct flmem_aggregate_request *request, struct flmem_error *err)
{
	if (is_written_with(request->state, request->output) ||
	    is_written_with(request->output, request->state))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is both state and output; name two files",
				       request->state);
	for (size_t i = 0; i < request->input_count; i++)
		if (is_same_file(request->inputs[i], request->output))
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "'%s' is both input and output, so a round that is "
					       "interrupted could not be repeated; name another "
					       "output",
					       request->output);
	return 0;
}

/* The first round starts with the base, any other one with the state. */
static int open_state(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	const struct flmem_aggregate_request *request = call->request;
	struct flmem_combination *combination = &call->run.combination;
	const struct flmem_state_round round = {
		.model = call->inputs[0].path,
		.output = request->output,
		.algorithm = flmem_algorithm_name(combination->algorithm),
		.request = flmem_aggregate_call_request_print(call),
		.resume = request->resume,
	};
	int rc = check_state_names(request, err);

	if (!rc)
		rc = flmem_state_open(&call->state, request->state, combination->algorithm->slots,
				      &call->layout, &round, err);
	if (rc)
		return rc;
	call->run.state = &call->state;
	combination->first_round = !call->state.exists;
	combination->has_base = combination->first_round;
	if (combination->first_round && !request->base)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' does not exist: name the model that the clients "
				       "started from with --base",
				       request->state);
	if (combination->first_round && is_same_file(request->base, request->output))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is both base and output, so a first round that is "
				       "interrupted could not be repeated; name another output",
				       request->output);
	return 0;
}

static int attach_streams(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	for (size_t i = 0; call->streams && i < call->request->input_count; i++) {
		if (call->inputs[i].offsets)
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "'%s' has its tensors in another order",
					       call->inputs[i].path);
		call->inputs[i].files[0].stream = &call->streams[i];
		call->inputs[i].data_offset = call->streams[i].data_offset;
	}
	return 0;
}

static int open_inputs(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	const struct flmem_aggregate_request *request = call->request;
	size_t count = request->input_count;
	int rc;

	call->inputs = calloc(count + 1, sizeof(*call->inputs));
	call->weights = calloc(count, sizeof(*call->weights));
	call->factors = calloc(count, sizeof(*call->factors));
	if (!call->inputs || !call->weights || !call->factors)
		return flmem_aggregate_call_nomem(call, err);
	for (size_t i = 0; i < count; i++) {
		call->inputs[i].weight = request->weights ? request->weights[i] : 1;
		call->weights[i] = call->inputs[i].weight;
	}
	for (size_t i = 0; i <= count; i++) {
		call->inputs[i].key = request->key;
		call->inputs[i].access = &call->access;
	}
	rc = flmem_weights_scale(call->weights, count, &call->run.combination.total, err);
	if (!rc)
		rc = flmem_inputs_open(request->inputs, count, call->inputs, &call->layout, err);
	if (!rc)
		rc = attach_streams(call, err);
	if (!rc && request->state)
		rc = open_state(call, err);
	if (!rc && call->run.combination.has_base)
		rc = flmem_input_open(request->base, call->inputs[0].path, &call->layout,
				      &call->inputs[count], err);
	for (size_t i = 0; i < count && !rc; i++)
		if (call->inputs[i].weight == 0)
			call->inputs[i].skipped = "its weight is 0";
	return rc;
}

/* Refuses parameters of other algorithms, which would be ignored. */
static int check_parameters(const struct flmem_aggregate_request *request,
			    const struct flmem_algorithm *algorithm, struct flmem_error *err)
{
	const struct {
		bool given, used;
		const char *why;
	} rows[] = {
		{request->weights, algorithm->weighted,
		 "does not use weights: every input counts the same"},
		{request->trim != 0, algorithm->trims, "trims nothing; --trim is for trimmed-mean"},
		{request->base, algorithm->takes_base, "does not use a base"},
		{request->clip_norm != 0, algorithm->clips,
		 "clips nothing; --clip-norm is for norm-clipped-mean"},
		{request->hostile, algorithm->measures == FLMEM_MEASURE_DISTANCES,
		 "does not use the number of hostile inputs"},
		{request->keep, algorithm->keeps, "does not use the number of inputs to keep"},
		{request->state, algorithm->slots,
		 "does not keep a state; --state is for "
		 "fedavgm, fedadam, fedyogi and fedadagrad"},
		{request->server_rate != 0 || request->beta1, algorithm->slots,
		 "does not use a rate or beta1"},
		{request->beta2, algorithm->beta2 > 0, "does not use beta2"},
		{request->tau != 0, algorithm->slots > FLMEM_SLOT_VARIANCE, "does not use tau"},
		{algorithm->slots && !request->state, false,
		 "keeps a state from round to round; name its file with --state"},
		{request->nan == FLMEM_NAN_PROPAGATE, !algorithm->slots,
		 "would keep a NaN in its state for all rounds; use --nan skip-client"},
		{request->nan == FLMEM_NAN_PROPAGATE, !algorithm->measures,
		 "measures the inputs, which is not possible with NaN; use --nan skip-client"},
	};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		if (rows[i].given && !rows[i].used)
			return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' %s",
					       flmem_algorithm_name(algorithm), rows[i].why);
	if (!(request->clip_norm >= 0))
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "invalid norm %g for --clip-norm",
				       request->clip_norm);
	if (algorithm->measures == FLMEM_MEASURE_DISTANCES && request->input_count > DISTANCES_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "%zu inputs; '%s' compares at most %u",
				       request->input_count, flmem_algorithm_name(algorithm),
				       DISTANCES_MAX);
	return 0;
}

static int find_algorithm(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	const struct flmem_aggregate_request *request = call->request;
	const char *name = request->algorithm ?: "fedavg";
	struct flmem_combination *combination = &call->run.combination;

	combination->algorithm = flmem_algorithm_find(name);
	if (!combination->algorithm)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "unknown algorithm '%.60s'; choose from %s", name,
				       &(FLMEM_ALGORITHMS(ALGORITHM_WORD))[2]);
	combination->trim = request->trim;
	combination->hostile = request->hostile;
	combination->keep = request->keep;
	combination->clip_norm = request->clip_norm;
	combination->has_base = request->base && !combination->algorithm->slots;
	combination->rate = request->server_rate;
	combination->beta1 = request->beta1 ? *request->beta1 : combination->algorithm->beta1;
	combination->beta2 = request->beta2 ? *request->beta2 : combination->algorithm->beta2;
	combination->tau = request->tau;
	combination->kernels = flmem_kernels_best();
	return check_parameters(request, combination->algorithm, err);
}

static int make_run(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	struct flmem_run *run = &call->run;
	size_t count = call->request->input_count + 1;

	run->layout = &call->layout;
	run->output = &call->output;
	run->passes = run->combination.algorithm->measures ? 2 : 1;
	size_run(call);
	run->inputs = calloc(count, sizeof(*run->inputs));
	run->chunks = calloc(run->chunk_count + 1, sizeof(*run->chunks));
	run->cached = calloc(FLMEM_RUN_AHEAD * count, sizeof(*run->cached));
	run->non_finite = calloc(count, sizeof(*run->non_finite));
	call->state.chunks = calloc(run->chunk_count + 1, sizeof(*call->state.chunks));
	if (!call->state.chunks || !run->inputs || !run->chunks || !run->cached || !run->non_finite)
		return flmem_aggregate_call_nomem(call, err);
	return 0;
}

/* Masks of secure aggregation cancel in a sum only, and only if nothing is rounded. */
static int check_types(const struct flmem_aggregate_call *call, struct flmem_error *err)
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

/* Starts output and state over: their journals are of a call with other inputs. */
static int restart_parts(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	uint64_t fingerprint = flmem_aggregate_call_fingerprint(call);
	size_t bytes = call->run.chunk_count * sizeof(*call->run.chunks);
	int rc = flmem_part_file_restart(&call->part, fingerprint, err);

	memset(call->run.chunks, 0, bytes);
	memset(call->state.chunks, 0, bytes);
	if (!rc && call->run.state)
		rc = flmem_part_file_restart(&call->state.part, fingerprint, err);
	return rc;
}

/* Combines all inputs. If some must be skipped for a NaN, the pass is repeated without them. */
static int combine_all(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	int rc = flmem_aggregate_call_pass(call, FLMEM_RUN_COMBINE, err);

	if (rc || !call->run.found_special)
		return rc;
	rc = flmem_aggregate_call_pass(call, FLMEM_RUN_SCAN, err);
	if (!rc)
		rc = flmem_aggregate_call_skip_special(call, err);
	if (!rc)
		rc = restart_parts(call, err);
	return rc ? rc : flmem_aggregate_call_repeat(call, err);
}

/* Completes the output, then the state: until the state is replaced, the round can be repeated. */
static int finish_output(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	const struct flmem_buf *state = &call->state.layout.header;
	int rc = flmem_output_finish(&call->output, err);

	if (!rc)
		rc = flmem_input_check(&call->state.input, err);
	for (size_t i = 0; i <= call->request->input_count && !rc; i++)
		rc = flmem_input_check(&call->inputs[i], err);
	if (!rc && call->run.state)
		rc = flmem_part_file_write(&call->state.part, 0, state->data, state->length, err);
	if (!rc)
		rc = flmem_output_commit(&call->output, err);
	if (!rc && call->run.state)
		rc = flmem_part_file_commit(&call->state.part, err);
	return rc;
}

static int prepare_state(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	const struct flmem_layout *layout = &call->state.layout;

	return flmem_part_file_prepare(
		&call->state.part, layout->header.length + flmem_layout_bytes(layout),
		flmem_aggregate_call_fingerprint(call),
		call->request->resume ? call->state.chunks : NULL, call->run.chunk_count, err);
}

static int plan_output(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	struct flmem_output *output = &call->output;
	size_t count = call->request->input_count + call->run.combination.has_base;
	int rc;

	output->path = call->request->output;
	output->part = &call->part;
	output->shard_bytes = call->request->shard_bytes;
	output->untied = call->run.state;
	if (!call->layout.list.count)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' contains no tensor, so there is nothing to combine",
				       call->inputs[0].path);
	rc = flmem_output_check_inputs(output->path, call->inputs, call->request->input_count, err);
	return rc ? rc : flmem_output_plan(output, &call->layout, call->inputs, count, err);
}

static int open_parts(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	int rc = flmem_output_open(&call->output, err);

	if (!rc && call->run.state)
		rc = flmem_part_file_open(&call->state.part, call->request->state, err);
	if (!rc && call->run.state)
		rc = flmem_state_check(&call->state, err);
	return rc;
}

static int measure_inputs(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	return call->run.combination.algorithm->measures ? flmem_aggregate_call_measure(call, err)
							 : 0;
}

static int prepare_parts(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	int rc = flmem_output_prepare(&call->output, flmem_aggregate_call_fingerprint(call),
				      call->request->resume ? call->run.chunks : NULL,
				      call->run.chunk_count, err);

	if (!rc && call->run.state)
		rc = prepare_state(call, err);
	return rc;
}

/* Writes this process's range of the output; all processes go through the same steps. */
static int write_shared(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	bool first = call->ranks.rank == 0, written = false;
	int rc = plan_output(call, err);

	if (!rc && first)
		rc = open_parts(call, err);
	rc = flmem_shared_call_agree(call, rc, err);
	if (rc)
		return rc;
	rc = measure_inputs(call, err);
	if (!rc && first)
		rc = prepare_parts(call, err);
	if (!rc && first)
		rc = flmem_shared_call_share(call, err);
	rc = flmem_shared_call_agree(call, rc, err);
	if (rc)
		return rc;
	flmem_shared_call_divide(call, FLMEM_RUN_COMBINE);
	if (!first)
		rc = flmem_shared_call_join(call, err);
	if (!rc)
		rc = flmem_aggregate_call_pass(call, FLMEM_RUN_COMBINE, err);
	rc = flmem_shared_call_collect(call, rc, err);
	if (!rc && first) {
		rc = finish_output(call, err);
		written = !rc;
	}
	rc = flmem_shared_call_agree(call, rc, err);
	if (rc && first && !written) /* the output cannot be resumed: remove it */
		call->part.keep = false;
	return rc;
}

static int write_output(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	int rc;

	call->run.verifies = strcmp(call->request->output, FLMEM_AGGREGATE_VERIFY) == 0;
	if (call->run.verifies) {
		rc = flmem_verify_prepare(&call->run, err);
		return rc ? rc : flmem_aggregate_call_pass(call, FLMEM_RUN_COMBINE, err);
	}
	if (call->ranks.count > 1)
		return write_shared(call, err);
	rc = plan_output(call, err);
	if (!rc)
		rc = open_parts(call, err);
	if (!rc)
		rc = measure_inputs(call, err);
	if (!rc)
		rc = prepare_parts(call, err);
	if (rc)
		return rc;
	rc = combine_all(call, err);
	if (!rc)
		rc = finish_output(call, err);
	if (rc) /* a later call may resume after a failed read or write */
		call->part.keep = call->state.part.keep = rc == FLMEM_EFAILED;
	return rc;
}

int flmem_aggregate(const struct flmem_aggregate_request *request,
		    struct flmem_aggregate_result *ret_result, struct flmem_error *err)
{
	return flmem_aggregate_streamed(request, NULL, ret_result, err);
}

int flmem_aggregate_streamed(const struct flmem_aggregate_request *request,
			     const struct flmem_input_stream *streams,
			     struct flmem_aggregate_result *ret_result, struct flmem_error *err)
{
	AUTO_CALL struct flmem_aggregate_call call = {
		.request = request,
		.streams = streams,
		.started_us = flmem_clock_us(),
		.state = FLMEM_STATE_INIT,
		.part = FLMEM_PART_FILE_INIT,
		.run = {.request = request},
	};
	struct flmem_aggregate_result result = {0};
	int rc = check_request(request, err);

	call.access = (struct flmem_http_access){
		.options = request->http,
		.ended = is_run_cancelled,
		.context = &call,
	};
	flmem_buf_init(&call.layout.header);
	flmem_buf_init(&call.output.text);
	flmem_run_locks_init(&call.run);
	if (!rc)
		rc = find_algorithm(&call, err);
	if (!rc)
		rc = flmem_shared_call_start(&call, err);
	if (rc) /* all processes fail here with the same reason */
		return rc;
	rc = open_inputs(&call, err);
	if (!rc)
		rc = make_run(&call, err);
	if (!rc)
		rc = check_types(&call, err);
	if (!rc)
		rc = flmem_aggregate_call_choose(&call, err);
	if (!rc && call.ranks.count > 1)
		rc = flmem_shared_call_sample(&call, err);
	if (!rc)
		rc = flmem_aggregate_call_name_result(&call, &result, err);
	rc = flmem_shared_call_agree(&call, rc, err);
	if (!rc)
		rc = write_output(&call, err);
	if (rc)
		flmem_aggregate_result_clear(&result);
	else
		*ret_result = flmem_aggregate_call_fill_result(&call, result);
	return rc;
}
