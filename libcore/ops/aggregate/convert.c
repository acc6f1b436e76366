/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/convert.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/aggregate.h>
#include <flmem/text.h>

#include "aggregate/kernels.h"
#include "base/bytes/crc32c.h"
#include "base/bytes/fnv.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text/url.h"
#include "net/http.h"
#include "ops/aggregate/output.h"
#include "ops/aggregate/progress_meter.h"

#define BLOCK_ELEMENTS	  UINT64_C(32768)
#define ELEMENT_BYTES_MAX 8U
#define BLOCK_BYTES	  (BLOCK_ELEMENTS * ELEMENT_BYTES_MAX)
/* Size of the chunks of output data that the journal lists; a multiple of every element. */
#define CHUNK_BYTES FLMEM_AGGREGATE_CHUNK_BYTES
#define REPORT_US   UINT64_C(200000)

struct conversion_run {
	const struct flmem_convert_request *request;
	struct flmem_input input;
	struct flmem_http_access access;
	struct flmem_layout layout;
	struct flmem_part_file part;
	struct flmem_output output;
	const struct flmem_dtype *
		*before; /* types in the input, by the position of the tensors in its list */
	char *from, *to;
	double *rows[2];
	struct flmem_journal_chunk *chunks;
	size_t chunk_count;
	/* Number of tensors whose bytes were announced, in the order of the output. */
	size_t announced;
	uint64_t converted, resumed_bytes;
	struct flmem_progress_meter meter;
};

