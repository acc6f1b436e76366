/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a safetensors file: its length in 8 bytes, little-endian, then a JSON object that
 * maps each tensor to its type, shape and range of bytes. As the format's own reader does, ranges
 * must follow each other without holes and end with the file.
 */
#include "model/tensors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "documents/document.h"

#define LENGTH_BYTES 8U
#define RANK_MAX     16U

const struct flmem_dtype flmem_dtypes[] = {
	{"fp32", "F32", 32},
	{"fp16", "F16", 16},
	{"bf16", "BF16", 16},
	{"fp64", "F64", 64},
	{"fp8-e4m3", "F8_E4M3", 8},
	{"fp8-e5m2", "F8_E5M2", 8},
	{"fp8-e8m0", "F8_E8M0", 8},
	{"fp4", "F4", 4},
	{"int64", "I64", 64},
	{"int32", "I32", 32},
	{"int16", "I16", 16},
	{"int8", "I8", 8},
	{"uint64", "U64", 64},
	{"uint32", "U32", 32},
	{"uint16", "U16", 16},
	{"uint8", "U8", 8},
	{"bool", "BOOL", 8},
	{"complex64", "C64", 64},
	{NULL, NULL, 0},
};

/* The range of a tensor, and its name to find duplicates. */
struct range {
	uint64_t begin, end;
	const char *name;
};

struct header {
	const char *path;
	uint64_t data_bytes;
	struct range *ranges;
	size_t count;
	struct flmem_tensors sum;
};

const struct flmem_dtype *flmem_dtype_find(const char *name)
{
	for (const struct flmem_dtype *d = flmem_dtypes; d->name; d++)
		if (strcmp(d->name, name) == 0 || strcmp(d->stored, name) == 0)
			return d;
	return NULL;
}

static int invalid_tensor(const struct header *header, const char *tensor, const char *why,
			  struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "'%s' is not a valid safetensors file: tensor '%.80s' %s",
			       header->path, tensor, why);
}

static bool whole_number(const struct flmem_node *node, uint64_t *ret_value)
{
	int64_t value;

	if (!flmem_node_integer(node, &value) || value < 0)
		return false;
	*ret_value = (uint64_t)value;
	return true;
}

static bool count_elements(const struct flmem_node *shape, uint64_t *ret_elements)
{
	uint64_t elements = 1, extent;
	unsigned rank = 0;

	if (!flmem_node_is_kind(shape, FLMEM_NODE_LIST))
		return false;
	for (const struct flmem_node *n = flmem_node_first(shape); n; n = n->next)
		if (rank++ == RANK_MAX || !whole_number(n, &extent) ||
		    __builtin_mul_overflow(elements, extent, &elements))
			return false;
	*ret_elements = elements;
	return true;
}

static bool read_range(const struct flmem_node *list, struct range *range)
{
	const struct flmem_node *first = flmem_node_first(list);

	return flmem_node_is_kind(list, FLMEM_NODE_LIST) && first && first->next &&
	       !first->next->next && whole_number(first, &range->begin) &&
	       whole_number(first->next, &range->end) && range->begin <= range->end;
}

static int add_tensor(struct header *header, const struct flmem_node *node, struct flmem_error *err)
{
	const char *stored = flmem_node_string(flmem_node_get(node, "dtype"));
	const struct flmem_dtype *dtype = stored ? flmem_dtype_find(stored) : NULL;
	struct range *range = &header->ranges[header->count];
	uint64_t elements, bits;

	if (!dtype)
		return invalid_tensor(header, node->key, "has no known dtype", err);
	if (!count_elements(flmem_node_get(node, "shape"), &elements))
		return invalid_tensor(header, node->key, "has no valid shape", err);
	if (!read_range(flmem_node_get(node, "data_offsets"), range) ||
	    range->end > header->data_bytes)
		return invalid_tensor(header, node->key, "has no range of bytes inside the file",
				      err);
	if (__builtin_mul_overflow(elements, dtype->bits, &bits) || bits % 8 ||
	    bits / 8 != range->end - range->begin)
		return invalid_tensor(header, node->key, "has a shape that does not fill its range",
				      err);
	range->name = node->key;
	header->count++;
	header->sum.elements += elements; /* each of 4 bits or more, inside one file */
	if (bits / 8 > header->sum.largest_bytes)
		header->sum.largest_bytes = bits / 8;
	header->sum.mixed |= header->sum.dtype && header->sum.dtype != dtype;
	header->sum.dtype = dtype;
	return 0;
}

