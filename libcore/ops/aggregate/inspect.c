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
#include "ops/aggregate/ordered_work.h"
#include "ops/aggregate/progress_meter.h"
#include "ops/aggregate/threads.h"

#define PIECE_BYTES  (UINT64_C(1) << 20) /* bytes of a tensor that one thread reads at a time */
#define BLOCK_BYTES  (UINT64_C(256) << 10)
#define ROW_ELEMENTS ((size_t)8192)

/* Place of the next piece: tensors by their order, and between them the rest of each file. */
struct inspected_place {
	size_t file;
	uint64_t at;   /* the file's checksum is known up to here */
	size_t next;   /* tensor */
	uint64_t done; /* bytes of that tensor that are taken */
};

/* State of one call. */
struct inspection_run {
	const struct flmem_inspect_request *request;
	struct flmem_input input;
	struct flmem_http_access access;
	struct flmem_progress_meter meter;
	struct flmem_tensor_list list;
	const struct flmem_tensor **order; /* sorted by their places in the files */
	struct inspected_place place;
	struct flmem_statistics statistics; /* of the tensor that is joined */
	struct flmem_inspection *inspection;
};

/* Contiguous bytes, of a tensor or of none, and what one thread has found out about them. */
struct inspected_piece {
	const struct flmem_tensor *tensor;
	size_t file;
	uint64_t offset, bytes;
	bool continues; /* the file's checksum is known up to here */
	uint32_t crc32c;
	struct flmem_statistics statistics;
};

/* Memory of one thread. */
struct inspected_room {
	double row[ROW_ELEMENTS];
	char block[BLOCK_BYTES];
};

