/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a NumPy archive as output, as numpy.savez() does: one stored entry per tensor, with sizes
 * and places of 64 bits where they do not fit 32 (APPNOTE.TXT 4.3, 4.5.3).
 */
#include <stdlib.h>
#include <string.h>

#include <flmem/text.h>

#include "base/bytes/little_endian.h"
#include "base/text/text.h"
#include "model/npz.h"
#include "ops/aggregate/output.h"

#define LOCAL_MARK	0x04034b50U
#define RECORD_MARK	0x02014b50U
#define END_MARK	0x06054b50U
#define LOCATOR_MARK	0x07064b50U
#define END64_MARK	0x06064b50U
#define LARGE		0xffffffffU
#define MANY		0xffffU
#define EXTRA_SIZES	1U
#define VERSION		45U /* version of the format with sizes of 64 bits */
#define FLAG_UTF8	(1U << 11)
#define FIRST_DAY	0x21U /* 1 January 1980, the first day of the format */
#define LOCAL_CHECKSUM	14U
#define RECORD_CHECKSUM 16U

static void put_npz_number(struct flmem_buf *buf, uint64_t value, size_t bytes)
{
	char raw[8];

	flmem_write_little(raw, value, sizeof(raw));
	flmem_buf_append(buf, raw, bytes);
}

static uint64_t short_size(uint64_t size)
{
	return size < LARGE ? size : LARGE;
}

/*
 * Writes the fields that a local header and a record have in common, up to the length of the name.
 */
static void put_common(struct flmem_buf *buf, uint64_t size, size_t name_bytes)
{
	put_npz_number(buf, VERSION, 2);
	put_npz_number(buf, FLAG_UTF8, 2);
	put_npz_number(buf, 0, 2); /* method: stored */
	put_npz_number(buf, 0, 2);
	put_npz_number(buf, FIRST_DAY, 2);
	put_npz_number(buf, 0, 4); /* checksum, written later */
	put_npz_number(buf, short_size(size), 4);
	put_npz_number(buf, short_size(size), 4);
	put_npz_number(buf, name_bytes, 2);
}

static void put_local(struct flmem_buf *buf, const char *name, uint64_t size)
{
	bool large = size >= LARGE;

	put_npz_number(buf, LOCAL_MARK, 4);
	put_common(buf, size, strlen(name) + 4);
	put_npz_number(buf, large ? 20 : 0, 2);
	flmem_buf_printf(buf, "%s.npy", name);
	if (!large)
		return;
	put_npz_number(buf, EXTRA_SIZES, 2);
	put_npz_number(buf, 16, 2);
	put_npz_number(buf, size, 8);
	put_npz_number(buf, size, 8);
}

static void put_record(struct flmem_buf *buf, const char *name, uint64_t size, uint64_t at)
{
	size_t extra = (size >= LARGE ? 16U : 0U) + (at >= LARGE ? 8U : 0U);

	put_npz_number(buf, RECORD_MARK, 4);
	put_npz_number(buf, VERSION, 2);
	put_common(buf, size, strlen(name) + 4);
	put_npz_number(buf, extra ? extra + 4 : 0, 2);
	put_npz_number(buf, 0, 6);
	put_npz_number(buf, 0, 4);
	put_npz_number(buf, short_size(at), 4);
	flmem_buf_printf(buf, "%s.npy", name);
	if (!extra)
		return;
	put_npz_number(buf, EXTRA_SIZES, 2);
	put_npz_number(buf, extra, 2);
	for (int i = 0; i < 2 && size >= LARGE; i++)
		put_npz_number(buf, size, 8);
	if (at >= LARGE)
		put_npz_number(buf, at, 8);
}

static void put_end(struct flmem_buf *buf, size_t count, uint64_t at, uint64_t bytes)
{
	bool large = count >= MANY || at >= LARGE || bytes >= LARGE;

	if (large) {
		put_npz_number(buf, END64_MARK, 4);
		put_npz_number(buf, 44, 8);
		put_npz_number(buf, VERSION, 2);
		put_npz_number(buf, VERSION, 2);
		put_npz_number(buf, 0, 8);
		put_npz_number(buf, count, 8);
		put_npz_number(buf, count, 8);
		put_npz_number(buf, bytes, 8);
		put_npz_number(buf, at, 8);
		put_npz_number(buf, LOCATOR_MARK, 4);
		put_npz_number(buf, 0, 4);
		put_npz_number(buf, at + bytes, 8);
		put_npz_number(buf, 1, 4);
	}
	put_npz_number(buf, END_MARK, 4);
	put_npz_number(buf, 0, 4);
	put_npz_number(buf, count < MANY ? count : MANY, 2);
	put_npz_number(buf, count < MANY ? count : MANY, 2);
	put_npz_number(buf, short_size(bytes), 4);
	put_npz_number(buf, large ? LARGE : at, 4);
	put_npz_number(buf, 0, 2);
}

