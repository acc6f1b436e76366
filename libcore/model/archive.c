/* SPDX-License-Identifier: Apache-2.0 */
#include "model/archive.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes/little_endian.h"
#include "base/text/buf.h"
#include "base/text/text.h"

#define TAIL_BYTES    65557U /* length of the end record with the longest comment */
#define END_BYTES     22U
#define LOCATOR_BYTES 20U
#define END64_BYTES   56U
#define ENTRY_BYTES   46U
#define DIRECTORY_MAX (16U << 20)
#define END_MARK      0x06054b50U
#define LOCATOR_MARK  0x07064b50U
#define END64_MARK    0x06064b50U
#define ENTRY_MARK    0x02014b50U
#define LARGE	      0xffffffffU
#define SMALL	      0xffffU
#define EXTRA_SIZES   1U /* kind of the extra field that holds 64-bit sizes */
#define NO_LARGE      "its 64-bit directory cannot be found"
#define MANY_DISKS    "it is split over several disks: join its parts first (zip -s 0)"

struct central_directory {
	uint64_t offset, bytes, entries;
};

void flmem_archive_clear(struct flmem_archive *archive)
{
	free(archive->entries);
	free(archive->names);
	*archive = (struct flmem_archive){0};
}

static int damaged_archive(const char *path, const char *why, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' is not a valid archive: %s", path, why);
}

/*
 * Checks a number against the 64-bit record: some readers prefer that record, others use it only if
 * the number in the 32-bit record is the mark.
 */
static bool agrees_with_zip64(uint64_t small, uint64_t mark, uint64_t large)
{
	return small == mark || small == large;
}

/*
 * Reports whether the 64-bit record is that of an archive on one disk, as PyTorch requires. Python
 * requires the same of the disk numbers.
 */
static bool is_of_one_disk(const char *locator, const char *record)
{
	return !flmem_read_little(locator + 4, 4) && flmem_read_little(locator + 16, 4) <= 1 &&
	       !flmem_read_little(record + 16, 8) &&
	       flmem_read_little(record + 24, 8) == flmem_read_little(record + 32, 8);
}

/* Reports the same of the 32-bit record; `mark` refers to a number in the 64-bit record. */
static bool ends_on_one_disk(const char *end, uint64_t mark)
{
	uint64_t disk = flmem_read_little(end + 4, 2), first = flmem_read_little(end + 6, 2);

	return (!disk || disk == mark) && (!first || first == mark) &&
	       flmem_read_little(end + 8, 2) == flmem_read_little(end + 10, 2);
}

/*
 * Reads the 64-bit record of the directory. On entry `at` is the offset of the end record `small`;
 * on return it is the offset of the record that ends the directory: the 64-bit record, if there is
 * one. Returns NULL or the defect: the record is damaged, absent although needed, or differs from
 * the end record.
 */
static const char *find_large(const struct flmem_source *source, const char *small, uint64_t *at,
			      struct central_directory *directory)
{
	bool needed = directory->bytes == LARGE || directory->offset == LARGE;
	char locator[LOCATOR_BYTES], record[END64_BYTES];
	uint64_t begin;

	if (*at < LOCATOR_BYTES ||
	    !flmem_source_read_at(source, *at - LOCATOR_BYTES, locator, sizeof(locator)) ||
	    flmem_read_little(locator, 4) != LOCATOR_MARK)
		return needed ? NO_LARGE : ends_on_one_disk(small, 0) ? NULL : MANY_DISKS;
	begin = flmem_read_little(locator + 8, 8);
	if (begin > *at || !flmem_source_read_at(source, begin, record, sizeof(record)) ||
	    flmem_read_little(record, 4) != END64_MARK)
		return NO_LARGE;
	if (!is_of_one_disk(locator, record) || !ends_on_one_disk(small, SMALL))
		return MANY_DISKS;
	if (!agrees_with_zip64(directory->entries, SMALL, flmem_read_little(record + 32, 8)) ||
	    !agrees_with_zip64(directory->bytes, LARGE, flmem_read_little(record + 40, 8)) ||
	    !agrees_with_zip64(directory->offset, LARGE, flmem_read_little(record + 48, 8)))
		return NO_LARGE;
	directory->entries = flmem_read_little(record + 32, 8);
	directory->bytes = flmem_read_little(record + 40, 8);
	directory->offset = flmem_read_little(record + 48, 8);
	*at = begin;
	return NULL;
}

