/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the header of a safetensors file: its length in 8 bytes, little-endian, then a JSON object
 * that maps each tensor to its type, shape and range of bytes. As in the format's own reader,
 * ranges must follow each other without holes and end with the file.
 */
#include <stdlib.h>
#include <string.h>

#include <flmem/text.h>

#include "base/bytes/little_endian.h"
#include "base/text/text.h"
#include "model/json_scan.h"
#include "model/tensor_list.h"
#include "model/tensors.h"

#define LENGTH_BYTES 8U

struct header_reader {
	const char *path;
	struct flmem_json_scan scan;
	struct flmem_tensor_list *list;
	struct flmem_error *err;
	bool noted; /* __metadata__ was read */
};

static int invalid_tensor(const struct header_reader *header, const char *tensor, const char *why)
{
	char shown[128];

	flmem_text_escape(tensor, shown, sizeof(shown));
	return flmem_error_set(header->err, FLMEM_EUSAGE, 0,
			       "'%s' is not a valid safetensors file: tensor '%s' %s", header->path,
			       shown, why);
}

static int invalid_syntax(const struct header_reader *header)
{
	return flmem_error_set(header->err, FLMEM_EUSAGE, 0,
			       "'%s' is not a valid safetensors file: its header %s at byte %zu",
			       header->path, header->scan.why,
			       (size_t)(header->scan.at - header->list->texts[0]) + LENGTH_BYTES);
}

static int safetensors_no_memory(const struct header_reader *header)
{
	return flmem_error_nomem(header->err, "cannot read the header of '%s'", header->path);
}

/* Makes room for one more element; the array doubles. */
static bool grow_header_array(void **array, size_t count, size_t *room, size_t size)
{
	size_t wanted = *room ? *room * 2 : 16;
	void *larger;

	if (count < *room)
		return true;
	larger = reallocarray(*array, wanted, size);
	if (!larger)
		return false;
	*array = larger;
	*room = wanted;
	return true;
}

static int read_shape(struct header_reader *header, struct flmem_tensor *tensor)
{
	struct flmem_tensor_list *list = header->list;
	uint64_t extent;
	char shown[128];

	tensor->shape = list->extent_count;
	if (!flmem_json_scan_take(&header->scan, '['))
		return invalid_tensor(header, tensor->name, "has no valid shape");
	if (flmem_json_scan_take(&header->scan, ']'))
		return 0;
	do {
		if (tensor->rank == FLMEM_TENSOR_RANK_MAX)
			return flmem_error_set(
				header->err, FLMEM_EUSAGE, 0,
				"'%s' cannot be read: tensor '%s' " FLMEM_TENSOR_RANK_WHY,
				header->path,
				flmem_text_escape(tensor->name, shown, sizeof(shown)));
		if (!flmem_json_scan_number(&header->scan, &extent))
			return invalid_tensor(header, tensor->name, "has no valid shape");
		if (!grow_header_array((void **)&list->extents, list->extent_count,
				       &list->extent_room, sizeof(*list->extents)))
			return safetensors_no_memory(header);
		list->extents[list->extent_count++] = extent;
		tensor->rank++;
	} while (flmem_json_scan_take(&header->scan, ','));
	return flmem_json_scan_expect(&header->scan, ']') ? 0 : invalid_syntax(header);
}

static int read_data_offsets(struct header_reader *header, struct flmem_tensor *tensor)
{
	uint64_t begin, end;

	if (!flmem_json_scan_take(&header->scan, '[') ||
	    !flmem_json_scan_number(&header->scan, &begin) ||
	    !flmem_json_scan_take(&header->scan, ',') ||
	    !flmem_json_scan_number(&header->scan, &end) ||
	    !flmem_json_scan_take(&header->scan, ']') || begin > end ||
	    end > header->list->data_bytes)
		return invalid_tensor(header, tensor->name,
				      "has no range of bytes inside the file");
	tensor->offset = header->list->data_offset + begin;
	tensor->bytes = end - begin;
	return 0;
}

