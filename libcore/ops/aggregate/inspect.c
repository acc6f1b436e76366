/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/inspect.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/model.h>

#include "aggregate/kernels.h"
#include "aggregate/statistics.h"
#include "base/bytes/crc32c.h"
#include "base/text/text.h"
#include "base/text/url.h"
#include "model/checkpoint_tensors.h"
#include "net/http.h"
#include "ops/aggregate/input.h"
#include "ops/aggregate/progress_meter.h"

#define BLOCK_BYTES (UINT64_C(256) << 10)

/* State of one call. */
struct inspection_run {
	const struct flmem_inspect_request *request;
	struct flmem_input input;
	struct flmem_http_access access;
	struct flmem_progress_meter meter;
	struct flmem_tensor_list list;
	const struct flmem_tensor **order; /* sorted by their places in the files */
	char *block;
	double *row;
};

static void clear_inspection(struct inspection_run *run)
{
	flmem_inputs_clear(&run->input, 1);
	flmem_tensor_list_clear(&run->list);
	free(run->order);
	free(run->block);
	free(run->row);
}

#define AUTO_RUN FLMEM_AUTO(clear_inspection)

void flmem_inspection_clear(struct flmem_inspection *inspection)
{
	for (size_t i = 0; inspection->tensors && i < inspection->tensor_count.value; i++) {
		free(inspection->tensors[i].name);
		free(inspection->tensors[i].shape);
	}
	for (size_t i = 0; i < inspection->file_count; i++)
		free(inspection->files[i].path);
	free(inspection->tensors);
	free(inspection->files);
	free(inspection->unlisted);
	free(inspection->path);
	*inspection = (struct flmem_inspection){0};
}

static int inspection_nomem(const char *path, struct flmem_error *err)
{
	return flmem_error_nomem(err, "cannot list the tensors of '%s'", path);
}

static bool is_checkpoint(const char *path)
{
	static const char *const suffixes[] = {".pt", ".pth", ".bin", ".ckpt"};

	size_t length = flmem_url_path_length(path);

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(suffixes); i++) {
		size_t suffix = strlen(suffixes[i]);

		if (length > suffix && strncmp(path + length - suffix, suffixes[i], suffix) == 0)
			return true;
	}
	return false;
}

static const char *lack_of_statistics(const struct inspection_run *run,
				      const struct flmem_tensor *tensor)
{
	if (!run->request->statistics || run->request->headers_only)
		return "not requested";
	if (flmem_element_find(tensor->dtype->stored) == FLMEM_ELEMENTS_COUNT)
		return "no arithmetic for this type";
	return NULL;
}

static bool fill_tensor(const struct inspection_run *run, const struct flmem_tensor *tensor,
			struct flmem_inspected_tensor *out)
{
	size_t rank = tensor->rank;

	*out = (struct flmem_inspected_tensor){
		.name = strdup(tensor->name),
		.dtype = tensor->dtype->stored,
		.shape = calloc(rank + 1, sizeof(*out->shape)),
		.rank = rank,
		/* Their sum fits 64 bits: all bytes are in one file. */
		.elements = tensor->bytes * 8 / tensor->dtype->bits,
		.bytes = tensor->bytes,
		.file = tensor->file,
		.no_statistics = lack_of_statistics(run, tensor),
	};
	if (!out->name || !out->shape)
		return false;
	if (rank)
		memcpy(out->shape, run->list.extents + tensor->shape, rank * sizeof(*out->shape));
	return true;
}

static bool fill_tensors(const struct inspection_run *run, struct flmem_inspection *inspection)
{
	size_t count = run->list.count;

	inspection->tensors = calloc(count + 1, sizeof(*inspection->tensors));
	if (!inspection->tensors)
		return false;
	for (size_t i = 0; i < count; i++) {
		inspection->tensor_count.value = i + 1;
		if (!fill_tensor(run, &run->list.tensors[i], &inspection->tensors[i]))
			return false;
		inspection->bytes += inspection->tensors[i].bytes;
		inspection->parameters.value += inspection->tensors[i].elements;
	}
	return true;
}