/* Finds the end record; false without one: the file is not an archive. */
static bool find_archive_end(const struct flmem_source *source, uint64_t file_bytes,
			     struct flmem_buf *tail, uint64_t *ret_end)
{
	size_t length = file_bytes < TAIL_BYTES ? (size_t)file_bytes : TAIL_BYTES;

	if (length < END_BYTES || !flmem_source_reserve(source, tail, length) ||
	    !flmem_source_read_at(source, file_bytes - length, tail->data, length))
		return false;
	for (size_t at = length - END_BYTES + 1; at-- > 0;)
		if (flmem_read_little(tail->data + at, 4) == END_MARK) {
			memmove(tail->data, tail->data + at, END_BYTES);
			*ret_end = file_bytes - length + at;
			return true;
		}
	return false;
}

/* Takes the next 64-bit number from the extra field, if `number` is the mark for one. */
static bool take_large(const char **at, const char *end, uint64_t *number)
{
	if (*number != LARGE)
		return true;
	if (end - *at < 8)
		return false;
	*number = flmem_read_little(*at, 8);
	*at += 8;
	return true;
}

/*
 * Reads sizes and offset of an entry: they are in the record or, if large, in this order in the
 * extra field.
 */
static bool read_sizes(const char *record, size_t name_bytes, size_t extra_bytes,
		       struct flmem_archive_entry *entry)
{
	const char *extra = record + ENTRY_BYTES + name_bytes, *end = extra + extra_bytes;

	entry->stored_bytes = flmem_read_little(record + 20, 4);
	entry->bytes = flmem_read_little(record + 24, 4);
	entry->header = flmem_read_little(record + 42, 4);
	if (entry->stored_bytes != LARGE && entry->bytes != LARGE && entry->header != LARGE)
		return true;
	while (end - extra >= 4) {
		size_t length = (size_t)flmem_read_little(extra + 2, 2);
		const char *at = extra + 4;

		if ((size_t)(end - at) < length)
			return false;
		if (flmem_read_little(extra, 2) == EXTRA_SIZES)
			return take_large(&at, extra + 4 + length, &entry->bytes) &&
			       take_large(&at, extra + 4 + length, &entry->stored_bytes) &&
			       take_large(&at, extra + 4 + length, &entry->header);
		extra = at + length;
	}
	return false;
}

/*
 * Reads a record of the directory and appends the entry's name to `names`. Returns the length of
 * the record, or 0 if it is damaged.
 */
static size_t read_directory_record(const char *record, size_t left,
				    struct flmem_archive_entry *entry, char **names)
{
	size_t name, extra, length;

	if (left < ENTRY_BYTES || flmem_read_little(record, 4) != ENTRY_MARK)
		return 0;
	name = (size_t)flmem_read_little(record + 28, 2);
	extra = (size_t)flmem_read_little(record + 30, 2);
	length = ENTRY_BYTES + name + extra + (size_t)flmem_read_little(record + 32, 2);
	if (length > left || !read_sizes(record, name, extra, entry) ||
	    flmem_read_little(record + 34, 2) /* the number of the disk where it begins */ ||
	    memchr(record + ENTRY_BYTES, '\0', name))
		return 0;
	entry->flags = (unsigned)flmem_read_little(record + 8, 2);
	entry->method = (unsigned)flmem_read_little(record + 10, 2);
	entry->crc32 = (uint32_t)flmem_read_little(record + 16, 4);
	entry->attributes = (unsigned)flmem_read_little(record + 38, 4);
	entry->name = *names;
	memcpy(*names, record + ENTRY_BYTES, name);
	(*names)[name] = '\0';
	*names += name + 1;
	return length;
}

