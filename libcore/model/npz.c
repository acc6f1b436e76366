/* SPDX-License-Identifier: Apache-2.0 */
#include "model/npz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/text.h>

#include "base/bytes/little_endian.h"
#include "base/text/text.h"

#define SUFFIX	    ".npy"
#define MAGIC	    "\x93NUMPY"
#define HEADER_MAX  4096U
#define FIXED_BYTES 10U /* length of magic, version, and length in 16 bits */
#define ALIGNMENT   64U
#define FLAG_UTF8   0x800U

/* The names that NumPy writes for little-endian arrays of each type. */
static const struct {
	const char *descr, *stored;
} types[] = {
	{"<f2", "F16"}, {"<f4", "F32"},	 {"<f8", "F64"}, {"<i8", "I64"}, {"<i4", "I32"},
	{"<i2", "I16"}, {"|i1", "I8"},	 {"<u8", "U64"}, {"<u4", "U32"}, {"<u2", "U16"},
	{"|u1", "U8"},	{"|b1", "BOOL"}, {"<c8", "C64"},
};

struct npz {
	const char *path;
	const struct flmem_archive_entry *entry;
	struct flmem_tensor_list list;
	struct flmem_error *err;
};

static void clear_npz(struct npz *npz)
{
	flmem_tensor_list_clear(&npz->list);
}

static int bad_array(const struct npz *npz, const char *why)
{
	return flmem_archive_entry_invalid(npz->path, npz->entry, why, npz->err);
}

bool flmem_npz_is(const struct flmem_archive *archive)
{
	for (size_t i = 0; i < archive->count; i++)
		if (!flmem_text_ends(archive->entries[i].name, SUFFIX))
			return false;
	return archive->count > 0;
}

/* Skips `text` and the spaces after it; false if something else follows. */
static bool take_npy_text(const char **at, const char *text)
{
	if (!flmem_text_starts(*at, text))
		return false;
	*at += strlen(text);
	*at += strspn(*at, " ");
	return true;
}

/* `descr`: the type, and what follows it. */
static int refuse_npy_type(const struct npz *npz, const char *descr)
{
	const char *end = strstr(descr, ", 'fortran_order'");
	char type[60], shown[100], why[200];

	snprintf(type, sizeof(type), "%.*s", end ? (int)(end - descr) : (int)sizeof(type), descr);
	snprintf(why, sizeof(why), "has elements of type %s, which is not supported",
		 flmem_text_escape(type, shown, sizeof(shown)));
	return bad_array(npz, why);
}

static const struct flmem_dtype *parse_npy_type(const char **at, bool *ret_big)
{
	char descr[4] = "";

	*ret_big = false;
	if (!take_npy_text(at, "'") || strcspn(*at, "'") != 3 || (*at)[3] != '\'')
		return NULL;
	memcpy(descr, *at, 3);
	*at += 3;
	if (!take_npy_text(at, "'"))
		return NULL;
	*ret_big = descr[0] == '>';
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(types); i++)
		if (strcmp(types[i].descr, descr) == 0)
			return flmem_dtype_find(types[i].stored);
	return NULL;
}

/*
 * Parses a shape, "(2, 3)", "(2,)" or "()"; "(2)" is a number of Python, which NumPy refuses as
 * well.
 */
static bool parse_npy_shape(const char **at, struct flmem_tensor_list *list,
			    struct flmem_tensor *tensor)
{
	bool comma = true;

	tensor->shape = list->extent_count;
	if (!take_npy_text(at, "("))
		return false;
	while (!take_npy_text(at, ")")) {
		uint64_t extent;

		/* A leading zero as in 02 is not a number of Python. */
		if (tensor->rank == FLMEM_TENSOR_RANK_MAX ||
		    (**at == '0' && (*at)[1] >= '1' && (*at)[1] <= '9') ||
		    !flmem_text_read_digits(at, &extent))
			return false;
		list->extents[list->extent_count++] = extent;
		tensor->rank++;
		comma = take_npy_text(at, ",");
		if (!comma && **at != ')')
			return false;
	}
	return comma || tensor->rank > 1;
}

