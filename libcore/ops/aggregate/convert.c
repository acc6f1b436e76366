/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/convert.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/aggregate.h>
#include <flmem/text.h>

#include "aggregate/kernels.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/url.h"
#include "net/http.h"
#include "ops/aggregate/output.h"

#define BLOCK_ELEMENTS	  UINT64_C(32768)
#define ELEMENT_BYTES_MAX 8U
#define BLOCK_BYTES	  (BLOCK_ELEMENTS * ELEMENT_BYTES_MAX)
#define TICK_US		  UINT64_C(200000)

struct conversion_run {
	const struct flmem_convert_request *request;
	struct flmem_input input;
	struct flmem_http_access access;
	struct flmem_layout layout;
	struct flmem_part_file part;
	struct flmem_output output;
	const struct flmem_dtype *
		*before; /* types in the input, by the tensors' places in the list */
	char *from, *to;
	double *rows[2];
	uint32_t crc32c;
	uint64_t converted;
	uint64_t started_us, told_us; /* the last call of the progress */
	uint64_t done_bytes, total_bytes;
};

static void clear_conversion(struct conversion_run *run)
{
	flmem_inputs_clear(&run->input, 1);
	flmem_layout_clear(&run->layout);
	flmem_output_clear(&run->output);
	free(run->before);
	free(run->from);
	free(run->to);
	free(run->rows[0]);
	free(run->rows[1]);
}

static int conversion_nomem(const struct conversion_run *run, struct flmem_error *err)
{
	return flmem_error_nomem(err, "cannot convert '%s'", run->input.path);
}

static bool is_real_dtype(const struct flmem_dtype *dtype)
{
	enum flmem_element element = flmem_element_find(dtype->stored);

	return element != FLMEM_ELEMENTS_COUNT && flmem_element_is_real(element);
}

static int find_type(const char *name, const struct flmem_dtype **ret_dtype,
		     struct flmem_error *err)
{
	*ret_dtype = name ? flmem_dtype_find(name) : NULL;
	if (!name || (*ret_dtype && is_real_dtype(*ret_dtype) && (*ret_dtype)->bits >= 16))
		return 0;
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "invalid type '%.60s'; choose from F16, BF16, F32, F64", name);
}

/* The tensors with their new types and sizes; their places stay those in the input. */
static int change_types(struct conversion_run *run, struct flmem_tensor_list *list,
			const struct flmem_dtype *dtype, struct flmem_error *err)
{
	run->before = calloc(list->count + 1, sizeof(const struct flmem_dtype *));
	if (!run->before)
		return conversion_nomem(run, err);
	for (size_t i = 0; i < list->count; i++) {
		struct flmem_tensor *tensor = &list->tensors[i];

		run->before[i] = tensor->dtype;
		if (!dtype || !is_real_dtype(tensor->dtype) || tensor->dtype == dtype)
			continue;
		if (__builtin_mul_overflow(tensor->bytes / (tensor->dtype->bits / 8),
					   dtype->bits / 8, &tensor->bytes) ||
		    tensor->bytes > INT64_MAX / (list->count + 1))
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "'%s' exceeds the memory of any machine as %s",
					       run->input.path, dtype->stored);
		tensor->dtype = dtype;
		run->converted++;
	}
	return 0;
}

/* False to stop. */
static bool tell_progress(struct conversion_run *run)
{
	const struct flmem_convert_request *request = run->request;
	const struct flmem_aggregate_progress progress = {
		.done_bytes = run->done_bytes,
		.total_bytes = run->total_bytes,
		.elapsed_us = flmem_clock_us() - run->started_us,
	};

	return !request->progress || request->progress(request->context, &progress);
}

/* While a server is waited for. */
static bool has_ended(void *context)
{
	return !tell_progress(context);
}

static int open_conversion(struct conversion_run *run, struct flmem_error *err)
{
	FLMEM_AUTO_TENSOR_LIST struct flmem_tensor_list list = {0};
	const struct flmem_dtype *dtype;
	int rc = find_type(run->request->dtype, &dtype, err);

	run->access = (struct flmem_http_access){
		.options = run->request->http,
		.ended = has_ended,
		.context = run,
	};
	run->input.access = &run->access;
	run->input.key = run->request->key;
	if (!rc)
		rc = flmem_input_load(run->request->input, &run->input, &list, err);
	if (!rc)
		rc = change_types(run, &list, dtype, err);
	if (!rc)
		rc = flmem_layout_init(&run->layout, &list, run->input.path, err);
	if (rc)
		return rc;
	run->from = malloc(BLOCK_BYTES);
	run->to = malloc(BLOCK_BYTES);
	run->rows[0] = calloc(BLOCK_ELEMENTS, sizeof(double));
	run->rows[1] = calloc(BLOCK_ELEMENTS, sizeof(double));
	if (!run->from || !run->to || !run->rows[0] || !run->rows[1])
		return conversion_nomem(run, err);
	return 0;
}

