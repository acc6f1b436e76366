/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread does with a block, which is bytes [begin, end) of the output's data. */
#include <string.h>

#include <flmem/text.h>

#include "base/bytes/crc32c.h"
#include "ops/aggregate/generated.h"
#include "ops/aggregate/run.h"

/* Chunks and blocks are multiples of this. */
#define UNIT_BYTES (UINT64_C(64) << 10)

struct block {
	struct flmem_run *run;
	struct flmem_run_buffers *buffers;
	uint64_t begin, end;
};

/* Neighbouring tensors of one type, handled as one array of elements. */
struct element_span {
	size_t tensor; /* index of the first tensor */
	uint64_t begin, end;
	enum flmem_element element;
};

static bool next_span(const struct block *block, size_t *tensor, uint64_t at,
		      struct element_span *ret_span)
{
	const struct flmem_layout *layout = block->run->layout;
	size_t t = *tensor;

	if (at >= block->end)
		return false;
	while (layout->begins[t + 1] <= at)
		t++;
	*ret_span = (struct element_span){
		.tensor = t,
		.begin = at,
		.element = (enum flmem_element)layout->elements[t],
	};
	while (layout->begins[t + 1] < block->end &&
	       layout->order[t + 1]->dtype == layout->order[t]->dtype)
		t++;
	ret_span->end = layout->begins[t + 1] < block->end ? layout->begins[t + 1] : block->end;
	*tensor = t;
	return true;
}

static size_t element_bytes(const struct element_span *span)
{
	return span->element == FLMEM_ELEMENTS_COUNT ? 1 : flmem_element_bytes(span->element);
}

static bool is_real_span(const struct element_span *span)
{
	return span->element != FLMEM_ELEMENTS_COUNT && flmem_element_is_real(span->element);
}

/*
 * Returns the tensor at an offset of a span, its escaped name in `shown`, and the index of the
 * element there.
 */
static const struct flmem_tensor *block_tensor_at(const struct block *block,
						  const struct element_span *span, uint64_t at,
						  char shown[100], uint64_t *ret_element)
{
	const struct flmem_layout *layout = block->run->layout;
	size_t t = span->tensor;

	while (layout->begins[t + 1] <= at)
		t++;
	flmem_text_escape(layout->order[t]->name, shown, 100);
	*ret_element = (at - layout->begins[t]) / element_bytes(span);
	return layout->order[t];
}

/*
 * Returns false, with the place of the first one in *ret_at, if an input has a NaN or an infinity
 * in a span.
 */
static bool is_finite(const struct block *block, const struct element_span *span, size_t input,
		      uint64_t *ret_at)
{
	const struct flmem_kernels *kernels = block->run->combination.kernels;
	struct flmem_combine_rows *rows = &block->buffers->rows;
	size_t bytes = element_bytes(span), count;

	for (uint64_t at = span->begin; at < span->end; at += count * bytes) {
		const char *from = block->buffers->inputs[input] + (at - block->begin);

		count = (size_t)(span->end - at) / bytes;
		count = count < rows->length ? count : rows->length;
		kernels->load[span->element](from, rows->rows[0], count);
		if (kernels->finite(rows->rows[0], count))
			continue;
		for (size_t i = 0; i < count; i++)
			if (!kernels->finite(&rows->rows[0][i], 1)) {
				*ret_at = at + i * bytes;
				return false;
			}
	}
	return true;
}

int flmem_run_report_special(const struct flmem_run *run, struct flmem_error *err)
{
	return flmem_error_set(
		err, FLMEM_EUSAGE, 0, "the result is infinite or NaN though no input is%s",
		run->state ? "; the state has such a number, or the step is too large" : "");
}

static int report_special(const struct block *block, const struct element_span *span,
			  struct flmem_error *err)
{
	uint64_t at, element;
	char shown[100];

	for (size_t i = 0; i < flmem_run_sources(block->run); i++) {
		if (is_finite(block, span, i, &at))
			continue;
		block_tensor_at(block, span, at, shown, &element);
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"'%s' has a NaN or an infinity: tensor '%s', element %llu; "
			"omit that input with --nan skip-client, or use --nan propagate",
			block->run->inputs[i]->path, shown, (unsigned long long)element);
	}
	return flmem_run_report_special(block->run, err);
}

static int handle_special(const struct block *block, const struct element_span *span,
			  struct flmem_error *err)
{
	if (block->buffers->mapped.failed)
		return 0;
	switch (block->run->request->nan) {
	case FLMEM_NAN_PROPAGATE:
		return 0;
	case FLMEM_NAN_SKIP_CLIENT:
		block->run->found_special = true;
		block->run->stop = true;
		return 0;
	case FLMEM_NAN_REJECT:
		break;
	}
	return report_special(block, span, err);
}