/* Parses the dict of the header, whose keys are in this order, sorted. */
static int parse_npy_header(struct npz *npz, const char *at, struct flmem_tensor *tensor)
{
	const char *descr;
	bool big;

	if (!take_npy_text(&at, "{") || !take_npy_text(&at, "'descr'") || !take_npy_text(&at, ":"))
		return bad_array(npz, "has no valid header");
	descr = at;
	tensor->dtype = parse_npy_type(&at, &big);
	if (big)
		return bad_array(npz, "is big-endian; save it with "
				      "a.astype(a.dtype.newbyteorder('<'))");
	if (!tensor->dtype)
		return refuse_npy_type(npz, descr);
	if (!take_npy_text(&at, ",") || !take_npy_text(&at, "'fortran_order'") ||
	    !take_npy_text(&at, ":"))
		return bad_array(npz, "has no valid header");
	if (take_npy_text(&at, "True"))
		return bad_array(npz, "is in Fortran order; save it with "
				      "numpy.ascontiguousarray()");
	if (!take_npy_text(&at, "False") || !take_npy_text(&at, ",") ||
	    !take_npy_text(&at, "'shape'") || !take_npy_text(&at, ":") ||
	    !parse_npy_shape(&at, &npz->list, tensor))
		return bad_array(npz, tensor->rank == FLMEM_TENSOR_RANK_MAX
					      ? FLMEM_TENSOR_RANK_WHY
					      : "has no valid header");
	take_npy_text(&at, ",");
	return take_npy_text(&at, "}") && strcmp(at, "\n") == 0
		       ? 0
		       : bad_array(npz, "has no valid header");
}

/* Reads the text of the header and the offset of the elements. */
static int read_npy_header(const struct flmem_source *source, struct npz *npz, char *text,
			   uint64_t *ret_begin)
{
	const struct flmem_archive_entry *entry = npz->entry;
	unsigned char fixed[12];
	uint64_t length, size;

	if (entry->bytes < sizeof(fixed) ||
	    !flmem_source_read_at(source, entry->offset, fixed, sizeof(fixed)) ||
	    memcmp(fixed, MAGIC, 6) != 0)
		return bad_array(npz, "is not a NumPy array");
	if (fixed[6] < 1 || fixed[6] > 3 || fixed[7] != 0)
		return bad_array(npz, "has an unknown version of the format");
	size = fixed[6] == 1 ? 2 : 4;
	length = flmem_read_little(fixed + 8, size);
	if (length >= HEADER_MAX || length > entry->bytes - 8 - size)
		return bad_array(npz, "has a header that is too long");
	if (!flmem_source_read_at(source, entry->offset + 8 + size, text, (size_t)length))
		return bad_array(npz, "has a header that cannot be read");
	if (memchr(text, '\0', (size_t)length))
		return bad_array(npz, "has no valid header");
	text[length] = '\0';
	*ret_begin = 8 + size + length;
	return 0;
}

/* Copies the entry's name without the suffix to the list's text. */
static const char *copy_name(const struct npz *npz, char **names)
{
	size_t length = strlen(npz->entry->name) - strlen(SUFFIX);
	const char *name = *names;

	memcpy(*names, npz->entry->name, length);
	(*names)[length] = '\0';
	*names += length + 1;
	return name;
}

/*
 * Reports whether the encoding of a name is known. Names that are not ASCII are UTF-8 with a flag,
 * else in an encoding of the writer's choice.
 */
static bool has_known_name(const struct flmem_archive_entry *entry)
{
	bool ascii = true;

	for (const char *at = entry->name; *at; at++)
		ascii &= (unsigned char)*at < 0x80;
	return ascii || ((entry->flags & FLAG_UTF8) && flmem_text_is_utf8(entry->name));
}