/* A checkpoint is a copy of the input, with the types of its pickle. */
static int plan_conversion(struct conversion_run *run, struct flmem_error *err)
{
	struct flmem_output *output = &run->output;
	int rc;

	output->path = run->request->output;
	output->part = &run->part;
	output->shard_bytes = run->request->shard_bytes;
	output->untied = true;
	if (flmem_url_is(output->path))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "addresses are read only; name a file as output");
	if (strcmp(output->path, FLMEM_AGGREGATE_VERIFY) == 0)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' checks means, and a conversion has none; name a file",
				       output->path);
	if (run->converted && flmem_output_format(output->path) == FLMEM_FORMAT_CHECKPOINT)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' would be a copy of '%s', whose pickle has the types; "
				       "name a .safetensors file",
				       output->path, run->input.path);
	rc = flmem_output_plan(output, &run->layout, &run->input, 1, err);
	if (!rc)
		rc = flmem_output_open(output, err);
	return rc ? rc : flmem_output_prepare(output, 0, NULL, 0, err);
}

static int report_infinite(const struct conversion_run *run, const struct flmem_tensor *tensor,
			   uint64_t element, struct flmem_error *err)
{
	char shown[100];

	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "tensor '%s' of '%s' has a number that is too large for %s: element "
			       "%llu",
			       flmem_text_escape(tensor->name, shown, sizeof(shown)),
			       run->input.path, tensor->dtype->stored, (unsigned long long)element);
}

/* Rounds `count` elements from `from` to `to`. `first` is for messages. */
static int round_block(const struct conversion_run *run, const struct flmem_tensor *tensor,
		       const struct flmem_dtype *before, uint64_t first, size_t count,
		       struct flmem_error *err)
{
	const struct flmem_kernels *kernels = flmem_kernels_best();
	enum flmem_element old = flmem_element_find(before->stored);
	enum flmem_element new = flmem_element_find(tensor->dtype->stored);

	kernels->load[old](run->from, run->rows[0], count);
	kernels->store[new](run->rows[0], run->to, count);
	kernels->load[new](run->to, run->rows[1], count);
	if (kernels->finite(run->rows[1], count))
		return 0;
	for (size_t i = 0; i < count; i++)
		if (isfinite(run->rows[0][i]) && !isfinite(run->rows[1][i]))
			return report_infinite(run, tensor, first + i, err);
	return 0;
}

static int check_progress(struct conversion_run *run, uint64_t bytes, struct flmem_error *err)
{
	uint64_t now = flmem_clock_us();

	run->done_bytes += bytes;
	if (now - run->told_us < TICK_US)
		return 0;
	run->told_us = now;
	if (tell_progress(run))
		return 0;
	return flmem_error_set(err, FLMEM_EFAILED, 0, "stopped before '%s' was complete",
			       run->request->output);
}

static int convert_tensor(struct conversion_run *run, size_t index, struct flmem_error *err)
{
	const struct flmem_tensor *tensor = run->layout.order[index];
	const struct flmem_dtype *before = run->before[tensor - run->layout.list.tensors];
	const struct flmem_input_file *file = &run->input.files[tensor->file];
	bool same = before == tensor->dtype;
	/* Types that stay may have elements that are no whole bytes. */
	uint64_t old = same ? 1 : before->bits / 8, new = same ? 1 : tensor->dtype->bits / 8;
	uint64_t elements = tensor->bytes / new, begin = run->layout.begins[index];
	int rc = 0;

	flmem_input_file_expect(file, tensor->offset, elements * old);
	for (uint64_t at = 0, count; at < elements && !rc; at += count) {
		uint64_t most = same ? BLOCK_BYTES : BLOCK_ELEMENTS;
		const char *bytes = same ? run->from : run->to;

		count = elements - at < most ? elements - at : most;
		rc = flmem_input_file_read(file, tensor->offset + at * old, count * old, run->from,
					   err);
		if (!rc && !same)
			rc = round_block(run, tensor, before, at, (size_t)count, err);
		if (!rc)
			rc = flmem_output_write(&run->output, begin + at * new,
						begin + (at + count) * new, bytes, err);
		run->crc32c = flmem_crc32c(run->crc32c, bytes, (size_t)(count * new));
		if (!rc)
			rc = check_progress(run, count * new, err);
	}
	return rc;
}

static int convert_all(struct conversion_run *run, struct flmem_error *err)
{
	const struct flmem_buf *header = &run->layout.header;
	int rc = 0;

	run->crc32c = flmem_crc32c(0, header->data, header->length);
	run->total_bytes = flmem_layout_bytes(&run->layout);
	for (size_t i = 0; i < run->layout.list.count && !rc; i++)
		rc = convert_tensor(run, i, err);
	if (!rc)
		rc = flmem_output_finish(&run->output, err);
	if (!rc)
		rc = flmem_input_check(&run->input, err);
	return rc ? rc : flmem_output_commit(&run->output, err);
}

int flmem_convert(const struct flmem_convert_request *request,
		  struct flmem_conversion *ret_conversion, struct flmem_error *err)
{
	FLMEM_AUTO(clear_conversion)
	struct conversion_run run = {.request = request, .part = FLMEM_PART_FILE_INIT};
	int rc;

	run.started_us = run.told_us = flmem_clock_us();

	flmem_buf_init(&run.layout.header);
	flmem_buf_init(&run.output.text);
	rc = open_conversion(&run, err);
	if (!rc)
		rc = plan_conversion(&run, err);
	if (!rc)
		rc = convert_all(&run, err);
	if (rc)
		return rc;
	*ret_conversion = (struct flmem_conversion){
		.tensors = run.layout.list.count,
		.converted = run.converted,
		.output_bytes = run.output.bytes,
		.took_us = flmem_clock_us() - run.started_us,
		.crc32c = run.output.format == FLMEM_FORMAT_SAFETENSORS ? run.crc32c
									: run.output.crc32c,
	};
	return 0;
}
