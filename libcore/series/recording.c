/* SPDX-License-Identifier: Apache-2.0 */
#include "series/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/bytes/varint.h"
#include "base/cleanup.h"
#include "series/recording_format.h"

#define WINDOW (2 * (FLMEM_BLOCK_HEADER + FLMEM_BLOCK_MAX))

/*
 * Limit of bytes read for blocks with wrong checksums: a hostile file may claim a large block at
 * every few bytes.
 */
#define VAIN_MAX ((uint64_t)256 << 20)

/* Fills the window; drops bytes that have been read. */
static void fill_window(struct flmem_recording *r)
{
	if (r->ended || r->bytes.length - r->at >= FLMEM_BLOCK_HEADER + FLMEM_BLOCK_MAX)
		return;
	memmove(r->bytes.data, r->bytes.data + r->at, r->bytes.length - r->at);
	r->bytes.length -= r->at;
	r->at = 0;
	while (!r->ended && r->bytes.length < WINDOW) {
		size_t room = WINDOW - r->bytes.length;
		ssize_t got = read(r->fd, r->bytes.data + r->bytes.length,
				   room < r->left ? room : (size_t)r->left);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			r->ended = true;
		else
			r->bytes.length += (size_t)got;
		r->left -= got > 0 ? (uint64_t)got : 0;
	}
}

void flmem_recording_limit(struct flmem_recording *recording, uint64_t size)
{
	if (size < recording->bytes.length) {
		recording->bytes.length = (size_t)size;
		recording->ended = true;
	}
	recording->left = size - recording->bytes.length;
}

static int begin_reading(struct flmem_recording *r, const char *name, struct flmem_error *err)
{
	r->budget = VAIN_MAX;
	fill_window(r);
	if (flmem_block_may_begin(r->bytes.data, r->bytes.length))
		return 0;
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "'%s' is not a recording of flmem watch --record", name);
}

bool flmem_recording_is_one(const char *path)
{
	FLMEM_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat status;
	char magic[FLMEM_BLOCK_MAGIC_SIZE];

	return fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
	       pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
	       flmem_block_may_begin(magic, sizeof(magic));
}

int flmem_recording_open(const char *path, struct flmem_recording *ret_recording,
			 struct flmem_error *err)
{
	FLMEM_AUTO(flmem_recording_close)
	struct flmem_recording r = {.bytes = FLMEM_BUF_INIT, .fd = -1, .left = UINT64_MAX};
	struct stat status;
	int rc;

	r.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (r.fd < 0)
		return flmem_error_set(err, flmem_code_of_open(errno), errno,
				       "cannot read the recording '%s'", path);
	if (fstat(r.fd, &status) < 0 || !S_ISREG(status.st_mode))
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' is not a regular file", path);
	if (!flmem_buf_reserve(&r.bytes, WINDOW))
		return flmem_error_nomem(err, "cannot read '%s'", path);
	rc = begin_reading(&r, path, err);
	if (rc)
		return rc;
	*ret_recording = r;
	r = (struct flmem_recording){.bytes = FLMEM_BUF_INIT, .fd = -1};
	return 0;
}

void flmem_recording_close(struct flmem_recording *recording)
{
	flmem_cleanup_close(&recording->fd);
	recording->fd = -1;
	flmem_buf_clear(&recording->bytes);
	flmem_last_samples_clear(&recording->last);
}

/* Returns the length of the whole block at `at`, or 0. */
static size_t whole_block(struct flmem_recording *r)
{
	const char *block = r->bytes.data + r->at;
	size_t left = r->bytes.length - r->at, length;

	length = left > FLMEM_BLOCK_HEADER ? flmem_block_length(block) : 0;
	if (!length || length > left - FLMEM_BLOCK_HEADER || length > r->budget)
		return 0;
	if (flmem_block_is_whole(block, length))
		return length;
	r->budget -= length;
	return 0;
}

/* Skips to the next possible start of a block. */
static void skip_to_block(struct flmem_recording *r)
{
	const char *from = r->bytes.data + r->at + 1;
	size_t left = r->bytes.length - r->at - 1;
	const char *next = left ? memchr(from, FLMEM_BLOCK_MAGIC[0], left) : NULL;
	size_t step = next ? (size_t)(next - from) + 1 : left + 1;

	r->at += step;
	r->skipped += step;
}

static bool next_block(struct flmem_recording *r)
{
	for (;;) {
		size_t length;

		fill_window(r);
		if (r->at >= r->bytes.length)
			return false;
		length = whole_block(r);
		if (length) {
			r->record = r->at + FLMEM_BLOCK_HEADER;
			r->block_end = r->record + length;
			r->at = r->block_end;
			break;
		}
		skip_to_block(r);
	}
	r->ticked = false;
	flmem_last_samples_reset(&r->last);
	return true;
}

static bool read_record_number(struct flmem_recording *r, uint64_t *ret_number)
{
	return flmem_varint_take(r->bytes.data, r->block_end, &r->record, ret_number);
}

/* Reads a number in the given unit. */
static bool read_times(struct flmem_recording *r, uint64_t unit, uint64_t *ret_number)
{
	uint64_t number;

	return read_record_number(r, &number) && !__builtin_mul_overflow(number, unit, ret_number);
}

static bool read_process_number(struct flmem_recording *r, struct flmem_record *record)
{
	return read_record_number(r, &record->process) &&
	       record->process < FLMEM_RECORD_PROCESSES_MAX;
}

static bool read_record_text(struct flmem_recording *r, char *text)
{
	uint64_t length;

	if (!read_record_number(r, &length) || length >= FLMEM_RECORD_TEXT_MAX ||
	    length > r->block_end - r->record)
		return false;
	memcpy(text, r->bytes.data + r->record, length);
	text[length] = '\0';
	r->record += length;
	return true;
}