static int report_unequal(const struct block *block, const struct element_span *span, size_t input,
			  size_t offset, struct flmem_error *err)
{
	const struct flmem_tensor *tensor;
	uint64_t element;
	char shown[100];

	tensor = block_tensor_at(block, span, span->begin + offset, shown, &element);
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "tensor '%s' of type %s differs between '%s' and '%s' from element "
			       "%llu on; use --non-float first or round",
			       shown, tensor->dtype->stored, block->run->inputs[0]->path,
			       block->run->inputs[input]->path, (unsigned long long)element);
}

static int copy_first(const struct block *block, const struct element_span *span,
		      bool must_be_equal, struct flmem_error *err)
{
	const struct flmem_run_buffers *buffers = block->buffers;
	size_t at = (size_t)(span->begin - block->begin), bytes = (size_t)(span->end - span->begin);
	const char *first = buffers->inputs[0] + at;

	for (size_t i = 1; must_be_equal && i < block->run->input_count; i++) {
		const char *other = buffers->inputs[i] + at;
		size_t same = 0;

		if (memcmp(first, other, bytes) == 0)
			continue;
		/*
		 * Stop at the length: mapped pages may change to equal bytes meanwhile.
		 * flmem_input_check() reports that later.
		 */
		while (same < bytes && first[same] == other[same])
			same++;
		if (same < bytes)
			return report_unequal(block, span, i, same, err);
	}
	memcpy(buffers->inputs[flmem_run_sources(block->run)] + at, first, bytes);
	return 0;
}

/* Reads or writes the state of the elements of a span, and adds it to the state's checksum. */
static int move_state(const struct block *block, const struct element_span *span,
		      enum flmem_state_move move, struct flmem_error *err)
{
	const struct flmem_layout *layout = block->run->layout;
	struct flmem_run_buffers *buffers = block->buffers;
	enum flmem_element element = flmem_state_element(span->element);
	size_t size = element_bytes(span), bytes = flmem_element_bytes(element);
	struct flmem_state_piece piece = {.element_bytes = bytes};
	int rc = 0;

	for (size_t t = span->tensor; layout->begins[t] < span->end; t++) {
		uint64_t from = layout->begins[t], to = layout->begins[t + 1];

		from = from > span->begin ? from : span->begin;
		to = to < span->end ? to : span->end;
		piece.tensor = t;
		piece.first = (from - layout->begins[t]) / size;
		piece.count = (to - from) / size;
		for (piece.slot = 0; piece.slot < block->run->state->slots && !rc; piece.slot++) {
			char *at = buffers->state.slots[piece.slot] +
				   (from - span->begin) / size * bytes;

			rc = flmem_state_move(block->run->state, move, &piece, at, err);
			if (move != FLMEM_STATE_READ)
				buffers->state_crc32c = flmem_crc32c(buffers->state_crc32c, at,
								     piece.count * bytes);
		}
		if (rc)
			return rc;
	}
	return 0;
}

static int combine_array(const struct block *block, const struct element_span *span,
			 struct flmem_error *err)
{
	const struct flmem_run *run = block->run;
	struct flmem_run_buffers *buffers = block->buffers;
	bool kept = run->state && flmem_element_is_real(span->element);
	const struct flmem_combine_array array = {
		.element = span->element,
		.buffers = buffers->inputs,
		.at = (size_t)(span->begin - block->begin),
		.count = (size_t)(span->end - span->begin) / element_bytes(span),
		.state = kept ? &buffers->state : NULL,
	};
	int rc = 0;

	buffers->state.element = flmem_state_element(span->element);
	if (kept && run->state->exists)
		rc = move_state(block, span, FLMEM_STATE_READ, err);
	if (rc)
		return rc;
	if (!flmem_combine(&run->combination, &buffers->rows, &array))
		return handle_special(block, span, err);
	return kept ? move_state(block, span, FLMEM_STATE_WRITE, err) : 0;
}

static int combine_span(const struct block *block, const struct element_span *span,
			struct flmem_error *err)
{
	enum flmem_non_float_policy policy = block->run->request->non_float;
	struct flmem_run_buffers *buffers = block->buffers;
	size_t at = (size_t)(span->begin - block->begin);
	size_t bytes = element_bytes(span), count = (size_t)(span->end - span->begin) / bytes;
	const struct flmem_combination *combination = &block->run->combination;

	if (combination->algorithm->combine_whole) {
		combination->algorithm->combine_whole(combination->inputs, bytes, buffers->inputs,
						      at, count);
		return 0;
	}
	if (span->element == FLMEM_ELEMENTS_COUNT ||
	    (!flmem_element_is_real(span->element) && policy != FLMEM_NON_FLOAT_ROUND))
		return copy_first(block, span, policy != FLMEM_NON_FLOAT_FIRST, err);
	return combine_array(block, span, err);
}