static int compare_begin(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

static int compare_name(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int check_ranges(struct header *header, struct flmem_error *err)
{
	struct range *ranges = header->ranges;
	uint64_t at = 0;

	qsort(ranges, header->count, sizeof(*ranges), compare_begin);
	for (size_t i = 0; i < header->count; i++) {
		if (ranges[i].begin != at)
			return invalid_tensor(header, ranges[i].name,
					      "overlaps another or leaves a hole", err);
		at = ranges[i].end;
	}
	if (at != header->data_bytes)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is not a valid safetensors file: its tensors do not "
				       "end with the file; it may be truncated",
				       header->path);
	qsort(ranges, header->count, sizeof(*ranges), compare_name);
	for (size_t i = 1; i < header->count; i++)
		if (strcmp(ranges[i - 1].name, ranges[i].name) == 0)
			return invalid_tensor(header, ranges[i].name, "occurs twice", err);
	return 0;
}

static int add_all(struct header *header, const struct flmem_document *document,
		   struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct range *ranges = calloc(document->node_count + 1, sizeof(*ranges));
	int rc = 0;

	if (!ranges)
		return flmem_error_set(err, FLMEM_EFAILED, 0, "out of memory");
	header->ranges = ranges;
	if (!flmem_node_is_kind(document->root, FLMEM_NODE_MAP))
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"'%s' is not a safetensors file: its header is not an object",
			header->path);
	for (const struct flmem_node *n = flmem_node_first(document->root); n && !rc; n = n->next)
		if (strcmp(n->key, "__metadata__") != 0)
			rc = add_tensor(header, n, err);
	return rc ? rc : check_ranges(header, err);
}

static int read_header(int fd, struct header *header, uint64_t file_bytes, struct flmem_buf *text,
		       struct flmem_error *err)
{
	unsigned char raw[LENGTH_BYTES];
	uint64_t length = 0;

	if (file_bytes < LENGTH_BYTES || !flmem_io_read_at(fd, 0, raw, sizeof(raw)))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is not a safetensors file: too short", header->path);
	for (size_t i = LENGTH_BYTES; i-- > 0;)
		length = length << 8 | raw[i];
	if (length > file_bytes - LENGTH_BYTES)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is not a safetensors file, or is truncated: its "
				       "header ends after the end of the file",
				       header->path);
	if (length > FLMEM_TENSORS_HEADER_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' has a header of more than %u MiB, which is not read; "
				       "give --params and --dtype instead",
				       header->path, FLMEM_TENSORS_HEADER_MAX >> 20);
	if (!flmem_buf_reserve(text, (size_t)length))
		return flmem_error_set(err, FLMEM_EFAILED, 0, "out of memory");
	if (!flmem_io_read_at(fd, LENGTH_BYTES, text->data, (size_t)length))
		return flmem_error_set(err, FLMEM_EFAILED, 0, "'%s' changed while it was read",
				       header->path);
	text->length = (size_t)length;
	text->data[text->length] = '\0';
	header->data_bytes = file_bytes - LENGTH_BYTES - length;
	return 0;
}

static int merge_file(struct flmem_tensors *all, const struct header *header,
		      struct flmem_error *err)
{
	struct flmem_tensors sum = *all;

	if (__builtin_add_overflow(sum.bytes, header->data_bytes, &sum.bytes) ||
	    __builtin_add_overflow(sum.elements, header->sum.elements, &sum.elements))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' and its shards exceed the memory of any machine",
				       header->path);
	sum.count += header->count;
	if (header->sum.largest_bytes > sum.largest_bytes)
		sum.largest_bytes = header->sum.largest_bytes;
	sum.mixed |= header->sum.mixed ||
		     (sum.dtype && header->sum.dtype && sum.dtype != header->sum.dtype);
	if (header->sum.dtype)
		sum.dtype = header->sum.dtype;
	*all = sum;
	return 0;
}

int flmem_safetensors_add(int fd, const char *path, struct flmem_tensors *tensors,
			  struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	struct header header = {.path = path};
	struct stat status;
	int rc;

	flmem_buf_init(&document.text);
	if (fstat(fd, &status) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot read '%s'", path);
	rc = read_header(fd, &header, (uint64_t)status.st_size, &text, err);
	if (rc)
		return rc;
	rc = flmem_document_read(FLMEM_SYNTAX_JSON, &text, &document, err);
	if (rc)
		return flmem_error_prefix(err, rc, "'%s' is not a valid safetensors file", path);
	rc = add_all(&header, &document, err);
	return rc ? rc : merge_file(tensors, &header, err);
}