static int report_unfit(const struct flmem_output *output, const struct flmem_tensor *tensor,
			const char *why, struct flmem_error *err)
{
	char shown[100];

	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "'%s' cannot hold tensor '%s' (%s): %s; write a safetensors file",
			       output->path, flmem_text_escape(tensor->name, shown, sizeof(shown)),
			       tensor->dtype->stored, why);
}

/*
 * Returns true if NumPy would read another tensor by this name: it searches for an entry of that
 * name first, then for one with the suffix.
 */
static bool is_name_of_other(const struct flmem_output *output, const struct flmem_tensor *tensor)
{
	char stem[FLMEM_ARCHIVE_NAME_MAX];
	size_t length = strlen(tensor->name);

	if (!flmem_text_ends(tensor->name, ".npy"))
		return false;
	memcpy(stem, tensor->name, length + 1);
	stem[length - 4] = '\0';
	return flmem_tensor_list_find(&output->layout->list, stem);
}

/* Returns true if NumPy can represent the shape: it multiplies all dimensions that are not 0. */
static bool has_numpy_shape(const struct flmem_output *output, const struct flmem_tensor *tensor)
{
	uint64_t extent, bytes = tensor->dtype->bits / 8U;

	for (uint32_t i = 0; i < tensor->rank; i++) {
		extent = output->layout->list.extents[tensor->shape + i];
		if (extent && __builtin_mul_overflow(bytes, extent, &bytes))
			return false;
	}
	return bytes <= INT64_MAX;
}

/* Writes a local header and the header of the array; the elements follow. */
static int place_array(struct flmem_output *output, size_t i, struct flmem_error *err)
{
	const struct flmem_tensor *tensor = output->layout->order[i];
	FLMEM_AUTO_BUF struct flmem_buf head = FLMEM_BUF_INIT;
	struct flmem_buf *text = &output->text;
	uint64_t at = output->bytes;
	size_t start = text->length, local;

	if (strlen(tensor->name) > FLMEM_ARCHIVE_NAME_MAX - 4 ||
	    !flmem_archive_name_is_safe(tensor->name))
		return report_unfit(output, tensor, "its name is not a plain relative path", err);
	if (!flmem_npz_print(&output->layout->list, tensor, &head))
		return report_unfit(output, tensor, "NumPy has no such type", err);
	if (is_name_of_other(output, tensor))
		return report_unfit(output, tensor, "NumPy would read another array by its name",
				    err);
	if (!has_numpy_shape(output, tensor))
		return report_unfit(output, tensor, "its shape is too large for NumPy", err);
	put_local(text, tensor->name, head.length + tensor->bytes);
	local = text->length - start;
	flmem_buf_append(text, head.data, head.length);
	output->texts[i] = (struct flmem_output_text){at, start, text->length - start};
	output->entries[i] = (struct flmem_output_entry){
		.offset = at + local,
		.bytes = head.length + tensor->bytes,
		.places = {at + LOCAL_CHECKSUM},
	};
	output->map.offsets[i] = at + local + head.length;
	output->bytes = output->map.offsets[i] + tensor->bytes;
	return head.failed ? flmem_error_nomem(err, "cannot write '%s'", output->path) : 0;
}

static void put_directory(struct flmem_output *output)
{
	size_t count = output->layout->list.count, start = output->text.length;
	uint64_t at = output->bytes, bytes;

	for (size_t i = 0; i < count; i++) {
		struct flmem_output_entry *entry = &output->entries[i];

		entry->places[1] = at + (output->text.length - start) + RECORD_CHECKSUM;
		put_record(&output->text, output->layout->order[i]->name, entry->bytes,
			   output->texts[i].offset);
	}
	bytes = output->text.length - start;
	put_end(&output->text, count, at, bytes);
	output->texts[count] = (struct flmem_output_text){at, start, output->text.length - start};
	output->text_count = count + 1;
	output->entry_count = count;
	output->bytes = at + (output->text.length - start);
}

int flmem_output_plan_npz(struct flmem_output *output, struct flmem_error *err)
{
	size_t count = output->layout->list.count;
	struct flmem_input *map = &output->map;
	int rc = 0;

	map->offsets = calloc(count + 1, sizeof(*map->offsets));
	map->file_of = calloc(count + 1, sizeof(*map->file_of));
	output->texts = calloc(count + 1, sizeof(*output->texts));
	output->entries = calloc(count + 1, sizeof(*output->entries));
	if (!map->offsets || !map->file_of || !output->texts || !output->entries)
		return flmem_error_nomem(err, "cannot write '%s'", output->path);
	for (size_t i = 0; i < count && !rc; i++)
		rc = place_array(output, i, err);
	if (rc)
		return rc;
	put_directory(output);
	return output->text.failed ? flmem_error_nomem(err, "cannot write '%s'", output->path) : 0;
}
