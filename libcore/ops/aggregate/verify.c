/* SPDX-License-Identifier: Apache-2.0 */
/* The output that is not written but compared with exact means. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/aggregate.h>
#include <flmem/text.h>

#include "aggregate/exact_mean.h"
#include "base/cleanup.h"
#include "ops/aggregate/generated.h"

static int verify_input(const struct flmem_input *input, double *total, struct flmem_error *err)
{
	if (!input->files[0].generated)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is a file, and '%s' checks means of generated models "
				       "only; name another output",
				       input->path, FLMEM_AGGREGATE_VERIFY);
	*total += input->weight;
	if (input->weight == floor(input->weight) && *total <= (double)FLMEM_EXACT_MEAN_WEIGHTS)
		return 0;
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "'%s' checks means with whole weights up to a sum of %lld only",
			       FLMEM_AGGREGATE_VERIFY, (long long)FLMEM_EXACT_MEAN_WEIGHTS);
}

int flmem_verify_prepare(const struct flmem_run *run, struct flmem_error *err)
{
	double total = 0;
	int rc = 0;

	if (run->combination.algorithm != &flmem_fedavg)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' checks means, not '%s'",
				       FLMEM_AGGREGATE_VERIFY,
				       flmem_algorithm_name(run->combination.algorithm));
	if (run->request->resume)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' writes nothing, so there is nothing to resume",
				       FLMEM_AGGREGATE_VERIFY);
	for (size_t i = 0; i < run->input_count && !rc; i++)
		rc = verify_input(run->inputs[i], &total, err);
	return rc;
}

static int report_wrong(const struct flmem_run *run, size_t tensor, uint64_t element,
			struct flmem_error *err)
{
	char shown[100];

	flmem_text_escape(run->layout->order[tensor]->name, shown, sizeof(shown));
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "tensor '%s', element %llu: the average is not the exact mean of "
			       "the inputs",
			       shown, (unsigned long long)element);
}

/* Integers are equal in all inputs, so their mean is any of them. */
static int check_integers(const struct flmem_run *run, size_t tensor, uint64_t begin, uint64_t end,
			  const char *values, struct flmem_error *err)
{
	const struct flmem_input_file *file = run->inputs[0]->files;
	size_t size = flmem_element_bytes((enum flmem_element)run->layout->elements[tensor]);
	char expected[8];

	for (uint64_t at = begin; at < end; at += size) {
		flmem_generated_read(file->generated, run->layout->header.length + at, size,
				     expected);
		if (memcmp(expected, values + (at - begin), size) != 0)
			return report_wrong(run, tensor, (at - run->layout->begins[tensor]) / size,
					    err);
	}
	return 0;
}

/* Generated models of one shape have one layout. */
static int check_tensor(struct flmem_run *run, struct flmem_exact_mean *mean, size_t tensor,
			const uint64_t range[2], const char *values, struct flmem_error *err)
{
	size_t size = flmem_element_bytes((enum flmem_element)run->layout->elements[tensor]);
	uint64_t first = (range[0] - run->layout->begins[tensor]) / size;
	uint64_t count = (range[1] - range[0]) / size, right;
	const struct flmem_generator **generators =
		(const struct flmem_generator **)mean->generators;

	run->verified += count;
	mean->element = (enum flmem_element)run->layout->elements[tensor];
	if (!flmem_element_is_real(mean->element))
		return check_integers(run, tensor, range[0], range[1], values, err);
	for (size_t i = 0; i < mean->inputs; i++)
		generators[i] = &run->inputs[i]->files[0].generated->generators[tensor];
	right = flmem_exact_mean_compare(mean, first, count, values);
	return right < count ? report_wrong(run, tensor, first + right, err) : 0;
}

int flmem_verify_block(struct flmem_run *run, uint64_t begin, uint64_t end, const char *values,
		       struct flmem_error *err)
{
	const struct flmem_layout *layout = run->layout;
	size_t count = run->input_count;
	FLMEM_AUTO_FREE const struct flmem_generator **generators =
		calloc(count, sizeof(*generators));
	FLMEM_AUTO_FREE int64_t *weights = calloc(count, sizeof(*weights));
	struct flmem_exact_mean mean = {generators, weights, count, FLMEM_ELEMENT_F32};
	int rc = 0;

	if (!generators || !weights)
		return flmem_error_nomem(err, "cannot check the average");
	for (size_t i = 0; i < count; i++)
		weights[i] = (int64_t)run->inputs[i]->weight;
	for (size_t t = flmem_layout_find(layout, begin); begin < end && !rc; t++) {
		uint64_t range[2] = {begin, layout->begins[t + 1]};

		range[1] = range[1] < end ? range[1] : end;
		if (range[1] <= begin)
			continue;
		rc = check_tensor(run, &mean, t, range, values, err);
		values += range[1] - begin;
		begin = range[1];
	}
	return rc;
}