/*
 * Reads a block of an input. A direct window has the bytes that were not in the page cache when the
 * chunk was read ahead.
 */
static int block_read_input(const struct block *block, size_t input, struct flmem_error *err)
{
	const struct flmem_run *run = block->run;
	struct flmem_run_buffers *buffers = block->buffers;
	size_t chunk = (size_t)(block->begin / run->chunk_bytes);
	char *out = buffers->memory + input * run->block_bytes;
	struct flmem_direct_window *window;

	buffers->inputs[input] = out;
	if (!buffers->direct.windows || flmem_run_cached(run, chunk)[input])
		return flmem_input_read(run->inputs[input], run->layout, block->begin, block->end,
					out, err);
	window = &buffers->direct.windows[input];
	window->input = run->inputs[input];
	window->limit = flmem_run_chunk_end(run, chunk);
	return flmem_direct_read(window, run->layout, block->begin, block->end, out, err);
}

/* Returns false if the bytes cannot be mapped and must be read. */
static bool block_map_input(const struct block *block, size_t input)
{
	const struct flmem_run *run = block->run;
	struct flmem_mapped_windows *mapped = &block->buffers->mapped;
	size_t chunk = (size_t)(block->begin / run->chunk_bytes);
	char *found;

	if (!mapped->windows || !flmem_run_cached(run, chunk)[input])
		return false;
	mapped->windows[input].input = run->inputs[input];
	mapped->windows[input].limit = flmem_run_chunk_end(run, chunk);
	found = flmem_mapped_find(&mapped->windows[input], run->layout, block->begin, block->end);
	if (found)
		block->buffers->inputs[input] = found;
	return found;
}

static int read_inputs(const struct block *block, struct flmem_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < flmem_run_sources(block->run) && !rc; i++)
		if (!block_map_input(block, i))
			rc = block_read_input(block, i, err);
	return rc;
}

static int combine_once(const struct block *block, struct flmem_error *err)
{
	size_t tensor = flmem_layout_find(block->run->layout, block->begin);
	uint64_t at = block->begin;
	struct element_span span;
	int rc = read_inputs(block, err);

	for (; !rc && next_span(block, &tensor, at, &span); at = span.end)
		rc = combine_span(block, &span, err);
	return rc;
}

/* Combines a block. If mapped pages could not be read, the work is repeated without mappings. */
static int combine_block(const struct block *block, struct flmem_error *err)
{
	struct flmem_mapped_windows *mapped = &block->buffers->mapped;
	int rc = combine_once(block, err);

	if (!mapped->failed)
		return rc;
	flmem_mapped_windows_clear(mapped);
	return combine_once(block, err);
}

static struct block block_at(struct flmem_run *run, struct flmem_run_buffers *buffers, uint64_t at,
			     uint64_t end)
{
	return (struct block){
		.run = run,
		.buffers = buffers,
		.begin = at,
		.end = end - at < run->block_bytes ? end : at + run->block_bytes,
	};
}

/*
 * Writes a block under a lock: the kernel lets one thread at a time write to a file while others
 * spin (inode lock); a thread that sleeps here leaves its processor to the arithmetic.
 */
static int write_output_block(struct flmem_run *run, const struct block *block, const char *bytes,
			      struct flmem_error *err)
{
	int rc;

	pthread_mutex_lock(&run->writing);
	rc = flmem_output_write(run->output, block->begin, block->end, bytes, err);
	pthread_mutex_unlock(&run->writing);
	return rc;
}

int flmem_run_combine(struct flmem_run *run, struct flmem_run_buffers *buffers, uint64_t begin,
		      uint64_t end, uint32_t *ret_crc32c, struct flmem_error *err)
{
	size_t sources = flmem_run_sources(run);
	const char *out = buffers->inputs[sources];
	uint32_t crc = 0;
	int rc = 0;

	buffers->state_crc32c = 0;
	for (uint64_t at = begin; at < end && !rc && !run->stop;) {
		struct block block = block_at(run, buffers, at, end);
		size_t bytes = (size_t)(block.end - block.begin);

		rc = combine_block(&block, err);
		if (rc)
			break;
		crc = flmem_crc32c(crc, out, bytes);
		rc = run->verifies
			     ? flmem_verify_block(run, at, block.end, buffers->inputs, out, err)
			     : write_output_block(run, &block, out, err);
		run->done_bytes += bytes * sources;
		at = block.end;
	}
	*ret_crc32c = crc;
	return rc;
}

