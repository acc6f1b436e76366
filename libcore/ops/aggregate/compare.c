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
#include "ops/aggregate/progress_meter.h"

#define BLOCK_ELEMENTS	  UINT64_C(32768)
#define ELEMENT_BYTES_MAX 8U

/* State of one call, with one buffer per model. */
struct compare_run {
	const struct flmem_compare_request *request;
	struct flmem_comparison *comparison;
	struct flmem_input inputs[2];
	struct flmem_http_access access;
	struct flmem_progress_meter meter;
	struct flmem_tensor_list lists[2];
	char *blocks[2];
	double *rows[2];
	size_t room;
};

static void clear_comparison(struct compare_run *run)
{
	flmem_inputs_clear(run->inputs, 2);
	for (size_t i = 0; i < 2; i++) {
		flmem_tensor_list_clear(&run->lists[i]);
		free(run->blocks[i]);
		free(run->rows[i]);
	}
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

static void compare_reals(struct flmem_compared_tensor *tensor, uint64_t at, const double *a,
			  const double *b, size_t count)
{
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

/* Two tensors of the same name and shape. */
struct compared_pair {
	const struct flmem_tensor *tensors[2];
	enum flmem_element elements[2];
	bool numbers; /* both types have arithmetic */
};

static int read_blocks(struct compare_run *run, const struct compared_pair *pair, uint64_t at,
		       size_t count, struct flmem_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < 2 && !rc; i++) {
		const struct flmem_tensor *tensor = pair->tensors[i];
		uint64_t size = pair->numbers ? flmem_element_bytes(pair->elements[i]) : 1;

		rc = flmem_input_file_read(&run->inputs[i].files[tensor->file],
					   tensor->offset + at * size, count * size, run->blocks[i],
					   err);
		if (!rc)
			rc = flmem_progress_meter_add(&run->meter, count * size, err);
	}
	return rc;
}

static void compare_block(struct compare_run *run, const struct compared_pair *pair, uint64_t at,
			  size_t count, struct flmem_compared_tensor *out)
{
	const char *const blocks[2] = {run->blocks[0], run->blocks[1]};
	bool same = pair->elements[0] == pair->elements[1];

	if (!pair->numbers) {
		compare_bytes(out, blocks, count);
	} else if (same && (pair->elements[0] == FLMEM_ELEMENT_I64 ||
			    pair->elements[0] == FLMEM_ELEMENT_U64)) {
		compare_whole(out, at, blocks, count, pair->elements[0] == FLMEM_ELEMENT_I64);
	} else {
		for (size_t i = 0; i < 2; i++)
			flmem_kernels_best()->load[pair->elements[i]](blocks[i], run->rows[i],
								      count);
		compare_reals(out, at, run->rows[0], run->rows[1], count);
	}
}

static int compare_values(struct compare_run *run, const struct compared_pair *pair,
			  struct flmem_compared_tensor *out, struct flmem_error *err)
{
	uint64_t total = pair->tensors[0]->bytes;

	if (pair->numbers)
		total /= flmem_element_bytes(pair->elements[0]);
	for (uint64_t at = 0; at < total; at += BLOCK_ELEMENTS) {
		uint64_t rest = total - at;
		size_t count = (size_t)(rest < BLOCK_ELEMENTS ? rest : BLOCK_ELEMENTS);
		int rc = read_blocks(run, pair, at, count, err);

		if (rc)
			return rc;
		compare_block(run, pair, at, count, out);
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

static int compare_pair(struct compare_run *run, const struct flmem_tensor *a,
			const struct flmem_tensor *b, struct flmem_error *err)
{
	struct compared_pair pair = {
		.tensors = {a, b},
		.elements = {flmem_element_find(a->dtype->stored),
			     flmem_element_find(b->dtype->stored)},
	};
	struct flmem_compared_tensor tensor = {.dtypes = {a->dtype->stored, b->dtype->stored}};
	bool same_shape = is_same_shape(run, a, b), same_type = a->dtype == b->dtype;
	int rc = 0;

	pair.numbers = pair.elements[0] != FLMEM_ELEMENTS_COUNT &&
		       pair.elements[1] != FLMEM_ELEMENTS_COUNT;
	if (!pair.numbers || !same_shape)
		tensor.absolute = tensor.relative = (double)NAN;
	if (same_shape && (pair.numbers || same_type))
		rc = compare_values(run, &pair, &tensor, err);
	if (rc || (same_shape && same_type && !tensor.differing))
		return rc;
	tensor.difference = !same_shape ? "shapes" : !same_type ? "types" : "values";
	tensor.exceeds = !same_shape || !same_type || !(tensor.absolute <= run->request->tolerance);
	return add_tensor(run, &tensor, pair.tensors, err);
}

static const struct flmem_tensor *listed_tensor_at(const struct flmem_tensor_list *list, size_t i)
{
	return i < list->count ? &list->tensors[i] : NULL;
}

/* Walks through both lists, which are sorted by name. */
static int compare_all(struct compare_run *run, struct flmem_error *err)
{
	size_t i = 0, j = 0;
	int rc = 0;

	while (!rc) {
		const struct flmem_tensor *a = listed_tensor_at(&run->lists[0], i);
		const struct flmem_tensor *b = listed_tensor_at(&run->lists[1], j);
		int order = a && b ? strcmp(a->name, b->name) : 0;

		if (!a && !b)
			return 0;
		run->comparison->tensors++;
		if (a && b && !order)
			rc = compare_pair(run, a, b, err);
		else if (a && (!b || order < 0))
			rc = add_unmatched(run, a, 0, err);
		else if (b)
			rc = add_unmatched(run, b, 1, err);
		i += !b || order <= 0;
		j += !a || order >= 0;
	}
	return rc;
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
		run->blocks[i] = malloc(BLOCK_ELEMENTS * ELEMENT_BYTES_MAX);
		run->rows[i] = calloc(BLOCK_ELEMENTS, sizeof(*run->rows[i]));
		if (!run->blocks[i] || !run->rows[i])
			return compare_nomem(run, err);
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
	rc = compare_models(&run, err);
	if (rc)
		flmem_comparison_clear(&comparison);
	else
		*ret_comparison = comparison;
	return rc;
}
