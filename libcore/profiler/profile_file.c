/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/profile_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <flmem/text.h>

#include "base/files/io.h"

#define CHUNK_BYTES ((size_t)256 << 10)
#define PATH_SHOWN  256

/*
 * Limit of records that threads have reserved and not written yet: as many as the sampler has
 * buffers.
 */
#define UNFINISHED_MAX 64U

#define SIZE_ROW(identifier, index, name, type) [index] = sizeof(struct type),
static const uint32_t record_sizes[] = {FLMEM_PROFILE_SECTIONS(SIZE_ROW)};
#undef SIZE_ROW

#define NAME_ROW(identifier, index, name, type) [index] = (name),
static const char *const section_names[] = {FLMEM_PROFILE_SECTIONS(NAME_ROW)};
#undef NAME_ROW

#define SECTIONS ((uint32_t)FLMEM_ARRAY_SIZE(record_sizes))

void flmem_profile_file_close(struct flmem_profile_file *file)
{
	flmem_cleanup_close(&file->fd);
	file->fd = -1;
}

static int bad_file(const struct flmem_profile_file *file, const char *why, struct flmem_error *err)
{
	char shown[PATH_SHOWN];

	return flmem_error_set(err, FLMEM_EUSAGE, 0, "cannot read the profile '%s': %s",
			       flmem_text_escape(file->path, shown, sizeof(shown)), why);
}

static int check_profile_kind(const struct flmem_profile_file *file, struct flmem_error *err)
{
	const struct flmem_profile_header *h = &file->header;
	char shown[PATH_SHOWN];

	if (memcmp(h->magic, FLMEM_PROFILE_MAGIC, sizeof(h->magic)) != 0)
		return bad_file(file, "not a heap profile of flmem", err);
	if (h->order != FLMEM_PROFILE_ORDER)
		return bad_file(file, "it is of a machine with another byte order", err);
	if (h->version == FLMEM_PROFILE_VERSION && h->header_size == FLMEM_PROFILE_HEADER_SIZE)
		return 0;
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "cannot read the profile '%s': it has version %u, this flmem reads "
			       "version %u; use the flmem that wrote it",
			       flmem_text_escape(file->path, shown, sizeof(shown)), h->version,
			       FLMEM_PROFILE_VERSION);
}

static uint64_t section_end(const struct flmem_profile_section *s)
{
	return s->offset + (uint64_t)s->capacity * s->record_size;
}

/* Checks that sections do not overlap: records of one kind must not be read as those of another. */
static int check_overlaps(const struct flmem_profile_file *file, struct flmem_error *err)
{
	const struct flmem_profile_section *all = file->header.section;
	char why[128];

	for (uint32_t i = 0; i < SECTIONS; i++)
		for (uint32_t k = 0; k < i; k++) {
			if (all[i].offset >= section_end(&all[k]) ||
			    all[k].offset >= section_end(&all[i]))
				continue;
			snprintf(why, sizeof(why),
				 "its header is damaged (sections '%s' and '%s' overlap)",
				 section_names[k], section_names[i]);
			return bad_file(file, why, err);
		}
	return 0;
}

static int check_sections(const struct flmem_profile_file *file, struct flmem_error *err)
{
	const struct flmem_profile_header *h = &file->header;
	char why[128];

	if (h->sections < SECTIONS || h->sections > FLMEM_PROFILE_SECTION_SLOTS)
		return bad_file(file, "its header is damaged (number of sections)", err);
	for (uint32_t i = 0; i < SECTIONS; i++) {
		const struct flmem_profile_section *s = &h->section[i];

		if (s->record_size == record_sizes[i] && s->offset >= FLMEM_PROFILE_HEADER_SIZE &&
		    s->offset % 8 == 0 && s->offset <= FLMEM_PROFILE_LIMIT_MAX &&
		    section_end(s) <= h->file_size)
			continue;
		snprintf(why, sizeof(why), "its header is damaged (section '%s')",
			 section_names[i]);
		return bad_file(file, why, err);
	}
	return check_overlaps(file, err);
}

