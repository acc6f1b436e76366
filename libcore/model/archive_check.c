/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the directory of an archive with the local header before each entry. Otherwise readers
 * that trust one or the other could see different models in the same file.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes/crc32.h"
#include "base/bytes/little_endian.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "model/archive.h"

#define LOCAL_BYTES   30U
#define LOCAL_MARK    0x04034b50U
#define LARGE	      0xffffffffU
#define EXTRA_SIZES   1U
#define BLOCK_BYTES   (64U << 10)
#define DOS_DIRECTORY 0x10U
#define FLAG_SECRET   1U	 /* encrypted */
#define FLAG_LATER    (1U << 3)	 /* sizes and checksum follow the bytes */
#define FLAG_SECRETS  (1U << 13) /* the directory is encrypted */

int flmem_archive_entry_invalid(const char *path, const struct flmem_archive_entry *entry,
				const char *why, struct flmem_error *err)
{
	char shown[128];

	flmem_text_escape(entry->name, shown, sizeof(shown));
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' cannot be read: its entry '%s' %s", path,
			       shown, why);
}

bool flmem_archive_name_is_safe(const char *name)
{
	size_t length = strlen(name);

	if (!length || length > FLMEM_ARCHIVE_NAME_MAX || *name == '/' || strchr(name, '\\') ||
	    !flmem_text_is_utf8(name))
		return false;
	while (*name) {
		size_t part = strcspn(name, "/");

		if (!part || (part == 1 && *name == '.') ||
		    (part == 2 && strncmp(name, "..", 2) == 0))
			return false;
		name += part + (name[part] == '/');
	}
	return true;
}

/*
 * Compares the sizes with those of the directory: they are in 32 or 64 bits, or 0 if they follow
 * the bytes.
 */
static bool has_size(const char *local, const char *extra, size_t extra_bytes,
		     const struct flmem_archive_entry *entry)
{
	uint64_t stored = flmem_read_little(local + 18, 4), size = flmem_read_little(local + 22, 4);
	const char *end = extra + extra_bytes;

	if ((entry->flags & FLAG_LATER) && !stored && !size)
		return true;
	while ((stored == LARGE || size == LARGE) && end - extra >= 4) {
		size_t length = (size_t)flmem_read_little(extra + 2, 2);

		if ((size_t)(end - extra) < 4 + length)
			return false;
		if (flmem_read_little(extra, 2) == EXTRA_SIZES && length >= 16) {
			size = flmem_read_little(extra + 4, 8);
			stored = flmem_read_little(extra + 12, 8);
			return ((entry->flags & FLAG_LATER) && !size && !stored) ||
			       (size == entry->bytes && stored == entry->bytes);
		}
		extra += 4 + length;
	}
	return stored == entry->bytes && size == entry->bytes;
}

static bool has_crc32(const char *local, const struct flmem_archive_entry *entry)
{
	uint64_t crc = flmem_read_little(local + 14, 4);

	return crc == entry->crc32 || ((entry->flags & FLAG_LATER) && !crc);
}

static const char *compare_local(const char *local, const char *rest, size_t name_bytes,
				 size_t extra_bytes, const struct flmem_archive_entry *entry)
{
	if (strlen(entry->name) != name_bytes || memcmp(rest, entry->name, name_bytes) != 0)
		return "has different names in its header and in the directory";
	if (flmem_read_little(local + 6, 2) != entry->flags ||
	    flmem_read_little(local + 8, 2) != entry->method)
		return "has different methods in its header and in the directory";
	if (!has_size(local, rest + name_bytes, extra_bytes, entry))
		return "has different sizes in its header and in the directory";
	if (!has_crc32(local, entry))
		return "has different checksums in its header and in the directory";
	return NULL;
}

/* Reads the local header and sets the offset of the bytes. Returns NULL or the defect. */
static const char *read_local(const struct flmem_source *source, uint64_t end,
			      struct flmem_archive_entry *entry, struct flmem_buf *rest)
{
	char local[LOCAL_BYTES];
	size_t name, extra;

