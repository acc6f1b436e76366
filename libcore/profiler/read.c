/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "base/portable.h"
#include "proc/files/guarded_file.h"
#include "profiler/amounts.h"
#include "profiler/jemalloc_dump.h"
#include "profiler/profile_sort.h"
#include "profiler/project.h"
#include "profiler/read_private.h"

#define MS_MAX	   (UINT64_C(1) << 50)
#define ROOM_FIRST 64U

void *flmem_profile_reader_grow(struct flmem_profile_reader *reader, void *rows, size_t count,
				size_t size)
{
	size_t room = reader->room ? reader->room * 2 : ROOM_FIRST;
	void *grown;

	if (count < reader->room)
		return rows;
	grown = reallocarray(rows, room, size);
	if (grown)
		reader->room = room;
	else
		reader->failed = true;
	return grown;
}

uint32_t *flmem_profile_reader_map(struct flmem_profile_reader *reader,
				   enum flmem_profile_section_index section)
{
	uint32_t *map =
		calloc((size_t)flmem_profile_file_count(reader->file, section) + 1, sizeof(*map));

	if (!map)
		reader->failed = true;
	return map;
}

const char *flmem_profile_reader_text(struct flmem_profile_reader *reader, uint32_t index)
{
	char bytes[FLMEM_PROFILE_STRING_MAX + 1];
	size_t length;
	const char *text;

	if (index == FLMEM_PROFILE_NONE)
		return NULL;
	if (!flmem_profile_file_string(reader->file, index, bytes, &length)) {
		reader->profile->skipped++;
		return NULL;
	}
	text = flmem_string_pool_keep(reader->profile->texts, bytes, length);
	reader->failed |= !text;
	return text;
}

uint64_t flmem_profile_reader_us(uint64_t ms)
{
	return (ms < MS_MAX ? ms : MS_MAX) * 1000;
}

void flmem_profile_reader_clear(struct flmem_profile_reader *reader)
{
	free(reader->modules);
	free(reader->module_of);
	free(reader->frame_map);
	free(reader->node_map);
	free(reader->depths);
	free(reader->site_map);
	free(reader->round_order);
}

static enum flmem_heap_ending ending_of(const struct flmem_profile_header *h)
{
	if (h->phase == FLMEM_PROFILE_ENDED)
		return FLMEM_HEAP_ENDED;
	return flmem_profile_process_lives(h) ? FLMEM_HEAP_RUNNING : FLMEM_HEAP_KILLED;
}

static const char *keep_header_text(struct flmem_heap_profile *p, const char *text)
{
	return flmem_string_pool_keep(p->texts, text, strlen(text));
}

static const char *lost_children_reason(const struct flmem_profile_header *h,
					struct flmem_heap_profile *p)
{
	char text[128];

	if (!h->dropped[FLMEM_PROFILE_DROP_CHILDREN])
		return NULL;
	if (h->child_error == EEXIST)
		return keep_header_text(p, "its file exists and belongs to another process");
	if (h->child_error == ENOSPC)
		return keep_header_text(p, "No space left on device (a tenth of it, at most 4 GiB, "
					   "is left to the program)");
	return keep_header_text(p, flmem_errno_text((int)h->child_error, text, sizeof(text)));
}

#define PYTHON_ROW(identifier, number, text) [number] = (text),
static const char *const python_states[] = {FLMEM_PROFILE_PYTHONS(PYTHON_ROW)};
#undef PYTHON_ROW