enum {
	SEEN_DTYPE = 1,
	SEEN_SHAPE = 2,
	SEEN_RANGE = 4,
};

static int read_dtype(struct header_reader *header, struct flmem_tensor *tensor)
{
	const char *stored;

	if (!flmem_json_scan_string(&header->scan, &stored))
		return invalid_syntax(header);
	tensor->dtype = flmem_dtype_find(stored);
	return tensor->dtype ? 0 : invalid_tensor(header, tensor->name, "has no known dtype");
}

static int read_tensor_field(struct header_reader *header, struct flmem_tensor *tensor,
			     unsigned *seen)
{
	static const struct {
		const char *key;
		unsigned bit;
		int (*read)(struct header_reader *header, struct flmem_tensor *tensor);
	} fields[] = {
		{"dtype", SEEN_DTYPE, read_dtype},
		{"shape", SEEN_SHAPE, read_shape},
		{"data_offsets", SEEN_RANGE, read_data_offsets},
	};
	const char *key;

	if (!flmem_json_scan_string(&header->scan, &key) ||
	    !flmem_json_scan_expect(&header->scan, ':'))
		return invalid_syntax(header);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(fields); i++) {
		if (strcmp(key, fields[i].key) != 0)
			continue;
		if (*seen & fields[i].bit)
			return invalid_tensor(header, tensor->name, "has a field twice");
		*seen |= fields[i].bit;
		return fields[i].read(header, tensor);
	}
	return flmem_json_scan_skip(&header->scan) ? 0 : invalid_syntax(header);
}

/* The shape must fill the range exactly. */
static int check_tensor_size(const struct header_reader *header, const struct flmem_tensor *tensor)
{
	uint64_t elements = 1, bits;

	for (uint32_t i = 0; i < tensor->rank; i++)
		if (__builtin_mul_overflow(elements, header->list->extents[tensor->shape + i],
					   &elements))
			return invalid_tensor(header, tensor->name, "has no valid shape");
	if (__builtin_mul_overflow(elements, tensor->dtype->bits, &bits) || bits % 8 ||
	    bits / 8 != tensor->bytes)
		return invalid_tensor(header, tensor->name,
				      "has a shape that does not fill its range");
	return 0;
}

static int read_header_tensor(struct header_reader *header, const char *name)
{
	struct flmem_tensor_list *list = header->list;
	struct flmem_tensor tensor = {.name = name};
	unsigned seen = 0;
	int rc = 0;

	if (strlen(name) > FLMEM_TENSOR_NAME_MAX)
		return invalid_tensor(header, name, "has a name of more than 4096 bytes");
	if (!flmem_json_scan_take(&header->scan, '{'))
		return invalid_tensor(header, name, "has no dtype, shape and data_offsets");
	if (!flmem_json_scan_take(&header->scan, '}')) {
		do
			rc = read_tensor_field(header, &tensor, &seen);
		while (!rc && flmem_json_scan_take(&header->scan, ','));
		if (!rc && !flmem_json_scan_expect(&header->scan, '}'))
			rc = invalid_syntax(header);
	}
	if (!rc && seen != (SEEN_DTYPE | SEEN_SHAPE | SEEN_RANGE))
		rc = invalid_tensor(header, name, "has no dtype, shape and data_offsets");
	if (!rc)
		rc = check_tensor_size(header, &tensor);
	if (rc)
		return rc;
	if (!grow_header_array((void **)&list->tensors, list->count, &list->room,
			       sizeof(*list->tensors)))
		return safetensors_no_memory(header);
	list->tensors[list->count++] = tensor;
	return 0;
}

