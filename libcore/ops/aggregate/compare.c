/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/compare.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/kernels.h"
#include "base/cleanup.h"
#include "base/text/url.h"
#include "net/http.h"
#include "ops/aggregate/input.h"
#include "ops/aggregate/ordered_work.h"
#include "ops/aggregate/progress_meter.h"
#include "ops/aggregate/threads.h"

#define PIECE_ELEMENTS	  UINT64_C(262144) /* elements that one thread compares at a time */
#define BLOCK_ELEMENTS	  UINT64_C(32768)
#define ROW_ELEMENTS	  ((size_t)8192)
#define ELEMENT_BYTES_MAX 8U

/* Two tensors of the same name, or a tensor that only one model has. */
struct compared_pair {
	const struct flmem_tensor *tensors[2];
	enum flmem_element elements[2];
	bool numbers;	/* both types have arithmetic */
	uint64_t total; /* elements that are compared, or bytes of types without arithmetic */
};

/* Elements of a pair from `at` on, and how they differ. */
struct compared_piece {
	struct compared_pair pair;
	uint64_t at;
	size_t count;
	struct flmem_compared_tensor found;
};

/* Memory of one thread, for both models. */
struct compare_room {
	double rows[2][ROW_ELEMENTS];
	char blocks[2][BLOCK_ELEMENTS * ELEMENT_BYTES_MAX];
};

/* State of one call. */
struct compare_run {
	const struct flmem_compare_request *request;
	struct flmem_comparison *comparison;
	struct flmem_input inputs[2];
	struct flmem_http_access access;
	struct flmem_progress_meter meter;
	struct flmem_tensor_list lists[2];
	size_t next[2];			     /* place in both lists of the pair of the next piece */
	uint64_t done;			     /* elements of that pair that are taken */
	struct flmem_compared_tensor tensor; /* of the pair that is joined */
	size_t room;
};

static void clear_comparison(struct compare_run *run)
{
	flmem_inputs_clear(run->inputs, 2);
	for (size_t i = 0; i < 2; i++)
		flmem_tensor_list_clear(&run->lists[i]);
}

#define AUTO_RUN FLMEM_AUTO(clear_comparison)

void flmem_comparison_clear(struct flmem_comparison *comparison)
{
	for (size_t i = 0; i < comparison->differing_count; i++) {
		free(comparison->differing[i].name);
		free(comparison->differing[i].shapes[0]);
		free(comparison->differing[i].shapes[1]);
	}
	free(comparison->differing);
	*comparison = (struct flmem_comparison){0};
}

static int compare_nomem(const struct compare_run *run, struct flmem_error *err)
{
	return flmem_error_nomem(err, "cannot compare '%s' with '%s'", run->request->paths[0],
				 run->request->paths[1]);
}

static char *print_shape(const struct compare_run *run, size_t model,
			 const struct flmem_tensor *tensor)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	flmem_tensor_shape_print(&run->lists[model], tensor, &text);
	return flmem_buf_take(&text);
}

/* Adds a tensor that differs to the result; `both` are the tensors in the two models, or NULL. */
static int add_tensor(struct compare_run *run, const struct flmem_compared_tensor *tensor,
		      const struct flmem_tensor *const both[2], struct flmem_error *err)
{
	struct flmem_comparison *comparison = run->comparison;
	struct flmem_compared_tensor *added;
	char *copy = strdup((both[0] ?: both[1])->name);

	if (copy && comparison->differing_count == run->room) {
		size_t room = run->room ? run->room * 2 : 64;
		void *larger = reallocarray(comparison->differing, room, sizeof(*tensor));

		if (larger) {
			comparison->differing = larger;
			run->room = room;
		}
	}
	if (!copy || comparison->differing_count == run->room) {
		free(copy);
		return compare_nomem(run, err);
	}
	added = &comparison->differing[comparison->differing_count++];
	*added = *tensor;
	added->name = copy;
	comparison->exceeding += tensor->exceeds;
	for (size_t i = 0; i < 2; i++) {
		added->shapes[i] = both[i] ? print_shape(run, i, both[i]) : NULL;
		if (both[i] && !added->shapes[i])
			return compare_nomem(run, err);
	}
	return 0;
}

/* Adds a tensor that only one model has; `model` is 0 or 1. */
static int add_unmatched(struct compare_run *run, const struct flmem_tensor *tensor, size_t model,
			 struct flmem_error *err)
{
	struct flmem_compared_tensor out = {
		.difference = model ? "only in the second" : "only in the first",
		.absolute = (double)NAN,
		.relative = (double)NAN,
		.exceeds = true,
	};