static void fill_losses(const struct flmem_profile_header *h, struct flmem_heap_profile *p)
{
	const uint64_t *dropped = h->dropped;

	p->lost_bytes = h->lost_bytes;
	for (size_t i = FLMEM_PROFILE_DROP_NESTED; i <= FLMEM_PROFILE_DROP_LIVE_FULL; i++)
		p->lost_samples = flmem_amount_sum(p->lost_samples, dropped[i]);
	p->lost_samples =
		flmem_amount_sum(p->lost_samples, dropped[FLMEM_PROFILE_DROP_MAPPINGS_FULL]);
	p->lost_samples =
		flmem_amount_sum(p->lost_samples, dropped[FLMEM_PROFILE_DROP_SMALL_STACK]);
	p->untaken_samples = flmem_amount_sum(dropped[FLMEM_PROFILE_DROP_NESTED],
					      dropped[FLMEM_PROFILE_DROP_SCRATCH]);
	p->untaken_samples =
		flmem_amount_sum(p->untaken_samples, dropped[FLMEM_PROFILE_DROP_SMALL_STACK]);
	p->cut_stacks = dropped[FLMEM_PROFILE_DROP_DEEP];
	p->full_stacks = flmem_amount_sum(dropped[FLMEM_PROFILE_DROP_NODES_FULL],
					  dropped[FLMEM_PROFILE_DROP_FRAMES_FULL]);
	p->lost_rounds = dropped[FLMEM_PROFILE_DROP_ROUNDS_FULL];
	p->unmixed_stacks = dropped[FLMEM_PROFILE_DROP_UNMIXED];
	p->unread_frames = dropped[FLMEM_PROFILE_DROP_PYTHON];
	p->lost_names = dropped[FLMEM_PROFILE_DROP_STRINGS_FULL];
	p->lost_modules = dropped[FLMEM_PROFILE_DROP_MODULES_FULL];
	p->lost_threads = dropped[FLMEM_PROFILE_DROP_THREADS_FULL];
	p->unseen_calls = dropped[FLMEM_PROFILE_DROP_UNSEEN];
	p->lost_children = dropped[FLMEM_PROFILE_DROP_CHILDREN];
	p->lost_children_reason = lost_children_reason(h, p);
}

/* Returns the largest interval of any sample. */
static uint64_t largest_interval(const struct flmem_profile_header *h)
{
	uint32_t doubled = h->paced < 40 ? h->paced : 40;

	if (!doubled)
		return h->interval_now_bytes;
	return h->interval_now_bytes < FLMEM_PROFILE_INTERVAL_MAX >> doubled
		       ? h->interval_now_bytes << doubled
		       : FLMEM_PROFILE_INTERVAL_MAX;
}

/*
 * Returns the size by ARENA_BITS in Objects/obmalloc.c and Include/internal/pycore_obmalloc.h of
 * CPython.
 */
static uint64_t arena_size_of(const struct flmem_profile_header *h)
{
	if (h->python_state != FLMEM_PROFILE_PYTHON_READ ||
	    (h->flags & FLMEM_PROFILE_PYTHON_ALLOCATORS))
		return 0;
	return h->python_version >= 0x030a0000 ? UINT64_C(1) << 20 : UINT64_C(256) << 10;
}

static uint32_t find_lacking_parts(const struct flmem_profile_file *file)
{
#define LACKING_ROW(section, part)                                      \
	{                                                               \
		FLMEM_PROFILE_SECTION_##section, FLMEM_HEAP_PART_##part \
	}
	static const struct {
		enum flmem_profile_section_index section;
		enum flmem_heap_part part;
	} rows[] = {
		LACKING_ROW(STRINGS, STACKS),  LACKING_ROW(FRAMES, STACKS),
		LACKING_ROW(NODES, STACKS),    LACKING_ROW(SITES, AMOUNTS),
		LACKING_ROW(CELLS, ROUNDS),    LACKING_ROW(ROUNDS, ROUNDS),
		LACKING_ROW(LIVE, SURVIVORS),  LACKING_ROW(TIMELINE, TIMELINE),
		LACKING_ROW(MODULES, MODULES),
	};
#undef LACKING_ROW
	uint32_t lacks = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		lacks |= (uint32_t)flmem_profile_file_lacks(file, rows[i].section) << rows[i].part;
	return lacks;
}

static bool fill_facts(const struct flmem_profile_file *file, struct flmem_heap_profile *p)
{
	const struct flmem_profile_header *h = &file->header;
	uint64_t last_ms = h->end_ms > h->last_ms ? h->end_ms : h->last_ms;

	p->texts = flmem_string_pool_new();
	p->path = strdup(file->path);
	if (!p->texts || !p->path)
		return false;
	p->program = keep_header_text(p, h->program);
	p->command = keep_header_text(p, h->command);
	p->allocator = keep_header_text(p, h->allocator);
	p->pid = h->pid;
	p->start_time = h->start_time_ticks;
	p->ending = ending_of(h);
	p->started_us = flmem_profile_reader_us(h->start_realtime_ms);
	p->began_late = h->flags & FLMEM_PROFILE_LATE;
	p->restricted = h->flags & FLMEM_PROFILE_RESTRICTED;
	p->duration_us = flmem_profile_reader_us(last_ms);
	p->interval_bytes = h->interval_bytes;
	p->interval_full_bytes = h->interval_now_bytes;
	p->interval_now_bytes = largest_interval(h);
	p->stratified = h->flags & FLMEM_PROFILE_STRATIFIED;
	if (!h->dropped[FLMEM_PROFILE_DROP_THREADS_FULL])
		p->threads = flmem_profile_file_count(file, FLMEM_PROFILE_SECTION_THREADS);
	p->samples = h->totals.samples;
	p->peak_bytes = h->totals.peak_bytes;
	p->peak_at_us = flmem_profile_reader_us(h->peak_ms);
	p->lacks = find_lacking_parts(file);
	p->has_zeros = p->lacks && !file->cut;
	p->cut = file->cut || p->has_zeros;
	if (h->python_state != FLMEM_PROFILE_PYTHON_READ)
		p->no_python = python_states[h->python_state];
	p->arena_size = arena_size_of(h);
	fill_losses(h, p);
	return p->program && p->command && p->allocator;
}