int flmem_run_verify_state(struct flmem_run *run, struct flmem_run_buffers *buffers, uint64_t begin,
			   uint64_t end, struct flmem_error *err)
{
	int rc = 0;

	buffers->state_crc32c = 0;
	for (uint64_t at = begin; at < end && !rc;) {
		struct block block = block_at(run, buffers, at, end);
		size_t tensor = flmem_layout_find(run->layout, at);
		struct element_span span;

		for (; !rc && next_span(&block, &tensor, at, &span); at = span.end)
			if (is_real_span(&span))
				rc = move_state(&block, &span, FLMEM_STATE_VERIFY, err);
	}
	return rc;
}

static void scan_block(const struct block *block)
{
	size_t tensor = flmem_layout_find(block->run->layout, block->begin);
	uint64_t at = block->begin, found;
	struct element_span span;

	for (; next_span(block, &tensor, at, &span); at = span.end)
		for (size_t i = 0; i < flmem_run_sources(block->run); i++)
			if (is_real_span(&span) && !block->run->non_finite[i] &&
			    !is_finite(block, &span, i, &found))
				block->run->non_finite[i] = true;
}

int flmem_run_scan(struct flmem_run *run, struct flmem_run_buffers *buffers, uint64_t begin,
		   uint64_t end, struct flmem_error *err)
{
	int rc = 0;

	for (uint64_t at = begin; at < end && !rc && !run->stop;) {
		struct block block = block_at(run, buffers, at, end);

		rc = read_inputs(&block, err);
		if (!rc)
			scan_block(&block);
		run->done_bytes += (block.end - block.begin) * flmem_run_sources(run);
		at = block.end;
	}
	return rc;
}

/* Adds what `count` elements contribute to each norm or distance. */
static void measure_rows(const struct block *block, size_t count)
{
	static const double zeros[FLMEM_ROW_LONGEST];
	const struct flmem_run *run = block->run;
	const struct flmem_combination *c = &run->combination;
	double *const *rows = block->buffers->rows.rows;
	struct flmem_exact_sum *sum = block->buffers->sums;

	if (c->algorithm->measures == FLMEM_MEASURE_NORMS) {
		const double *base = c->has_base ? rows[run->input_count] : zeros;

		for (size_t i = 0; i < run->input_count; i++)
			flmem_exact_sum_add(sum++, c->kernels->distance(rows[i], base, count));
		return;
	}
	for (size_t i = 0; i < run->input_count; i++)
		for (size_t j = i + 1; j < run->input_count; j++)
			flmem_exact_sum_add(sum++, c->kernels->distance(rows[i], rows[j], count));
}

/* Measures a span. Results for inputs that are skipped for a NaN are not used. */
static int measure_span(const struct block *block, const struct element_span *span,
			struct flmem_error *err)
{
	const struct flmem_kernels *kernels = block->run->combination.kernels;
	struct flmem_combine_rows *rows = &block->buffers->rows;
	size_t bytes = element_bytes(span), count;

	for (uint64_t at = span->begin; at < span->end; at += count * bytes) {
		count = (size_t)(span->end - at) / bytes;
		count = count < rows->length ? count : rows->length;
		for (size_t i = 0; i < flmem_run_sources(block->run); i++) {
			kernels->load[span->element](block->buffers->inputs[i] +
							     (at - block->begin),
						     rows->rows[i], count);
			if (kernels->finite(rows->rows[i], count))
				continue;
			if (block->run->request->nan == FLMEM_NAN_REJECT)
				return report_special(block, span, err);
			block->run->non_finite[i] = true;
		}
		measure_rows(block, count);
	}
	return 0;
}

/*
 * Measures a block. Row boundaries depend on the model only, not on chunks or blocks, because they
 * determine how sums are rounded.
 */
static int measure_block(struct block *block, struct flmem_error *err)
{
	size_t tensor = flmem_layout_find(block->run->layout, block->begin);
	uint64_t at = block->begin, end = block->end;
	struct element_span span;
	int rc = 0;

	while (at < end && !rc) {
		block->end = (at / UNIT_BYTES + 1) * UNIT_BYTES;
		block->end = block->end < end ? block->end : end;
		for (; !rc && next_span(block, &tensor, at, &span); at = span.end)
			if (is_real_span(&span))
				rc = measure_span(block, &span, err);
	}
	return rc;
}

int flmem_run_measure(struct flmem_run *run, struct flmem_run_buffers *buffers, uint64_t begin,
		      uint64_t end, struct flmem_error *err)
{
	int rc = 0;

	for (uint64_t at = begin; at < end && !rc && !run->stop;) {
		struct block block = block_at(run, buffers, at, end);

		at = block.end;
		run->done_bytes += (block.end - block.begin) * flmem_run_sources(run);
		rc = read_inputs(&block, err);
		if (!rc)
			rc = measure_block(&block, err);
	}
	return rc;
}