static int read_npy_array(const struct flmem_source *source, struct npz *npz, char **names)
{
	struct flmem_tensor *tensor = &npz->list.tensors[npz->list.count];
	uint64_t begin = 0, bytes;
	char text[HEADER_MAX + 1];
	int rc;

	if (!has_known_name(npz->entry))
		return bad_array(npz, "has a name whose encoding is unknown, which readers read "
				      "differently");
	rc = read_npy_header(source, npz, text, &begin);

	if (!rc)
		rc = parse_npy_header(npz, text, tensor);
	if (rc || !tensor->dtype)
		return rc;
	bytes = tensor->dtype->bits / 8;
	for (uint32_t i = 0; i < tensor->rank; i++)
		if (__builtin_mul_overflow(bytes, npz->list.extents[tensor->shape + i], &bytes))
			return bad_array(npz, "has no valid shape");
	if (bytes != npz->entry->bytes - begin)
		return bad_array(npz, "has a shape that does not fill it");
	tensor->name = copy_name(npz, names);
	tensor->offset = npz->entry->offset + begin;
	tensor->bytes = bytes;
	npz->list.data_bytes += bytes; /* no overflow: entries do not overlap */
	npz->list.count++;
	return 0;
}

static bool make_arrays(struct npz *npz, const struct flmem_archive *archive)
{
	size_t length = 1;

	for (size_t i = 0; i < archive->count; i++)
		length += strlen(archive->entries[i].name) + 1;
	npz->list.tensors = calloc(archive->count + 1, sizeof(*npz->list.tensors));
	npz->list.extents =
		calloc(archive->count * FLMEM_TENSOR_RANK_MAX + 1, sizeof(*npz->list.extents));
	npz->list.texts = calloc(1, sizeof(*npz->list.texts));
	if (!npz->list.tensors || !npz->list.extents || !npz->list.texts)
		return false;
	npz->list.texts[0] = malloc(length);
	npz->list.text_count = npz->list.texts[0] != NULL;
	return npz->list.texts[0];
}

int flmem_npz_read(const struct flmem_source *source, const char *path,
		   const struct flmem_archive *archive, struct flmem_tensor_list *ret_list,
		   struct flmem_error *err)
{
	FLMEM_AUTO(clear_npz) struct npz npz = {.path = path, .err = err};
	char *names;
	int rc = 0;

	if (!make_arrays(&npz, archive))
		return flmem_error_nomem(err, "cannot list the tensors of '%s'", path);
	names = npz.list.texts[0];
	for (size_t i = 0; i < archive->count && !rc; i++) {
		npz.entry = &archive->entries[i];
		rc = read_npy_array(source, &npz, &names);
	}
	if (rc)
		return rc;
	/* The entries have different names, so the arrays do. */
	flmem_tensor_list_sort(&npz.list);
	*ret_list = npz.list;
	npz.list = (struct flmem_tensor_list){0};
	return 0;
}

static const char *descr_of(const struct flmem_dtype *dtype)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(types); i++)
		if (strcmp(types[i].stored, dtype->stored) == 0)
			return types[i].descr;
	return NULL;
}

bool flmem_npz_print(const struct flmem_tensor_list *list, const struct flmem_tensor *tensor,
		     struct flmem_buf *buf)
{
	const char *descr = descr_of(tensor->dtype);
	size_t start = buf->length, length;

	if (!descr)
		return false;
	flmem_buf_append(buf, MAGIC "\1\0\0\0", FIXED_BYTES);
	flmem_buf_printf(buf, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
	for (uint32_t i = 0; i < tensor->rank; i++)
		flmem_buf_printf(buf, "%s%llu%s", i ? " " : "",
				 (unsigned long long)list->extents[tensor->shape + i],
				 i + 1 < tensor->rank || tensor->rank == 1 ? "," : "");
	flmem_buf_puts(buf, "), }");
	while (!buf->failed && (buf->length - start + 1) % ALIGNMENT)
		flmem_buf_putc(buf, ' ');
	flmem_buf_putc(buf, '\n');
	length = buf->length - start - FIXED_BYTES;
	if (!buf->failed)
		flmem_write_little(buf->data + start + 8, length, 2);
	return true;
}