/*
 * Makes amounts unknown if no site is known, since 0 would be a guess; a partial sum over the sites
 * is shown as such.
 */
static void forget_cut_amounts(const struct flmem_profile_file *file, struct flmem_heap_profile *p)
{
	if (!p->cut || !file->header.section[FLMEM_PROFILE_SECTION_SITES].used || p->site_count)
		return;
	for (enum flmem_heap_measure m = 0; m < FLMEM_HEAP_MEASURE_COUNT; m++)
		p->unknown[m] = p->has_zeros ? "the file has zeros in place of its amounts"
					     : "the file was truncated before its amounts; copy it "
					       "again, with all its bytes";
}

static bool read_profile_lists(const struct flmem_heap_request *request,
			       struct flmem_profile_reader *reader)
{
	return fill_facts(reader->file, reader->profile) &&
	       flmem_profile_reader_stacks(reader, !request->no_symbols) &&
	       flmem_profile_reader_rounds(reader) && flmem_profile_reader_amounts(reader);
}

/*
 * Counts restarts of the round numbers: a second job in the same process restarts with round 0 or
 * 1. A number that is lower by one is that of a round which still runs after the next has begun.
 */
static uint64_t count_restarts(const struct flmem_heap_profile *p)
{
	uint64_t count = 0, last = 0;

	for (size_t i = 0; i < p->point_count; i++) {
		struct flmem_u64 round = p->points[i].round;

		if (round.unknown)
			continue;
		if (round.value + 1 < last)
			count++;
		if (round.value + 1 != last)
			last = round.value;
	}
	return count;
}

static enum flmem_heap_stacks stacks_of(const struct flmem_heap_request *request,
					const struct flmem_heap_profile *p)
{
	if (!request->choose_stacks)
		return request->stacks;
	return p->has_python ? FLMEM_HEAP_STACKS_PYTHON : FLMEM_HEAP_STACKS_NATIVE;
}

int flmem_profile_reader_finish(const struct flmem_heap_request *request,
				struct flmem_heap_profile *profile, struct flmem_error *err)
{
	struct flmem_heap_profile *p = profile;
	int rc;

	p->stacks = stacks_of(request, p);
	rc = flmem_heap_project(p, request, err);
	if (rc)
		return rc;
	flmem_heap_sort_profile(p);
	for (size_t i = 0; i < p->site_count; i++)
		p->whole_bytes = flmem_amount_sum(p->whole_bytes,
						  p->sites[i].amounts.bytes[FLMEM_HEAP_ALLOCATED]);
	p->restarted_rounds = count_restarts(p);
	rc = request->by_round
		     ? flmem_heap_select_rounds(p, request->first_round, request->last_round, err)
		     : 0;
	for (size_t i = 0; i < p->site_count; i++)
		flmem_amounts_add(&p->totals, &p->sites[i].amounts);
	return rc;
}

/* True if the file has changed since it was copied, or no longer answers. */
static bool profile_has_changed(struct flmem_guarded_file *source,
				const struct flmem_profile_file *file)
{
	uint64_t now[2];

	if (flmem_profile_file_changed(file))
		return true;
	return flmem_guarded_file_is_copied(source) &&
	       (!flmem_guarded_file_read(source,
					 offsetof(struct flmem_profile_header, update_begin), now,
					 sizeof(now)) ||
		now[0] != file->header.update_begin || now[1] != file->header.update_end);
}

static int read_profile(const struct flmem_heap_request *request, struct flmem_guarded_file *source,
			const struct flmem_profile_file *file, struct flmem_heap_profile *p,
			struct flmem_error *err)
{
	FLMEM_AUTO(flmem_profile_reader_clear)
	struct flmem_profile_reader reader = {.file = file, .profile = p};
	char shown[256];

