/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the output, which is not written, with exact means. */
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

/* A block of the mean, and of the inputs if they are streamed. */
struct verified_block {
	struct flmem_run *run;
	uint64_t begin; /* first byte of the block */
	char *const *inputs;
	const char *values;
	struct flmem_exact_mean mean;
	const struct flmem_generator **generators;
	const void **found;
};

/* Reports a wrong element of `input`; the number of inputs stands for the mean. */
static int report_wrong(const struct verified_block *v, size_t tensor, uint64_t element,
			size_t input, struct flmem_error *err)
{
	const struct flmem_run *run = v->run;
	char shown[100];

	flmem_text_escape(run->layout->order[tensor]->name, shown, sizeof(shown));
	if (input < run->input_count)
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "tensor '%s', element %llu: the update differs from the "
				       "value of '%s'",
				       shown, (unsigned long long)element,
				       run->inputs[input]->path);
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "tensor '%s', element %llu: the average is not the exact mean of "
			       "the inputs",
			       shown, (unsigned long long)element);
}

/* Checks integers: they are equal in all inputs, so their mean is any of them. */
static int check_integers(const struct verified_block *v, size_t tensor, uint64_t begin,
			  uint64_t end, struct flmem_error *err)
{
	const struct flmem_run *run = v->run;
	const struct flmem_layout *layout = run->layout;
	size_t size = flmem_element_bytes((enum flmem_element)layout->elements[tensor]);
	size_t sources = v->inputs ? run->input_count : 0;

	for (size_t i = 0; i <= sources; i++) {
		size_t input = i < sources ? i : 0;
		const char *values = i < sources ? v->inputs[i] : v->values;
		uint64_t same = flmem_generated_compare(run->inputs[input]->files->generated,
							layout->header.length + begin, end - begin,
							values + (begin - v->begin));

		if (same < end - begin)
			return report_wrong(v, tensor,
					    (begin + same - layout->begins[tensor]) / size,
					    i < sources ? i : run->input_count, err);
	}
	return 0;
}

/* Checks a range of one tensor. Generated models of one shape have one layout. */
static int check_tensor(struct verified_block *v, size_t tensor, uint64_t begin, uint64_t end,
			struct flmem_error *err)
{
	struct flmem_run *run = v->run;
	struct flmem_exact_mean *mean = &v->mean;
	size_t size = flmem_element_bytes((enum flmem_element)run->layout->elements[tensor]);
	uint64_t first = (begin - run->layout->begins[tensor]) / size;
	uint64_t count = (end - begin) / size, right;

	run->verified += count;
	mean->element = (enum flmem_element)run->layout->elements[tensor];
	if (!flmem_element_is_real(mean->element))
		return check_integers(v, tensor, begin, end, err);
	for (size_t i = 0; i < mean->inputs; i++) {
		v->generators[i] = &run->inputs[i]->files[0].generated->generators[tensor];
		if (v->inputs)
			v->found[i] = v->inputs[i] + (begin - v->begin);
	}
	right = flmem_exact_mean_compare(mean, first, count, v->values + (begin - v->begin));
	return right < count ? report_wrong(v, tensor, first + right, mean->wrong_input, err) : 0;
}

int flmem_verify_block(struct flmem_run *run, uint64_t begin, uint64_t end, char *const *inputs,
		       const char *values, struct flmem_error *err)
{
	const struct flmem_layout *layout = run->layout;
	bool streamed = run->inputs[0]->files[0].stream;
	size_t count = run->input_count;
	FLMEM_AUTO_FREE const struct flmem_generator **generators =
		calloc(count, sizeof(*generators));
	FLMEM_AUTO_FREE const void **found = calloc(count, sizeof(*found));
	FLMEM_AUTO_FREE int64_t *weights = calloc(count, sizeof(*weights));
	struct verified_block v = {
		.run = run,
		.begin = begin,
		.inputs = streamed ? inputs : NULL,
		.values = values,
		.mean = {generators, weights, count, FLMEM_ELEMENT_F32, streamed ? found : NULL, 0},
		.generators = generators,
		.found = found,
	};
	int rc = 0;

	if (!generators || !found || !weights)
		return flmem_error_nomem(err, "cannot check the average");
	for (size_t i = 0; i < count; i++)
		weights[i] = (int64_t)run->inputs[i]->weight;
	for (size_t t = flmem_layout_find(layout, begin); begin < end && !rc; t++) {
		uint64_t to = layout->begins[t + 1] < end ? layout->begins[t + 1] : end;

		if (to <= begin)
			continue;
		rc = check_tensor(&v, t, begin, to, err);
		begin = to;
	}
	return rc;
}