static void clear_inspection(struct inspection_run *run)
{
	flmem_inputs_clear(&run->input, 1);
	flmem_tensor_list_clear(&run->list);
	free(run->order);
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

static struct flmem_tensor_statistics statistics_of(const struct flmem_statistics *s)
{
	return (struct flmem_tensor_statistics){
		.min = s->finite ? s->min : __builtin_nan(""),
		.max = s->finite ? s->max : __builtin_nan(""),
		.mean = flmem_statistics_mean(s),
		.norm = flmem_statistics_norm(s),
		.nans = s->nans,
		.infinities = s->infinities,
	};
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
		.statistics = statistics_of(&(struct flmem_statistics){0}),
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
	if (!run->order)
		return false;
	for (size_t i = 0; i < run->list.count; i++)
		run->order[i] = &run->list.tensors[i];
	if (run->list.count)
		qsort(run->order, run->list.count, sizeof(*run->order), compare_tensor_places);
	return true;
}

static void make_piece(struct inspection_run *run, const struct flmem_tensor *tensor,
		       uint64_t offset, uint64_t end, struct inspected_piece *ret_piece)
{
	struct inspected_place *place = &run->place;
	uint64_t bytes = end - offset < PIECE_BYTES ? end - offset : PIECE_BYTES;

	*ret_piece = (struct inspected_piece){
		.tensor = tensor,
		.file = place->file,
		.offset = offset,
		.bytes = bytes,
		.continues = offset == place->at,
	};
	place->at += ret_piece->continues ? bytes : 0;
	place->done += tensor ? bytes : 0;
}

/*
 * Takes the next piece: all bytes of each tensor, and each byte of the files. Tensors may share
 * bytes; what of a tensor's end is new to the file is then taken once more, as bytes of none.
 */
static bool take_inspected(void *context, void *ret_piece, uint64_t *ret_bytes)
{
	struct inspection_run *run = context;
	struct inspected_place *place = &run->place;
	struct inspected_piece *piece = ret_piece;

	piece->bytes = 0;
	while (!piece->bytes && place->file < run->inspection->file_count) {
		const struct flmem_tensor *tensor =
			place->next < run->list.count ? run->order[place->next] : NULL;
		uint64_t end = run->inspection->files[place->file].bytes;

		if (tensor && tensor->file == place->file)
			end = tensor->offset + (place->done == tensor->bytes ? tensor->bytes : 0);
		else
			tensor = NULL;
		if (place->at < end) {
			make_piece(run, NULL, place->at, end, piece);
		} else if (!tensor) {
			place->file++;
			place->at = 0;
		} else if (place->done < tensor->bytes) {
			make_piece(run, tensor, tensor->offset + place->done,
				   tensor->offset + tensor->bytes, piece);
		} else {
			place->next++;
			place->done = 0;
		}
	}
	*ret_bytes = piece->bytes;
	return piece->bytes;
}

static void add_piece_statistics(struct inspected_piece *piece, struct inspected_room *room,
				 size_t bytes)
{
	enum flmem_element element = flmem_element_find(piece->tensor->dtype->stored);
	size_t size = flmem_element_bytes(element);

	for (size_t at = 0, count; at < bytes; at += count * size) {
		count = (bytes - at) / size < ROW_ELEMENTS ? (bytes - at) / size : ROW_ELEMENTS;
		flmem_kernels_best()->load[element](room->block + at, room->row, count);
		flmem_statistics_add(&piece->statistics, room->row, count);
	}
}

static int inspect_piece(const void *context, void *room, void *inspected, struct flmem_error *err)
{
	const struct inspection_run *run = context;
	struct inspected_piece *piece = inspected;
	struct inspected_room *own = room;
	bool counted = piece->tensor && !lack_of_statistics(run, piece->tensor);

	for (uint64_t at = 0, bytes; at < piece->bytes; at += bytes) {
		int rc;

		bytes = piece->bytes - at < BLOCK_BYTES ? piece->bytes - at : BLOCK_BYTES;
		rc = flmem_input_file_read(&run->input.files[piece->file], piece->offset + at,
					   bytes, own->block, err);
		if (rc)
			return rc;
		piece->crc32c = flmem_crc32c(piece->crc32c, own->block, (size_t)bytes);
		if (counted)
			add_piece_statistics(piece, own, (size_t)bytes);
	}
	return 0;
}

static int join_inspected(void *context, const void *inspected, struct flmem_error *err)
{
	struct inspection_run *run = context;
	const struct inspected_piece *piece = inspected;
	struct flmem_inspected_file *file = &run->inspection->files[piece->file];
	struct flmem_inspected_tensor *out;

	(void)err;
	if (piece->continues)
		file->crc32c = flmem_crc32c_join(file->crc32c, piece->crc32c, piece->bytes);
	if (!piece->tensor)
		return 0;
	out = &run->inspection->tensors[piece->tensor - run->list.tensors];
	out->crc32c = flmem_crc32c_join(out->crc32c, piece->crc32c, piece->bytes);
	if (piece->offset == piece->tensor->offset)
		run->statistics = (struct flmem_statistics){0};
	flmem_statistics_join(&run->statistics, &piece->statistics);
	out->statistics = statistics_of(&run->statistics);
	return 0;
}

static int inspect_data(struct inspection_run *run, struct flmem_error *err)
{
	const struct flmem_ordered_work work = {
		.take = take_inspected,
		.work = inspect_piece,
		.join = join_inspected,
		.context = run,
		.piece_size = sizeof(struct inspected_piece),
		.room_bytes = sizeof(struct inspected_room),
		.threads = flmem_threads_count_readers(run->request->threads,
						       run->meter.total_bytes, run->input.http),
		.meter = &run->meter,
	};

	return flmem_ordered_work(&work, err);
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
	int rc;

	for (size_t f = 0; f < inspection->file_count; f++)
		run->meter.total_bytes += inspection->files[f].bytes;
	run->meter.total_bytes += archive_bytes(run);
	run->inspection = inspection;
	rc = inspect_data(run, err);
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
	rc = flmem_threads_check(request->threads, err) ?: inspect_path(request, &inspection, err);
	if (rc)
		flmem_inspection_clear(&inspection);
	else
		*ret_inspection = inspection;
	return rc;
}