	const struct flmem_tensor *const both[2] = {model ? NULL : tensor, model ? tensor : NULL};

	out.dtypes[model] = tensor->dtype->stored;
	return add_tensor(run, &out, both, err);
}

static void add_difference(struct flmem_compared_tensor *tensor, uint64_t at, double absolute,
			   double relative)
{
	if (!tensor->differing++ || absolute > tensor->absolute) {
		tensor->absolute = absolute;
		tensor->at = at;
	}
	if (tensor->differing == 1 || relative > tensor->relative)
		tensor->relative = relative;
}

static void compare_finite(struct flmem_compared_tensor *tensor, uint64_t at, const double *a,
			   const double *b, size_t count)
{
	struct flmem_difference found;

	flmem_kernels_best()->differ(a, b, count, &found);
	tensor->differing += found.differing;
	tensor->relative = fmax(tensor->relative, found.relative);
	for (size_t i = 0; i < count && found.absolute > tensor->absolute; i++)
		if (fabs(a[i] - b[i]) == found.absolute) {
			tensor->absolute = found.absolute;
			tensor->at = at + i;
		}
}

static void compare_reals(struct flmem_compared_tensor *tensor, uint64_t at, const double *a,
			  const double *b, size_t count)
{
	if (flmem_kernels_best()->finite(a, count) && flmem_kernels_best()->finite(b, count)) {
		compare_finite(tensor, at, a, b, count);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		double absolute = fabs(a[i] - b[i]);

		if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i])))
			continue;
		if (!isfinite(a[i]) || !isfinite(b[i]))
			add_difference(tensor, at + i, (double)INFINITY, (double)INFINITY);
		else
			add_difference(tensor, at + i, absolute,
				       absolute / fmax(fabs(a[i]), fabs(b[i])));
	}
}

/*
 * Compares integers as such: as doubles, large ones that differ could be equal. The difference fits
 * 64 bits without a sign.
 */
static void compare_whole(struct flmem_compared_tensor *tensor, uint64_t at,
			  const char *const blocks[2], size_t count, bool is_signed)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t a, b;
		double absolute, largest;
		bool less;

		memcpy(&a, blocks[0] + i * sizeof(a), sizeof(a));
		memcpy(&b, blocks[1] + i * sizeof(b), sizeof(b));
		if (a == b)
			continue;
		less = is_signed ? (int64_t)a < (int64_t)b : a < b;
		absolute = (double)(less ? b - a : a - b);
		largest = is_signed ? fmax(fabs((double)(int64_t)a), fabs((double)(int64_t)b))
				    : fmax((double)a, (double)b);
		add_difference(tensor, at + i, absolute, absolute / largest);
	}
}

static void compare_bytes(struct flmem_compared_tensor *tensor, const char *const blocks[2],
			  size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		tensor->differing += blocks[0][i] != blocks[1][i];
}

static int read_block(const struct compare_run *run, const struct compared_piece *piece,
		      uint64_t at, size_t count, struct compare_room *room, struct flmem_error *err)
{
	const struct compared_pair *pair = &piece->pair;
	int rc = 0;

	for (size_t i = 0; i < 2 && !rc; i++) {
		const struct flmem_tensor *tensor = pair->tensors[i];
		uint64_t size = pair->numbers ? flmem_element_bytes(pair->elements[i]) : 1;

		rc = flmem_input_file_read(&run->inputs[i].files[tensor->file],
					   tensor->offset + at * size, count * size,
					   room->blocks[i], err);
	}
	return rc;
}

static void compare_element_rows(struct compared_piece *piece, uint64_t at, size_t count,
				 struct compare_room *room)
{
	const enum flmem_element *elements = piece->pair.elements;

	for (size_t done = 0, part; done < count; done += part) {
		part = count - done < ROW_ELEMENTS ? count - done : ROW_ELEMENTS;
		for (size_t i = 0; i < 2; i++)
			flmem_kernels_best()->load[elements[i]](
				room->blocks[i] + done * flmem_element_bytes(elements[i]),
				room->rows[i], part);
		compare_reals(&piece->found, at + done, room->rows[0], room->rows[1], part);
	}
}