static int compare_entry_name(const void *a, const void *b)
{
	const struct flmem_archive_entry *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int read_records(const char *path, const struct flmem_buf *bytes,
			struct flmem_archive *archive, struct flmem_error *err)
{
	size_t most = bytes->length / ENTRY_BYTES + 1;
	char *names;

	/* A name and its NUL are shorter than the record. */
	archive->names = names = malloc(bytes->length + 1);
	archive->entries = calloc(most, sizeof(*archive->entries));
	if (!names || !archive->entries)
		return flmem_error_nomem(err, "cannot read the directory of '%s'", path);
	for (size_t at = 0, length; at < bytes->length; at += length) {
		struct flmem_archive_entry *entry = &archive->entries[archive->count];

		length = read_directory_record(bytes->data + at, bytes->length - at, entry, &names);
		if (!length)
			return damaged_archive(path, "its directory is damaged", err);
		entry->record = archive->end + at;
		archive->count++;
	}
	if (archive->count)
		qsort(archive->entries, archive->count, sizeof(*archive->entries),
		      compare_entry_name);
	return 0;
}

static int read_directory(const struct flmem_source *source, const char *path,
			  const struct central_directory *directory, uint64_t end,
			  struct flmem_buf *bytes, struct flmem_error *err)
{
	if (directory->offset > end || directory->bytes > end - directory->offset)
		return damaged_archive(path, "its directory starts after its end", err);
	if (directory->offset + directory->bytes != end)
		return damaged_archive(path,
				       "its directory does not end at its end record: "
				       "there may be two",
				       err);
	if (directory->bytes > DIRECTORY_MAX)
		return damaged_archive(path, "its directory exceeds the size limit", err);
	if (!flmem_buf_reserve(bytes, (size_t)directory->bytes))
		return flmem_error_nomem(err, "cannot read the directory of '%s'", path);
	if (!flmem_source_read_at(source, directory->offset, bytes->data, (size_t)directory->bytes))
		return flmem_error_set(err, FLMEM_EFAILED, 0, "'%s' changed while it was read",
				       path);
	bytes->length = (size_t)directory->bytes;
	return 0;
}

/* Finds the directory; `ret_end` is the offset of its end. */
static int find_directory(const struct flmem_source *source, const char *path, uint64_t file_bytes,
			  struct central_directory *ret_directory, uint64_t *ret_end,
			  struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf tail = FLMEM_BUF_INIT;
	const char *why;

	*ret_end = 0;
	if (!find_archive_end(source, file_bytes, &tail, ret_end))
		return 0;
	ret_directory->entries = flmem_read_little(tail.data + 10, 2);
	ret_directory->bytes = flmem_read_little(tail.data + 12, 4);
	ret_directory->offset = flmem_read_little(tail.data + 16, 4);
	why = find_large(source, tail.data, ret_end, ret_directory);
	return why ? damaged_archive(path, why, err) : 0;
}

int flmem_archive_list(const struct flmem_source *source, const char *path,
		       struct flmem_archive *ret_archive, bool *ret_found, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf bytes = FLMEM_BUF_INIT;
	FLMEM_AUTO_ARCHIVE struct flmem_archive archive = {0};
	struct central_directory directory = {0};
	uint64_t end = 0, file_bytes;
	int rc = flmem_source_size(source, &file_bytes);

	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot read '%s'", path);
	rc = find_directory(source, path, file_bytes, &directory, &end, err);
	*ret_found = end > 0;
	if (rc || !end)
		return rc;
	rc = read_directory(source, path, &directory, end, &bytes, err);
	archive.end = directory.offset;
	if (!rc)
		rc = read_records(path, &bytes, &archive, err);
	if (!rc && archive.count != directory.entries)
		rc = damaged_archive(path, "its end record has another number of entries", err);
	if (rc)
		return rc;
	*ret_archive = archive;
	archive = (struct flmem_archive){0};
	return 0;
}

static int compare_to_entry_name(const void *key, const void *element)
{
	return strcmp(key, ((const struct flmem_archive_entry *)element)->name);
}

const struct flmem_archive_entry *flmem_archive_find(const struct flmem_archive *archive,
						     const char *name)
{
	if (!archive->count)
		return NULL;
	return bsearch(name, archive->entries, archive->count, sizeof(*archive->entries),
		       compare_to_entry_name);
}