static int read_note(struct header_reader *header)
{
	struct flmem_tensor_list *list = header->list;
	struct flmem_tensor_note note;

	if (!flmem_json_scan_string(&header->scan, &note.key) ||
	    !flmem_json_scan_expect(&header->scan, ':') ||
	    !flmem_json_scan_string(&header->scan, &note.value))
		return invalid_syntax(header);
	if (!grow_header_array((void **)&list->notes, list->note_count, &list->note_room,
			       sizeof(*list->notes)))
		return safetensors_no_memory(header);
	list->notes[list->note_count++] = note;
	return 0;
}

/* __metadata__ may hold strings only. */
static int read_notes(struct header_reader *header)
{
	int rc;

	if (header->noted)
		return invalid_tensor(header, "__metadata__", "occurs twice");
	header->noted = true;
	if (!flmem_json_scan_expect(&header->scan, '{'))
		return invalid_syntax(header);
	if (flmem_json_scan_take(&header->scan, '}'))
		return 0;
	do
		rc = read_note(header);
	while (!rc && flmem_json_scan_take(&header->scan, ','));
	if (!rc && !flmem_json_scan_expect(&header->scan, '}'))
		rc = invalid_syntax(header);
	return rc;
}

static int read_header_entries(struct header_reader *header)
{
	const char *name;
	int rc;

	if (!flmem_json_scan_take(&header->scan, '{'))
		return flmem_error_set(
			header->err, FLMEM_EUSAGE, 0,
			"'%s' is not a safetensors file: its header is not an object",
			header->path);
	if (flmem_json_scan_take(&header->scan, '}'))
		return flmem_json_scan_ends(&header->scan) ? 0 : invalid_syntax(header);
	do {
		if (!flmem_json_scan_string(&header->scan, &name) ||
		    !flmem_json_scan_expect(&header->scan, ':'))
			return invalid_syntax(header);
		rc = strcmp(name, "__metadata__") == 0 ? read_notes(header)
						       : read_header_tensor(header, name);
		if (rc)
			return rc;
	} while (flmem_json_scan_take(&header->scan, ','));
	if (!flmem_json_scan_expect(&header->scan, '}') || !flmem_json_scan_ends(&header->scan))
		return invalid_syntax(header);
	return 0;
}