static void compare_block(struct compared_piece *piece, uint64_t at, size_t count,
			  struct compare_room *room)
{
	const struct compared_pair *pair = &piece->pair;
	const char *const blocks[2] = {room->blocks[0], room->blocks[1]};
	bool same = pair->elements[0] == pair->elements[1];
	size_t size = pair->numbers ? flmem_element_bytes(pair->elements[0]) : 1;

	/* Elements with the same bits do not differ, NaN neither. */
	if (same && memcmp(blocks[0], blocks[1], count * size) == 0)
		return;
	if (!pair->numbers)
		compare_bytes(&piece->found, blocks, count);
	else if (same &&
		 (pair->elements[0] == FLMEM_ELEMENT_I64 || pair->elements[0] == FLMEM_ELEMENT_U64))
		compare_whole(&piece->found, at, blocks, count,
			      pair->elements[0] == FLMEM_ELEMENT_I64);
	else
		compare_element_rows(piece, at, count, room);
}

static int compare_piece(const void *context, void *room, void *compared, struct flmem_error *err)
{
	struct compared_piece *piece = compared;
	uint64_t end = piece->at + piece->count;

	for (uint64_t at = piece->at; at < end; at += BLOCK_ELEMENTS) {
		size_t count = (size_t)(end - at < BLOCK_ELEMENTS ? end - at : BLOCK_ELEMENTS);
		int rc = read_block(context, piece, at, count, room, err);

		if (rc)
			return rc;
		compare_block(piece, at, count, room);
	}
	return 0;
}

static bool is_same_shape(const struct compare_run *run, const struct flmem_tensor *a,
			  const struct flmem_tensor *b)
{
	return a->rank == b->rank &&
	       (!a->rank ||
		memcmp(run->lists[0].extents + a->shape, run->lists[1].extents + b->shape,
		       a->rank * sizeof(*run->lists[0].extents)) == 0);
}

static struct compared_pair make_pair(const struct compare_run *run, const struct flmem_tensor *a,
				      const struct flmem_tensor *b)
{
	struct compared_pair pair = {.tensors = {a, b}};

	for (size_t i = 0; i < 2 && a && b; i++)
		pair.elements[i] = flmem_element_find(pair.tensors[i]->dtype->stored);
	pair.numbers = a && b && pair.elements[0] != FLMEM_ELEMENTS_COUNT &&
		       pair.elements[1] != FLMEM_ELEMENTS_COUNT;
	if (a && b && is_same_shape(run, a, b) && (pair.numbers || a->dtype == b->dtype))
		pair.total = a->bytes / (pair.numbers ? flmem_element_bytes(pair.elements[0]) : 1);
	return pair;
}

static const struct flmem_tensor *listed_tensor_at(const struct flmem_tensor_list *list, size_t i)
{
	return i < list->count ? &list->tensors[i] : NULL;
}

static uint64_t piece_bytes(const struct compared_piece *piece)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < 2; i++)
		bytes += piece->count *
			 (piece->pair.numbers ? flmem_element_bytes(piece->pair.elements[i]) : 1);
	return bytes;
}

/* Walks through both lists, which are sorted by name. Each pair has a piece, also without data. */
static bool take_compared(void *context, void *ret_piece, uint64_t *ret_bytes)
{
	struct compare_run *run = context;
	const struct flmem_tensor *a = listed_tensor_at(&run->lists[0], run->next[0]);
	const struct flmem_tensor *b = listed_tensor_at(&run->lists[1], run->next[1]);
	int order = a && b ? strcmp(a->name, b->name) : b ? 1 : -1;
	struct compared_piece *piece = ret_piece;
	uint64_t rest;

	if (!a && !b)
		return false;
	*piece = (struct compared_piece){
		.pair = make_pair(run, order <= 0 ? a : NULL, order >= 0 ? b : NULL),
		.at = run->done,
	};
	rest = piece->pair.total - run->done;
	piece->count = (size_t)(rest < PIECE_ELEMENTS ? rest : PIECE_ELEMENTS);
	run->done += piece->count;
	*ret_bytes = piece_bytes(piece);
	if (run->done < piece->pair.total)
		return true;
	run->done = 0;
	run->next[0] += order <= 0;
	run->next[1] += order >= 0;
	return true;
}