static bool read_session(struct flmem_recording *r, struct flmem_record *record)
{
	uint64_t version;

	if (!read_record_number(r, &version))
		return false;
	r->newer |= version > FLMEM_BLOCK_VERSION;
	r->foreign = version != FLMEM_BLOCK_VERSION;
	return !r->foreign && read_record_number(r, &record->interval_us) &&
	       read_times(r, 1000, &record->at_us);
}

static bool read_process(struct flmem_recording *r, struct flmem_record *record)
{
	return read_process_number(r, record) && read_record_number(r, &record->pid) &&
	       read_record_number(r, &record->start_time) &&
	       read_record_number(r, &record->framework) && read_record_number(r, &record->role) &&
	       read_record_text(r, r->command) && read_record_text(r, r->site);
}

static bool read_tick(struct flmem_recording *r, struct flmem_record *record)
{
	uint64_t elapsed, at;

	if (!read_record_number(r, &elapsed) || !read_record_number(r, &at))
		return false;
	if (r->ticked) {
		at = r->at_ms + flmem_varint_unfold(elapsed, at);
		elapsed += r->elapsed_ms;
	}
	r->ticked = true;
	r->elapsed_ms = elapsed;
	r->at_ms = at;
	return !__builtin_mul_overflow(elapsed, 1000, &record->elapsed_us) &&
	       !__builtin_mul_overflow(at, 1000, &record->at_us);
}

static bool read_sample(struct flmem_recording *r, struct flmem_record *record)
{
	uint64_t folded, *kib;

	if (!r->ticked || !read_process_number(r, record) || !read_record_number(r, &folded))
		return false;
	kib = flmem_last_samples_at(&r->last, record->process);
	if (!kib)
		return false;
	*kib = flmem_varint_unfold(*kib, folded);
	return !__builtin_mul_overflow(*kib, 1024, &record->bytes);
}

static bool read_split(struct flmem_recording *r, struct flmem_record *record)
{
	if (!read_process_number(r, record))
		return false;
	for (size_t i = 0; i < FLMEM_RECORD_KINDS; i++) {
		uint64_t kib;

		if (!read_record_number(r, &kib))
			return false;
		record->kinds[i] = UINT64_MAX;
		if (kib && __builtin_mul_overflow(kib - 1, 1024, &record->kinds[i]))
			return false;
	}
	return true;
}

/* In the file 0 means unknown. */
static bool read_numbers(struct flmem_recording *r, struct flmem_record *record, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t number;

		if (!read_record_number(r, &number))
			return false;
		record->numbers[i] = number ? number - 1 : UINT64_MAX;
	}
	return true;
}

static bool read_action(struct flmem_recording *r, struct flmem_record *record)
{
	return read_process_number(r, record) && read_record_number(r, &record->action) &&
	       read_numbers(r, record, FLMEM_RECORD_OF_ACTION) && read_record_text(r, r->reason);
}

static bool read_pressure(struct flmem_recording *r, struct flmem_record *record)
{
	uint64_t of_host;

	if (!read_process_number(r, record) || !read_record_number(r, &of_host))
		return false;
	record->of_host = of_host != 0;
	return read_numbers(r, record, FLMEM_RECORD_NUMBERS);
}

static bool read_record(struct flmem_recording *r, struct flmem_record *record)
{
	uint64_t kind;

	if (!read_record_number(r, &kind))
		return false;
	record->kind = kind <= FLMEM_RECORD_OWN_END ? (enum flmem_record_kind)kind : 0;
	if (r->foreign && record->kind != FLMEM_RECORD_SESSION)
		return false;
	switch (record->kind) {
	case FLMEM_RECORD_SESSION:
		return read_session(r, record);
	case FLMEM_RECORD_PROCESS:
		return read_process(r, record);
	case FLMEM_RECORD_TICK:
		return read_tick(r, record);
	case FLMEM_RECORD_SAMPLE:
		return read_sample(r, record);
	case FLMEM_RECORD_SPLIT:
		return read_split(r, record);
	case FLMEM_RECORD_END:
	case FLMEM_RECORD_OWN_ROUNDS:
		return read_process_number(r, record);
	case FLMEM_RECORD_ROUND_START:
	case FLMEM_RECORD_ROUND_END:
	case FLMEM_RECORD_ROUND_RUNS:
		return read_record_number(r, &record->round);
	case FLMEM_RECORD_OWN_START:
	case FLMEM_RECORD_OWN_END:
		return read_process_number(r, record) && read_record_number(r, &record->round);
	case FLMEM_RECORD_ACTION:
		return read_action(r, record);
	case FLMEM_RECORD_PRESSURE:
		return read_pressure(r, record);
	}
	return false;
}

bool flmem_recording_next(struct flmem_recording *recording, struct flmem_record *ret_record)
{
	for (;;) {
		while (recording->record >= recording->block_end)
			if (!next_block(recording))
				return false;
		recording->command[0] = recording->site[0] = recording->reason[0] = '\0';
		ret_record->reason = recording->reason;
		ret_record->command = recording->command;
		ret_record->site = recording->site;
		recording->record_at = recording->record;
		if (read_record(recording, ret_record))
			return true;
		/* After an invalid record no later one of the block can be trusted. */
		recording->skipped += recording->block_end - recording->record;
		recording->record = recording->block_end;
	}
}

void flmem_recording_reject(struct flmem_recording *recording, bool rest_of_block)
{
	if (rest_of_block)
		recording->record = recording->block_end;
	recording->skipped += recording->record - recording->record_at;
}