static int compare_tensor_offset(const void *a, const void *b)
{
	const struct flmem_tensor *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int check_ranges(const struct header_reader *header)
{
	struct flmem_tensor_list *list = header->list;
	const struct flmem_tensor *twice;
	uint64_t at = list->data_offset;

	if (list->count)
		qsort(list->tensors, list->count, sizeof(*list->tensors), compare_tensor_offset);
	for (size_t i = 0; i < list->count; i++) {
		if (list->tensors[i].offset != at)
			return invalid_tensor(header, list->tensors[i].name,
					      "overlaps another or leaves a hole");
		at += list->tensors[i].bytes;
	}
	if (at != list->data_offset + list->data_bytes)
		return flmem_error_set(header->err, FLMEM_EUSAGE, 0,
				       "'%s' is not a valid safetensors file: its tensors do not "
				       "end with the file; it may be truncated",
				       header->path);
	twice = flmem_tensor_list_sort(list);
	return twice ? invalid_tensor(header, twice->name, "occurs twice") : 0;
}

static int read_length(const struct flmem_source *source, const struct header_reader *header,
		       uint64_t file_bytes, uint64_t *ret_length)
{
	unsigned char raw[LENGTH_BYTES];
	uint64_t length;

	if (file_bytes < LENGTH_BYTES || !flmem_source_read_at(source, 0, raw, sizeof(raw)))
		return flmem_error_set(header->err, FLMEM_EUSAGE, 0,
				       "'%s' is not a safetensors file: too short", header->path);
	length = flmem_read_little(raw, sizeof(raw));
	if (length > file_bytes - LENGTH_BYTES)
		return flmem_error_set(header->err, FLMEM_EUSAGE, 0,
				       "'%s' is not a safetensors file, or is truncated: its "
				       "header ends after the end of the file",
				       header->path);
	if (length > FLMEM_SAFETENSORS_HEAD_MAX)
		return flmem_error_set(header->err, FLMEM_EUSAGE, 0,
				       "'%s' is not a valid safetensors file: its header is larger "
				       "than the %u bytes that the format allows",
				       header->path, FLMEM_SAFETENSORS_HEAD_MAX);
	*ret_length = length;
	return 0;
}

static int read_header_text(const struct flmem_source *source, struct header_reader *header,
			    uint64_t file_bytes)
{
	struct flmem_tensor_list *list = header->list;
	FLMEM_AUTO_FREE char *text = NULL;
	uint64_t length = 0;
	int rc = read_length(source, header, file_bytes, &length);

	if (rc)
		return rc;
	text = malloc((size_t)length + 1);
	list->texts = calloc(1, sizeof(*list->texts));
	if (!text || !list->texts)
		return safetensors_no_memory(header);
	if (!flmem_source_read_at(source, LENGTH_BYTES, text, (size_t)length))
		return flmem_error_set(header->err, FLMEM_EFAILED, 0,
				       "'%s' changed while it was read", header->path);
	text[length] = '\0';
	if (flmem_text_utf8_length(text) != length)
		return flmem_error_set(header->err, FLMEM_EUSAGE, 0,
				       "'%s' is not a valid safetensors file: its header is not "
				       "UTF-8 text",
				       header->path);
	flmem_json_scan_begin(&header->scan, text, (size_t)length);
	list->texts[list->text_count++] = FLMEM_TAKE(text);
	list->data_offset = LENGTH_BYTES + length;
	list->data_bytes = file_bytes - list->data_offset;
	return 0;
}

int flmem_safetensors_read(const struct flmem_source *source, const char *path,
			   struct flmem_tensor_list *ret_list, struct flmem_error *err)
{
	FLMEM_AUTO_TENSOR_LIST struct flmem_tensor_list list = {0};
	struct header_reader header = {.path = path, .list = &list, .err = err};
	uint64_t file_bytes;
	int rc = flmem_source_size(source, &file_bytes);

	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot read '%s'", path);
	rc = read_header_text(source, &header, file_bytes);
	if (!rc)
		rc = read_header_entries(&header);
	if (!rc)
		rc = check_ranges(&header);
	if (rc)
		return flmem_source_end(source, path, rc, err);
	*ret_list = list;
	list = (struct flmem_tensor_list){0};
	return 0;
}

static void sum_tensor(struct flmem_tensors *sum, const struct flmem_tensor *tensor)
{
	sum->elements += tensor->bytes * 8 / tensor->dtype->bits; /* no overflow within one file */
	if (tensor->bytes > sum->largest_bytes)
		sum->largest_bytes = tensor->bytes;
	sum->mixed |= sum->dtype && sum->dtype != tensor->dtype;
	sum->dtype = tensor->dtype;
}

int flmem_safetensors_add(int fd, const char *path, struct flmem_tensors *tensors,
			  struct flmem_error *err)
{
	FLMEM_AUTO_TENSOR_LIST struct flmem_tensor_list list = {0};
	struct flmem_tensors file = {0}, sum = *tensors;
	int rc = flmem_safetensors_read(FLMEM_SOURCE_FD(fd), path, &list, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < list.count; i++)
		sum_tensor(&file, &list.tensors[i]);
	if (__builtin_add_overflow(sum.bytes, list.data_bytes, &sum.bytes) ||
	    __builtin_add_overflow(sum.elements, file.elements, &sum.elements))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' and its shards exceed the memory of any machine",
				       path);
	sum.count += list.count;
	if (file.largest_bytes > sum.largest_bytes)
		sum.largest_bytes = file.largest_bytes;
	sum.mixed |= file.mixed || (sum.dtype && file.dtype && sum.dtype != file.dtype);
	if (file.dtype)
		sum.dtype = file.dtype;
	*tensors = sum;
	return 0;
}