static void join_differences(struct flmem_compared_tensor *tensor,
			     const struct flmem_compared_tensor *found)
{
	if (!found->differing)
		return;
	if (!tensor->differing || found->absolute > tensor->absolute) {
		tensor->absolute = found->absolute;
		tensor->at = found->at;
	}
	if (!tensor->differing || found->relative > tensor->relative)
		tensor->relative = found->relative;
	tensor->differing += found->differing;
}

/* Adds a pair to the result if it differs. */
static int add_pair(struct compare_run *run, const struct compared_pair *pair,
		    struct flmem_compared_tensor *tensor, struct flmem_error *err)
{
	const struct flmem_tensor *a = pair->tensors[0], *b = pair->tensors[1];
	bool same_shape = is_same_shape(run, a, b), same_type = a->dtype == b->dtype;

	for (size_t i = 0; i < 2; i++)
		tensor->dtypes[i] = pair->tensors[i]->dtype->stored;
	if (!pair->numbers || !same_shape)
		tensor->absolute = tensor->relative = (double)NAN;
	if (same_shape && same_type && !tensor->differing)
		return 0;
	tensor->difference = !same_shape ? "shapes" : !same_type ? "types" : "values";
	tensor->exceeds =
		!same_shape || !same_type || !(tensor->absolute <= run->request->tolerance);
	return add_tensor(run, tensor, pair->tensors, err);
}

static int join_compared(void *context, const void *compared, struct flmem_error *err)
{
	struct compare_run *run = context;
	const struct compared_piece *piece = compared;
	const struct flmem_tensor *const *both = piece->pair.tensors;

	if (!piece->at) {
		run->tensor = (struct flmem_compared_tensor){0};
		run->comparison->tensors++;
	}
	join_differences(&run->tensor, &piece->found);
	if (piece->at + piece->count < piece->pair.total)
		return 0;
	return both[0] && both[1] ? add_pair(run, &piece->pair, &run->tensor, err)
				  : add_unmatched(run, both[0] ?: both[1], !both[0], err);
}

static int compare_all(struct compare_run *run, struct flmem_error *err)
{
	const struct flmem_ordered_work work = {
		.take = take_compared,
		.work = compare_piece,
		.join = join_compared,
		.context = run,
		.piece_size = sizeof(struct compared_piece),
		.room_bytes = sizeof(struct compare_room),
		.threads =
			flmem_threads_count_readers(run->request->threads, run->meter.total_bytes,
						    run->inputs[0].http || run->inputs[1].http),
		.meter = &run->meter,
	};

	return flmem_ordered_work(&work, err);
}

/* Upper bound of the bytes to read: tensors that only one model has are not read. */
static uint64_t list_bytes(const struct flmem_tensor_list *list)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < list->count; i++)
		bytes += list->tensors[i].bytes;
	return bytes;
}

static int compare_models(struct compare_run *run, struct flmem_error *err)
{
	int rc = 0;

	flmem_progress_meter_start(&run->meter);
	run->access = (struct flmem_http_access){
		.options = run->request->http,
		.ended = flmem_progress_meter_has_ended,
		.context = &run->meter,
	};
	for (size_t i = 0; i < 2 && !rc; i++) {
		run->inputs[i].access = &run->access;
		run->inputs[i].key = run->request->key;
		rc = flmem_input_load(run->request->paths[i], &run->inputs[i], &run->lists[i], err);
	}
	for (size_t i = 0; i < 2 && !rc; i++)
		run->meter.total_bytes += list_bytes(&run->lists[i]);
	if (!rc)
		rc = compare_all(run, err);
	for (size_t i = 0; i < 2 && !rc; i++)
		rc = flmem_input_check(&run->inputs[i], err);
	return rc;
}

int flmem_compare(const struct flmem_compare_request *request,
		  struct flmem_comparison *ret_comparison, struct flmem_error *err)
{
	struct flmem_comparison comparison = {0};
	FLMEM_AUTO_FREE char *shown = flmem_url_show(request->paths[0]);
	AUTO_RUN struct compare_run run = {
		.request = request,
		.comparison = &comparison,
		.meter = {.progress = request->progress,
			  .context = request->context,
			  .path = shown,
			  .end = "compared"},
	};
	int rc;

	if (!shown)
		return compare_nomem(&run, err);
	if (!(request->tolerance >= 0))
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "invalid tolerance %g for --tolerance",
				       request->tolerance);
	rc = flmem_threads_check(request->threads, err) ?: compare_models(&run, err);
	if (rc)
		flmem_comparison_clear(&comparison);
	else
		*ret_comparison = comparison;
	return rc;
}