/* Checks that something was sampled. */
static int check_phase(struct flmem_profile_file *file, struct flmem_error *err)
{
	const struct flmem_profile_header *h = &file->header;
	char shown[PATH_SHOWN], why[sizeof(h->refusal)];

	switch (h->phase) {
	case FLMEM_PROFILE_RUNNING:
	case FLMEM_PROFILE_ENDED:
		break;
	case FLMEM_PROFILE_PREPARED:
		return bad_file(file,
				"nothing was sampled: its program has not started, or did not load "
				"the sampler (linked statically, set-user-ID, another C library), "
				"or came below a seccomp filter that flmem does not have",
				err);
	case FLMEM_PROFILE_REFUSED:
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "nothing was sampled into '%s': %s",
				       flmem_text_escape(file->path, shown, sizeof(shown)),
				       flmem_text_escape(h->refusal, why, sizeof(why)));
	default:
		return bad_file(file, "its header is damaged (phase)", err);
	}
	if (h->interval_bytes < FLMEM_PROFILE_INTERVAL_MIN ||
	    h->interval_bytes > FLMEM_PROFILE_INTERVAL_MAX)
		return bad_file(file, "its header is damaged (interval)", err);
	if (h->python_state > FLMEM_PROFILE_PYTHON_INCONSISTENT)
		return bad_file(file, "its header is damaged (state of Python)", err);
	return 0;
}

static void end_texts(struct flmem_profile_header *h)
{
	h->program[sizeof(h->program) - 1] = '\0';
	h->command[sizeof(h->command) - 1] = '\0';
	h->allocator[sizeof(h->allocator) - 1] = '\0';
	h->build[sizeof(h->build) - 1] = '\0';
	h->refusal[sizeof(h->refusal) - 1] = '\0';
}

static int check_profile_header(struct flmem_profile_file *file, struct flmem_error *err)
{
	struct flmem_profile_header *h = &file->header;
	int rc;

	if (file->size < FLMEM_PROFILE_HEADER_SIZE)
		return bad_file(file, "not a heap profile of flmem, or truncated", err);
	if (!flmem_io_read_at(file->fd, 0, h, sizeof(*h)))
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot read '%s'", file->path);
	end_texts(h);
	rc = check_profile_kind(file, err);
	if (!rc &&
	    (h->file_size > FLMEM_PROFILE_LIMIT_MAX || h->file_size < FLMEM_PROFILE_HEADER_SIZE))
		rc = bad_file(file, "its header is damaged (size)", err);
	if (!rc)
		rc = check_sections(file, err);
	if (!rc)
		rc = check_phase(file, err);
	file->cut = file->size < h->file_size;
	return rc;
}

int flmem_profile_file_open(int fd, const char *path, struct flmem_profile_file *ret_file,
			    struct flmem_error *err)
{
	FLMEM_AUTO_PROFILE_FILE struct flmem_profile_file file = {.fd = fd, .path = path};
	struct stat status;
	int rc;

	if (fstat(fd, &status) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot read '%s'", path);
	file.size = (uint64_t)status.st_size;
	rc = check_profile_header(&file, err);
	if (rc)
		return rc;
	*ret_file = file;
	file.fd = -1;
	return 0;
}

static uint32_t records_used(const struct flmem_profile_section *s)
{
	return s->used < s->capacity ? s->used : s->capacity;
}

uint32_t flmem_profile_file_count(const struct flmem_profile_file *file,
				  enum flmem_profile_section_index section)
{
	const struct flmem_profile_section *s = &file->header.section[section];
	uint64_t count = records_used(s);
	uint64_t present = s->offset < file->size ? (file->size - s->offset) / s->record_size : 0;

