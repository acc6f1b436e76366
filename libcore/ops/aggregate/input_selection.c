/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the inputs that are combined: those not skipped for a NaN or by the algorithm. */
#include <math.h>
#include <stdlib.h>

#include "aggregate/krum_selection.h"
#include "base/cleanup.h"
#include "ops/aggregate/call.h"
#include "ops/aggregate/shared_call.h"

int flmem_aggregate_call_nomem(const struct flmem_aggregate_call *call, struct flmem_error *err)
{
	return flmem_error_nomem(err, "cannot aggregate into '%s'", call->request->output);
}

/* Takes the inputs that are not skipped, with their weights. */
static int take_inputs(struct flmem_aggregate_call *call, struct flmem_error *err)
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
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"no input is left for '%s': each is skipped, '%s' because %s",
			call->request->output, call->inputs[0].path, call->inputs[0].skipped);
	run->combination.inputs = run->input_count;
	run->combination.weights = call->weights;
	run->combination.factors = call->factors;
	return flmem_weights_scale(call->weights, run->input_count, &run->combination.total, err);
}

int flmem_aggregate_call_choose(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	struct flmem_combination *combination = &call->run.combination;
	int rc = take_inputs(call, err);

	/* Reset to the request: the defaults depend on how many inputs are left. */
	combination->hostile = call->request->hostile;
	combination->keep = call->request->keep;
	if (!rc && combination->algorithm->prepare)
		rc = combination->algorithm->prepare(combination, err);
	return rc;
}

int flmem_aggregate_call_skip_special(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	struct flmem_run *run = &call->run;

	if (run->combination.has_base && run->non_finite[run->input_count])
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s', the base, has a NaN or an infinity",
				       call->inputs[call->request->input_count].path);
	for (size_t i = 0; i < run->input_count; i++) {
		if (run->non_finite[i])
			run->inputs[i]->skipped = "it has a NaN or an infinity";
		run->non_finite[i] = false;
	}
	return flmem_aggregate_call_choose(call, err);
}

/*
 * If a file changed meanwhile, a value found in it may have disappeared: then the change is the
 * error to report.
 */
static void name_changed_input(const struct flmem_aggregate_call *call, struct flmem_error *err)
{
	int rc = 0;

	for (size_t i = 0; i <= call->request->input_count && !rc; i++)
		if (call->inputs[i].file_count && flmem_input_has_pages(&call->inputs[i]))
			rc = flmem_input_check(&call->inputs[i], err);
}

int flmem_aggregate_call_pass(struct flmem_aggregate_call *call, enum flmem_run_kind kind,
			      struct flmem_error *err)
{
	struct flmem_run *run = &call->run;
	int rc;

	run->kind = kind;
	call->reading = true;
	rc = flmem_run_pass(run, call->started_us, err);
	call->reading = false;
	call->read_bytes += run->done_bytes - run->resumed_bytes * flmem_run_sources(run);
	call->crc32c = flmem_run_crc32c(run);
	if (rc == FLMEM_EUSAGE)
		name_changed_input(call, err);
	return rc;
}

int flmem_aggregate_call_repeat(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	int rc = flmem_aggregate_call_pass(call, FLMEM_RUN_COMBINE, err);

	if (rc || !call->run.found_special)
		return rc;
	/* The pass ended at a NaN, and no input is left that could be skipped for it. */
	rc = flmem_run_report_special(&call->run, err);
	name_changed_input(call, err);
	return rc;
}

/* Copies the squares without those of inputs that were skipped after the measurement. */
static double *take_squares(const struct flmem_aggregate_call *call, size_t measured,
			    const bool *left)
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

/* Lets the algorithm decide which inputs it uses, and with which weights. */
static int judge_inputs(struct flmem_aggregate_call *call, size_t measured, const bool *left,
			struct flmem_error *err)
{
	const struct flmem_combination *combination = &call->run.combination;
	const struct flmem_algorithm *algorithm = combination->algorithm;
	size_t count = call->run.input_count;
	FLMEM_AUTO_FREE double *squares = take_squares(call, measured, left);
	FLMEM_AUTO_FREE double *scratch = calloc(2 * count, sizeof(*scratch));

	if (!squares || !scratch)
		return flmem_aggregate_call_nomem(call, err);
	if (algorithm->measures == FLMEM_MEASURE_DISTANCES &&
	    !flmem_krum_is_possible(combination, squares, call->factors, scratch))
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"'%s' cannot choose an input for '%s': the distances between "
			"them are infinite",
			flmem_algorithm_name(algorithm), call->request->output);
	algorithm->judge(combination, squares, call->factors, scratch);
	for (size_t i = 0; i < count; i++) {
		bool scaled = algorithm->scaled_out && isfinite(squares[i]);

		call->run.inputs[i]->factor = call->factors[i];
		if (call->factors[i] == 0)
			call->run.inputs[i]->skipped =
				scaled ? algorithm->scaled_out : algorithm->left_out;
	}
	return take_inputs(call, err);
}

int flmem_aggregate_call_measure(struct flmem_aggregate_call *call, struct flmem_error *err)
{
	struct flmem_run *run = &call->run;
	size_t measured = run->input_count;
	FLMEM_AUTO_FREE bool *left = calloc(measured, sizeof(*left));
	int rc;

	flmem_shared_call_divide(call, FLMEM_RUN_MEASURE);
	run->sums = calloc(flmem_run_measured(run) + 1, sizeof(*run->sums));
	rc = run->sums ? flmem_aggregate_call_pass(call, FLMEM_RUN_MEASURE, err)
		       : flmem_aggregate_call_nomem(call, err);
	rc = flmem_shared_call_add_sums(call, rc, err);
	if (rc)
		return rc;
	if (!left)
		return flmem_aggregate_call_nomem(call, err);
	for (size_t i = 0; i < measured; i++)
		left[i] = run->non_finite[i];
	rc = flmem_aggregate_call_skip_special(call, err);
	return rc ? rc : judge_inputs(call, measured, left, err);
}