static void clear_conversion(struct conversion_run *run)
{
	flmem_inputs_clear(&run->input, 1);
	flmem_layout_clear(&run->layout);
	flmem_output_clear(&run->output);
	free(run->before);
	free(run->chunks);
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

/*
 * Makes the output's list: the tensors with their new types and sizes, at their positions in the
 * input.
 */
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

static int open_conversion(struct conversion_run *run, struct flmem_error *err)
{
	FLMEM_AUTO_TENSOR_LIST struct flmem_tensor_list list = {0};
	const struct flmem_dtype *dtype;
	int rc = find_type(run->request->dtype, &dtype, err);

	run->access = (struct flmem_http_access){
		.options = run->request->http,
		.ended = flmem_progress_meter_has_ended,
		.context = &run->meter,
	};
	run->input.access = &run->access;
	run->input.key = run->request->key;
	if (!rc)
		rc = flmem_input_load(run->request->input, &run->input, &list, err);
	if (!rc && !list.count)
		rc = flmem_error_set(err, FLMEM_EUSAGE, 0,
				     "'%s' contains no tensor, so there is nothing to convert",
				     run->input.path);
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
	run->meter.total_bytes = flmem_layout_bytes(&run->layout);
	run->chunk_count = (size_t)((run->meter.total_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES);
	run->chunks = calloc(run->chunk_count + 1, sizeof(*run->chunks));
	if (!run->from || !run->to || !run->rows[0] || !run->rows[1] || !run->chunks)
		return conversion_nomem(run, err);
	return 0;
}

/*
 * Returns a hash that is equal for calls whose chunks have the same bytes; the header, which it
 * covers, has names and new types.
 */
static uint64_t conversion_fingerprint(const struct conversion_run *run)
{
	const struct flmem_buf *header = &run->layout.header;
	const char *key = run->request->key;
	const uint64_t numbers[] = {CHUNK_BYTES, run->request->shard_bytes};
	uint64_t hash = flmem_fnv_mix(FLMEM_FNV_START, "convert", sizeof("convert"));

	hash = flmem_fnv_mix(hash, numbers, sizeof(numbers));
	hash = flmem_fnv_mix(hash, header->data, header->length);
	hash = flmem_fnv_mix(hash, key ?: "", key ? strlen(key) + 1 : 0);
	return flmem_input_mix(&run->input, hash);
}

/*
 * Plans the output. A checkpoint is a copy of the input, so its types must be those of the input's
 * pickle.
 */
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
	return rc ? rc
		  : flmem_output_prepare(output, conversion_fingerprint(run),
					 run->request->resume ? run->chunks : NULL,
					 run->chunk_count, err);
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

/*
 * Rounds `count` elements from the buffer `from` to the buffer `to`. `first` is the index of the
 * first element, for messages.
 */
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

/* Converts the part of one tensor that is within bytes [begin, end) of the output. */
static int convert_piece(struct conversion_run *run, size_t index, uint64_t begin, uint64_t end,
			 uint32_t *crc32c, struct flmem_error *err)
{
	const struct flmem_tensor *tensor = run->layout.order[index];
	const struct flmem_dtype *before = run->before[tensor - run->layout.list.tensors];
	const struct flmem_input_file *file = &run->input.files[tensor->file];
	bool same = before == tensor->dtype;
	/* Elements whose type stays may be no whole bytes: they are copied byte by byte. */
	uint64_t old = same ? 1 : before->bits / 8, new = same ? 1 : tensor->dtype->bits / 8;
	uint64_t start = run->layout.begins[index], most = same ? BLOCK_BYTES : BLOCK_ELEMENTS;
	const char *bytes = same ? run->from : run->to;
	uint64_t first = (begin - start) / new, last = (end - start) / new;
	int rc = 0;

	if (run->announced <= index)
		flmem_input_file_expect(file, tensor->offset + first * old,
					(tensor->bytes / new - first) * old);
	run->announced = index + 1;
	for (uint64_t at = first, count; at < last && !rc; at += count) {
		count = last - at < most ? last - at : most;
		rc = flmem_input_file_read(file, tensor->offset + at * old, count * old, run->from,
					   err);
		if (!rc && !same)
			rc = round_block(run, tensor, before, at, (size_t)count, err);
		if (!rc)
			rc = flmem_output_write(&run->output, start + at * new,
						start + (at + count) * new, bytes, err);
		*crc32c = flmem_crc32c(*crc32c, bytes, (size_t)(count * new));
		if (!rc)
			rc = flmem_progress_meter_add(&run->meter, count * new, err);
	}
	return rc;
}

static uint64_t conversion_chunk_end(const struct conversion_run *run, size_t chunk)
{
	uint64_t end = (chunk + 1) * CHUNK_BYTES;

	return end < run->meter.total_bytes ? end : run->meter.total_bytes;
}

static int write_converted(struct conversion_run *run, size_t chunk, struct flmem_error *err)
{
	uint64_t at = chunk * CHUNK_BYTES, end = conversion_chunk_end(run, chunk);
	size_t tensor = flmem_layout_find(&run->layout, at);
	uint32_t crc32c = 0;
	int rc = 0;

	for (; at < end && !rc; tensor++) {
		uint64_t rest = run->layout.begins[tensor + 1];

		rest = rest < end ? rest : end;
		rc = rest > at ? convert_piece(run, tensor, at, rest, &crc32c, err) : 0;
		at = rest;
	}
	if (rc)
		return rc;
	run->chunks[chunk].crc32c = crc32c;
	rc = flmem_journal_append(run->part.journal, chunk, crc32c);
	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot write the journal of '%s'",
				       run->request->output);
	/* Otherwise the disk would start at the flush, when all is converted. */
	flmem_output_push(&run->output, chunk * CHUNK_BYTES, end);
	return 0;
}

/* Returns true if an earlier call wrote the chunk and its bytes in the file are unchanged. */
static bool is_written(struct conversion_run *run, size_t chunk)
{
	uint64_t end = conversion_chunk_end(run, chunk);
	uint32_t crc32c = 0;

	if (!run->chunks[chunk].done)
		return false;
	for (uint64_t at = chunk * CHUNK_BYTES, bytes; at < end; at += bytes) {
		bytes = end - at < BLOCK_BYTES ? end - at : BLOCK_BYTES;
		if (!flmem_output_read(&run->output, at, at + bytes, run->from))
			return false;
		crc32c = flmem_crc32c(crc32c, run->from, (size_t)bytes);
	}
	return crc32c == run->chunks[chunk].crc32c;
}

static int convert_chunk(struct conversion_run *run, size_t chunk, struct flmem_error *err)
{
	uint64_t bytes = conversion_chunk_end(run, chunk) - chunk * CHUNK_BYTES;

	if (!is_written(run, chunk))
		return write_converted(run, chunk, err);
	run->resumed_bytes += bytes;
	run->announced = 0; /* the bytes that follow are not contiguous with the bytes before */
	return flmem_progress_meter_add(&run->meter, bytes, err);
}

static int convert_all(struct conversion_run *run, struct flmem_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < run->chunk_count && !rc; i++)
		rc = convert_chunk(run, i, err);
	if (!rc)
		rc = flmem_output_finish(&run->output, err);
	if (!rc)
		rc = flmem_input_check(&run->input, err);
	if (!rc)
		rc = flmem_output_commit(&run->output, err);
	if (rc) /* a later call may resume after a failed read or write */
		run->part.keep = rc == FLMEM_EFAILED;
	return rc;
}

static uint32_t conversion_crc32c(const struct conversion_run *run)
{
	const struct flmem_buf *header = &run->layout.header;
	uint32_t crc32c;

	if (run->output.format != FLMEM_FORMAT_SAFETENSORS)
		return run->output.crc32c;
	crc32c = flmem_crc32c(0, header->data, header->length);
	for (size_t i = 0; i < run->chunk_count; i++)
		crc32c = flmem_crc32c_join(crc32c, run->chunks[i].crc32c,
					   conversion_chunk_end(run, i) - i * CHUNK_BYTES);
	return crc32c;
}

int flmem_convert(const struct flmem_convert_request *request,
		  struct flmem_conversion *ret_conversion, struct flmem_error *err)
{
	FLMEM_AUTO(clear_conversion)
	struct conversion_run run = {
		.request = request,
		.part = FLMEM_PART_FILE_INIT,
		.meter = {.progress = request->progress,
			  .context = request->context,
			  .path = request->output,
			  .end = "complete; continue with --resume"},
	};
	int rc;

	flmem_progress_meter_start(&run.meter);
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
		.resumed_bytes = run.resumed_bytes,
		.restarted = run.part.restarted,
		.took_us = flmem_clock_us() - run.meter.started_us,
		.crc32c = conversion_crc32c(&run),
	};
	return 0;
}