	errno = 0;
	if (!read_profile_lists(request, &reader))
		return flmem_error_set(err, FLMEM_EFAILED, reader.failed || !errno ? ENOMEM : errno,
				       "cannot read the profile '%s'",
				       flmem_text_escape(file->path, shown, sizeof(shown)));
	p->changing = p->ending == FLMEM_HEAP_RUNNING && profile_has_changed(source, file);
	forget_cut_amounts(file, p);
	return flmem_profile_reader_finish(request, p, err);
}

static void free_profile(struct flmem_heap_profile **profile)
{
	flmem_heap_profile_free(*profile);
}

static int read_sampled(const struct flmem_heap_request *request, struct flmem_guarded_file *source,
			int fd, struct flmem_heap_profile *profile, struct flmem_error *err)
{
	FLMEM_AUTO_PROFILE_FILE struct flmem_profile_file file = FLMEM_PROFILE_FILE_INIT;
	int rc = flmem_profile_file_open(fd, request->path, &file, err);

	return rc ? rc : read_profile(request, source, &file, profile, err);
}

static int fail_source(const char *path, int rc, struct flmem_error *err)
{
	char shown[256];

	flmem_text_escape(path, shown, sizeof(shown));
	if (rc == -EINVAL)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' is not a file", shown);
	if (rc == -EFBIG)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "cannot read the profile '%s': not a heap profile of flmem",
				       shown);
	if (rc == -ETIMEDOUT)
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "cannot read the profile '%s': the file system that it is "
				       "on did not answer within 2 s; copy the file elsewhere once "
				       "it answers",
				       shown);
	return flmem_error_set(err, flmem_code_of_open(-rc), -rc, "cannot open the profile '%s'",
			       shown);
}

bool flmem_heap_profile_has_magic(const char magic[FLMEM_HEAP_MAGIC_BYTES])
{
	return memcmp(magic, FLMEM_PROFILE_MAGIC, FLMEM_HEAP_MAGIC_BYTES) == 0 ||
	       memcmp(magic, FLMEM_JEMALLOC_DUMP_MAGIC, FLMEM_HEAP_MAGIC_BYTES) == 0;
}

/* Returns the number of bytes to copy, which is 0 unless the file is a profile. */
static uint64_t bytes_to_copy(struct flmem_guarded_file *source)
{
	char magic[FLMEM_HEAP_MAGIC_BYTES];

	return flmem_guarded_file_read(source, 0, magic, sizeof(magic)) &&
			       flmem_heap_profile_has_magic(magic)
		       ? FLMEM_PROFILE_LIMIT_MAX
		       : FLMEM_PROFILE_HEADER_SIZE;
}

static int open_profile_source(const char *path, struct flmem_guarded_file **ret_source,
			       int *ret_fd, struct flmem_error *err)
{
	FLMEM_AUTO_GUARDED_FILE struct flmem_guarded_file *source = NULL;
	int fd = flmem_guarded_file_open(path, &source);

	if (!fd)
		fd = flmem_guarded_file_take(source);
	if (source && fd < 0)
		fd = flmem_guarded_file_copy(source, bytes_to_copy(source));
	if (fd < 0)
		return fail_source(path, fd, err);
	*ret_fd = fd;
	*ret_source = FLMEM_TAKE(source);
	return 0;
}

int flmem_heap_profile_read(const struct flmem_heap_request *request,
			    struct flmem_heap_profile **ret_profile, struct flmem_error *err)
{
	FLMEM_AUTO(free_profile) struct flmem_heap_profile *profile = calloc(1, sizeof(*profile));
	FLMEM_AUTO_GUARDED_FILE struct flmem_guarded_file *source = NULL;
	FLMEM_AUTO_CLOSE int fd = -1;
	int rc;

	if (!profile)
		return flmem_error_nomem(err, "cannot read the profile '%s'", request->path);
	rc = open_profile_source(request->path, &source, &fd, err);
	if (rc)
		return rc;
	rc = flmem_jemalloc_dump_is_one(fd)
		     ? flmem_profile_read_jemalloc(request, fd, profile, err)
		     : read_sampled(request, source, FLMEM_TAKE_FD(fd), profile, err);
	if (!rc)
		*ret_profile = FLMEM_TAKE(profile);
	return rc;
}