static bool fill_files(const struct inspection_run *run, struct flmem_inspection *inspection)
{
	const struct flmem_input *input = &run->input;

	inspection->files = calloc(input->file_count, sizeof(*inspection->files));
	if (!inspection->files)
		return false;
	for (size_t i = 0; i < input->file_count; i++) {
		inspection->files[i].path = strdup(input->files[i].path);
		inspection->files[i].bytes = (uint64_t)input->files[i].status.st_size;
		inspection->file_count++;
		if (!inspection->files[i].path)
			return false;
	}
	return true;
}

static int compare_tensor_places(const void *a, const void *b)
{
	const struct flmem_tensor *x = *(const struct flmem_tensor *const *)a;
	const struct flmem_tensor *y = *(const struct flmem_tensor *const *)b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static bool make_order(struct inspection_run *run)
{
	run->order = calloc(run->list.count + 1, sizeof(*run->order));
	run->block = malloc(BLOCK_BYTES);
	run->row = calloc(BLOCK_BYTES, sizeof(*run->row));
	if (!run->order || !run->block || !run->row)
		return false;
	for (size_t i = 0; i < run->list.count; i++)
		run->order[i] = &run->list.tensors[i];
	if (run->list.count)
		qsort(run->order, run->list.count, sizeof(*run->order), compare_tensor_places);
	return true;
}

static int inspect_tensor_data(struct inspection_run *run, const struct flmem_tensor *tensor,
			       struct flmem_inspected_tensor *out, struct flmem_error *err)
{
	const struct flmem_input_file *file = &run->input.files[tensor->file];
	enum flmem_element element = flmem_element_find(tensor->dtype->stored);
	struct flmem_statistics statistics = {0};

	for (uint64_t at = 0, bytes; at < tensor->bytes; at += bytes) {
		int rc;

		bytes = tensor->bytes - at < BLOCK_BYTES ? tensor->bytes - at : BLOCK_BYTES;
		rc = flmem_input_file_read(file, tensor->offset + at, bytes, run->block, err);
		if (rc)
			return rc;
		out->crc32c = flmem_crc32c(out->crc32c, run->block, (size_t)bytes);
		if (!out->no_statistics) {
			size_t count = (size_t)bytes / flmem_element_bytes(element);

			flmem_kernels_best()->load[element](run->block, run->row, count);
			flmem_statistics_add(&statistics, run->row, count);
		}
		rc = flmem_progress_meter_add(&run->meter, bytes, err);
		if (rc)
			return rc;
	}
	if (!out->no_statistics)
		out->statistics = (struct flmem_tensor_statistics){
			.min = statistics.finite ? statistics.min : __builtin_nan(""),
			.max = statistics.finite ? statistics.max : __builtin_nan(""),
			.mean = flmem_statistics_mean(&statistics),
			.norm = statistics.norm,
			.nans = statistics.nans,
			.infinities = statistics.infinities,
		};
	return 0;
}

/* Adds to the checksum of a file bytes that belong to no tensor. */
static int add_bytes(struct inspection_run *run, size_t file, uint64_t begin, uint64_t end,
		     uint32_t *crc32c, struct flmem_error *err)
{
	for (uint64_t at = begin, bytes; at < end; at += bytes) {
		int rc;

		bytes = end - at < BLOCK_BYTES ? end - at : BLOCK_BYTES;
		rc = flmem_input_file_read(&run->input.files[file], at, bytes, run->block, err);
		if (rc)
			return rc;
		*crc32c = flmem_crc32c(*crc32c, run->block, (size_t)bytes);
		rc = flmem_progress_meter_add(&run->meter, bytes, err);
		if (rc)
			return rc;
	}
	return 0;
}

/*
 * Reads a tensor, and continues the checksum of its file up to the tensor's end. Tensors may share
 * bytes.
 */
static int read_next(struct inspection_run *run, struct flmem_inspection *inspection,
		     const struct flmem_tensor *tensor, uint64_t *at, struct flmem_error *err)
{
	struct flmem_inspected_file *file = &inspection->files[tensor->file];
	struct flmem_inspected_tensor *out = &inspection->tensors[tensor - run->list.tensors];
	uint64_t end = tensor->offset + tensor->bytes;
	int rc = add_bytes(run, tensor->file, *at, tensor->offset, &file->crc32c, err);

	*at = *at > tensor->offset ? *at : tensor->offset;
	if (!rc)
		rc = inspect_tensor_data(run, tensor, out, err);
	if (rc || end <= *at)
		return rc;
	if (*at == tensor->offset)
		file->crc32c = flmem_crc32c_join(file->crc32c, out->crc32c, tensor->bytes);
	else
		rc = add_bytes(run, tensor->file, *at, end, &file->crc32c, err);
	*at = end;
	return rc;
}

/*
 * A file that is read through struct flmem_source, and the reason of a failure, which a source does
 * not pass on.
 */
struct inspected_source {
	const struct flmem_input_file *file;
	struct flmem_progress_meter *meter;
	int rc;
	struct flmem_error error;
};

static bool read_inspected(void *context, uint64_t offset, void *out, size_t length)
{
	struct inspected_source *from = context;

	if (!from->rc)
		from->rc = flmem_input_file_read(from->file, offset, length, out, &from->error);
	if (!from->rc)
		from->rc = flmem_progress_meter_add(from->meter, length, &from->error);
	return !from->rc;
}

static bool is_pickle(const struct flmem_archive_entry *entry)
{
	return flmem_text_ends(entry->name, "/data.pkl");
}

/* Verifies the checksums that are stored in an archive. */
static int verify_entries(struct inspection_run *run, bool pickles_only, struct flmem_error *err)
{
	const struct flmem_archive *archive = &run->input.kind.archive;
	struct inspected_source from = {.file = &run->input.files[0], .meter = &run->meter};
	const struct flmem_source source = {
		.read = read_inspected,
		.context = &from,
		.bytes = (uint64_t)from.file->status.st_size,
	};
	int rc = 0;

	for (size_t i = 0; i < archive->count && !rc; i++) {
		const struct flmem_archive_entry *entry = &archive->entries[i];

		if (pickles_only && !is_pickle(entry))
			continue;
		flmem_input_file_expect(from.file, entry->offset, entry->bytes);
		rc = flmem_archive_verify(&source, run->input.path, entry, err);
	}
	if (from.rc && err)
		*err = from.error;
	return from.rc ?: rc;
}

/* Bytes that are read once more, for the checksums stored in the archive. */
static uint64_t archive_bytes(const struct inspection_run *run)
{
	const struct flmem_archive *archive = &run->input.kind.archive;
	uint64_t bytes = 0;

	for (size_t i = 0; i < archive->count; i++)
		bytes += archive->entries[i].bytes; /* no overflow: entries do not overlap */
	return bytes;
}

static int read_data(struct inspection_run *run, struct flmem_inspection *inspection,
		     struct flmem_error *err)
{
	size_t next = 0;
	int rc = 0;

	for (size_t f = 0; f < inspection->file_count; f++)
		run->meter.total_bytes += inspection->files[f].bytes;
	run->meter.total_bytes += archive_bytes(run);
	for (size_t f = 0; f < inspection->file_count && !rc; f++) {
		struct flmem_inspected_file *file = &inspection->files[f];
		uint64_t at = 0;

		for (; !rc && next < run->list.count && run->order[next]->file == f; next++)
			rc = read_next(run, inspection, run->order[next], &at, err);
		if (!rc)
			rc = add_bytes(run, f, at, file->bytes, &file->crc32c, err);
	}
	inspection->has_data = true;
	if (!rc)
		rc = verify_entries(run, false, err);
	return rc ? rc : flmem_input_check(&run->input, err);
}

static int inspect_loaded(struct inspection_run *run, struct flmem_inspection *inspection,
			  struct flmem_error *err)
{
	const char *path = run->request->path;

	inspection->format = strcmp(run->input.files[0].path, run->input.path) != 0
				     ? "safetensors shards"
				     : flmem_tensor_format_name(run->input.kind.format);
	if (!fill_tensors(run, inspection) || !fill_files(run, inspection) || !make_order(run))
		return inspection_nomem(path, err);
	return run->request->headers_only ? 0 : read_data(run, inspection, err);
}

/* Measures a checkpoint from before PyTorch 1.6, which is one pickle. */
static int measure_pickle(const struct inspection_run *run, struct flmem_inspection *inspection,
			  struct flmem_error *err)
{
	struct flmem_model model;
	int rc = flmem_model_read(run->request->path, NULL, &model, err);

	if (rc)
		return rc;
	inspection->tensor_count = model.tensors;
	inspection->parameters = model.parameters;
	inspection->bytes = model.bytes;
	flmem_model_clear(&model);
	return 0;
}

/* Measures an archive by the sizes in its directory; a damaged archive is an error. */
static int measure_archive(struct inspection_run *run, struct flmem_inspection *inspection,
			   struct flmem_error *err)
{
	struct flmem_tensors tensors = {0};
	int rc;

	run->meter.total_bytes = archive_bytes(run);
	rc = verify_entries(run, run->request->headers_only, err);

	if (!rc)
		rc = flmem_checkpoint_add_archive(run->input.path, &run->input.kind.archive,
						  &tensors, err);
	if (!rc)
		rc = flmem_input_check(&run->input, err);
	if (rc)
		return rc;
	inspection->tensor_count = FLMEM_KNOWN(tensors.count);
	inspection->parameters = FLMEM_UNKNOWN("only its pickle contains the types");
	inspection->bytes = tensors.bytes;
	return 0;
}

/*
 * Reports only sizes, for a checkpoint whose pickle describes more than tensors; `why` is the
 * reason.
 */
static int inspect_sizes(struct inspection_run *run, const char *why,
			 struct flmem_inspection *inspection, struct flmem_error *err)
{
	int rc = run->input.kind.archive.count ? measure_archive(run, inspection, err)
					       : measure_pickle(run, inspection, err);

	if (rc)
		return rc;
	inspection->format = "PyTorch checkpoint";
	if (asprintf(&inspection->unlisted,
		     "names, types and shapes are in a pickle that does not describe a state "
		     "dict at its top level (%s)%s",
		     why, strstr(why, "--key") ? "" : "; name the dict with --key") < 0) {
		inspection->unlisted = NULL;
		return inspection_nomem(run->request->path, err);
	}
	return 0;
}

/*
 * Returns true for an archive whose tensors cannot be listed; archives that could not be read at
 * all have no entries here.
 */
static bool has_sizes_only(const struct inspection_run *run)
{
	const struct flmem_inspect_request *request = run->request;
	FLMEM_AUTO_CLOSE int fd = open(request->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	FLMEM_AUTO_ARCHIVE struct flmem_archive archive = {0};
	bool found;

	if (request->key || !is_checkpoint(request->path))
		return false;
	if (run->input.kind.archive.count)
		return true;
	return fd >= 0 &&
	       !flmem_archive_list(FLMEM_SOURCE_FD(fd), request->path, &archive, &found, NULL) &&
	       !found;
}

static int inspect_path(const struct flmem_inspect_request *request,
			struct flmem_inspection *inspection, struct flmem_error *err)
{
	AUTO_RUN struct inspection_run run = {
		.request = request,
		.meter = {.progress = request->progress,
			  .context = request->context,
			  .path = inspection->path,
			  .end = "read"},
	};
	struct flmem_error why = {0};
	int rc;

	flmem_progress_meter_start(&run.meter);
	run.access = (struct flmem_http_access){
		.options = request->http,
		.ended = flmem_progress_meter_has_ended,
		.context = &run.meter,
	};
	run.input.access = &run.access;
	run.input.key = request->key;
	rc = flmem_input_load(request->path, &run.input, &run.list, &why);
	if (!rc)
		return inspect_loaded(&run, inspection, err);
	if (rc == FLMEM_EUSAGE && has_sizes_only(&run))
		return inspect_sizes(&run, why.message, inspection, err);
	if (err)
		*err = why;
	return rc;
}

int flmem_inspect(const struct flmem_inspect_request *request,
		  struct flmem_inspection *ret_inspection, struct flmem_error *err)
{
	struct flmem_inspection inspection = {.path = flmem_url_show(request->path)};
	int rc;

	if (!inspection.path)
		return inspection_nomem(request->path, err);
	rc = inspect_path(request, &inspection, err);
	if (rc)
		flmem_inspection_clear(&inspection);
	else
		*ret_inspection = inspection;
	return rc;
}