	return (uint32_t)(count < present ? count : present);
}

static bool visit_chunk(const char *chunk, uint32_t first, uint32_t count, uint32_t record_size,
			bool (*visit)(void *context, uint32_t index, const void *record),
			void *context)
{
	for (uint32_t i = 0; i < count; i++) {
		const char *record = chunk + (size_t)i * record_size;
		uint32_t state;

		memcpy(&state, record, sizeof(state)); /* every record begins with its state */
		if (state == FLMEM_PROFILE_READY && !visit(context, first + i, record))
			return false;
	}
	return true;
}

bool flmem_profile_file_visit(const struct flmem_profile_file *file,
			      enum flmem_profile_section_index section,
			      bool (*visit)(void *context, uint32_t index, const void *record),
			      void *context)
{
	const struct flmem_profile_section *s = &file->header.section[section];
	uint32_t count = flmem_profile_file_count(file, section);
	uint32_t step = (uint32_t)(CHUNK_BYTES / s->record_size);
	FLMEM_AUTO_FREE char *chunk = malloc(CHUNK_BYTES);

	for (uint32_t first = 0; chunk && first < count; first += step) {
		uint32_t some = count - first < step ? count - first : step;

		if (!flmem_io_read_at(file->fd, s->offset + (uint64_t)first * s->record_size, chunk,
				      (size_t)some * s->record_size))
			return false;
		if (!visit_chunk(chunk, first, some, s->record_size, visit, context))
			return false;
	}
	return chunk != NULL;
}

static bool count_record(void *context, uint32_t index, const void *record)
{
	(void)index;
	(void)record;
	++*(uint32_t *)context;
	return true;
}

/*
 * True for sections whose records stay once they exist: all but `live`; a string is one record in
 * several blocks.
 */
static bool is_without_gaps(enum flmem_profile_section_index section)
{
	return section != FLMEM_PROFILE_SECTION_LIVE && section != FLMEM_PROFILE_SECTION_STRINGS;
}

/*
 * True if a section has zeros in place of records: a power failure leaves them, and a copy with
 * holes.
 */
static bool has_lost_records(const struct flmem_profile_file *file,
			     enum flmem_profile_section_index section)
{
	const struct flmem_profile_totals *totals = &file->header.totals;
	uint32_t root = section == FLMEM_PROFILE_SECTION_NODES;
	uint32_t used = flmem_profile_file_count(file, section), ready = root;

	if (used <= root || !totals->samples ||
	    (section == FLMEM_PROFILE_SECTION_LIVE &&
	     totals->allocated_bytes <= totals->freed_bytes) ||
	    !flmem_profile_file_visit(file, section, count_record, &ready))
		return false;
	return ready == root ||
	       (is_without_gaps(section) && used > ready && used - ready > UNFINISHED_MAX);
}

bool flmem_profile_file_lacks(const struct flmem_profile_file *file,
			      enum flmem_profile_section_index section)
{
	return flmem_profile_file_count(file, section) <
		       records_used(&file->header.section[section]) ||
	       has_lost_records(file, section);
}

bool flmem_profile_file_string(const struct flmem_profile_file *file, uint32_t index,
			       char out[FLMEM_PROFILE_STRING_MAX + 1], size_t *ret_length)
{
	const struct flmem_profile_section *s =
		&file->header.section[FLMEM_PROFILE_SECTION_STRINGS];
	uint32_t count = flmem_profile_file_count(file, FLMEM_PROFILE_SECTION_STRINGS);
	uint64_t at = s->offset + (uint64_t)index * s->record_size;
	struct flmem_profile_string_block block;
	size_t head = offsetof(struct flmem_profile_string_block, bytes);

	if (index >= count || !flmem_io_read_at(file->fd, at, &block, sizeof(block)) ||
	    block.state != FLMEM_PROFILE_READY || block.length > FLMEM_PROFILE_STRING_MAX ||
	    block.blocks > count - index || head + block.length > block.blocks * sizeof(block))
		return false;
	if (block.length <= sizeof(block.bytes))
		memcpy(out, block.bytes, block.length);
	else if (!flmem_io_read_at(file->fd, at + head, out, block.length))
		return false;
	out[block.length] = '\0';
	*ret_length = strnlen(out, block.length);
	return true;
}

bool flmem_profile_file_changed(const struct flmem_profile_file *file)
{
	uint64_t now[2];

	if (!flmem_io_read_at(file->fd, offsetof(struct flmem_profile_header, update_begin), now,
			      sizeof(now)))
		return true;
	return file->header.update_begin != file->header.update_end ||
	       now[0] != file->header.update_begin || now[1] != file->header.update_end;
}