	if (entry->header > end || end - entry->header < LOCAL_BYTES)
		return "begins after the end of the archive";
	if (!flmem_source_read_at(source, entry->header, local, sizeof(local)) ||
	    flmem_read_little(local, 4) != LOCAL_MARK)
		return "does not begin with a header";
	name = (size_t)flmem_read_little(local + 26, 2);
	extra = (size_t)flmem_read_little(local + 28, 2);
	entry->offset = entry->header + LOCAL_BYTES + name + extra;
	if (entry->offset > end || entry->bytes > end - entry->offset)
		return "ends after the end of the archive";
	flmem_buf_reset(rest);
	if (!flmem_source_reserve(source, rest, name + extra))
		return "has a header that needs too much memory";
	if (!flmem_source_read_at(source, entry->header + LOCAL_BYTES, rest->data, name + extra))
		return "has a header that cannot be read";
	return compare_local(local, rest->data, name, extra, entry);
}

static const char *check_entry(const struct flmem_archive_entry *entry)
{
	if (!flmem_archive_name_is_safe(entry->name))
		return "has a name that is not a plain relative path";
	if (entry->attributes & DOS_DIRECTORY)
		return "is marked as a directory, which PyTorch reads as zeros";
	if (entry->flags & (FLAG_SECRET | FLAG_SECRETS))
		return "is encrypted";
	if (entry->method != 0)
		return "is compressed; store it without compression";
	if (entry->bytes != entry->stored_bytes)
		return "is not compressed, but its stored size differs from its size";
	return NULL;
}

static int compare_entry_place(const void *a, const void *b)
{
	const struct flmem_archive_entry *x = *(const struct flmem_archive_entry *const *)a;
	const struct flmem_archive_entry *y = *(const struct flmem_archive_entry *const *)b;

	return x->header < y->header ? -1 : x->header > y->header;
}

static int check_overlap(const char *path, const struct flmem_archive *archive,
			 struct flmem_error *err)
{
	FLMEM_AUTO_FREE const struct flmem_archive_entry **order =
		calloc(archive->count + 1, sizeof(*order));
	uint64_t end = 0;

	if (!order)
		return flmem_error_nomem(err, "cannot read the directory of '%s'", path);
	for (size_t i = 0; i < archive->count; i++)
		order[i] = &archive->entries[i];
	qsort(order, archive->count, sizeof(*order), compare_entry_place);
	for (size_t i = 0; i < archive->count; i++) {
		if (order[i]->header < end)
			return flmem_archive_entry_invalid(path, order[i], "overlaps another", err);
		end = order[i]->offset + order[i]->bytes;
	}
	return 0;
}

int flmem_archive_check(const struct flmem_source *source, const char *path,
			struct flmem_archive *archive, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf rest = FLMEM_BUF_INIT;

	for (size_t i = 0; i < archive->count; i++) {
		struct flmem_archive_entry *entry = &archive->entries[i];
		const char *why = check_entry(entry);

		if (!why && i && strcmp(entry[-1].name, entry->name) == 0)
			why = "occurs twice";
		if (!why)
			why = read_local(source, archive->end, entry, &rest);
		if (why)
			return flmem_archive_entry_invalid(path, entry, why, err);
	}
	return check_overlap(path, archive, err);
}

int flmem_archive_verify(const struct flmem_source *source, const char *path,
			 const struct flmem_archive_entry *entry, struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *block = malloc(BLOCK_BYTES);
	uint32_t crc = 0;

	if (!block)
		return flmem_error_nomem(err, "cannot read '%s'", path);
	for (uint64_t at = 0; at < entry->bytes;) {
		size_t length =
			entry->bytes - at < BLOCK_BYTES ? (size_t)(entry->bytes - at) : BLOCK_BYTES;

		if (!flmem_source_read_at(source, entry->offset + at, block, length))
			return flmem_error_set(err, FLMEM_EFAILED, 0,
					       "'%s' changed while it was read", path);
		crc = flmem_crc32(crc, block, length);
		at += length;
	}
	return crc == entry->crc32 ? 0
				   : flmem_archive_entry_invalid(path, entry,
								 FLMEM_ARCHIVE_OTHER_CHECKSUM, err);
}
