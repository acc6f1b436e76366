/* SPDX-License-Identifier: Apache-2.0 */
#include "series/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/bytes/varint.h"
#include "base/cleanup.h"
#include "base/files/file_place.h"
#include "base/files/io.h"
#include "series/downsample_job.h"
#include "series/recording_format.h"

/*
 * The introduction is repeated after this many blocks, for readers of a file whose middle is
 * damaged.
 */
#define INTRO_EVERY 256U

#define INTRO_MAX (FLMEM_BLOCK_MAX / 2)

/*
 * Length from which a block ends with the next tick, and length from which it ends within a tick.
 */
#define BLOCK_ENOUGH (FLMEM_BLOCK_MAX / 32)
#define BLOCK_FULL   (FLMEM_BLOCK_MAX / 2)
#define COMMAND_MAX  1024U

/*
 * Reports whether the file is empty, a recording, or the part of a first block that a killed writer
 * left.
 */
static bool may_append(int fd, off_t size)
{
	char head[FLMEM_BLOCK_MAGIC_SIZE];
	size_t length = (size_t)size < sizeof(head) ? (size_t)size : sizeof(head);

	return pread(fd, head, length, 0) == (ssize_t)length && flmem_block_may_begin(head, length);
}

/*
 * Refuses a file of another user, or with hard links: other processes choose the recorded text, so
 * it must not be written to a file that another user chose, or owns and may read.
 */
static int check_owner(const struct stat *status, const char *path, struct flmem_error *err)
{
	if (status->st_uid != geteuid())
		return flmem_error_set(err, FLMEM_EPERM, 0,
				       "'%s' belongs to another user; choose another file", path);
	if (status->st_nlink > 1)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' has other names (hard links); choose another file",
				       path);
	return 0;
}

/*
 * Returns false when another watch has replaced the file with a thinned one, or the user has moved
 * it.
 */
static bool is_still_there(int fd, const char *path)
{
	return flmem_file_place_is_named(fd, AT_FDCWD, path);
}

static int prepare_recording_file(int fd, const char *path, uint64_t *ret_size,
				  struct flmem_error *err)
{
	struct stat status;
	int rc;

	if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' is not a regular file", path);
	rc = check_owner(&status, path, err);
	if (rc)
		return rc;
	if (!may_append(fd, status.st_size))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is not a recording and is not changed", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "another watch records to '%s'; choose another file", path);
	if (!is_still_there(fd, path))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' was replaced just now; try again", path);
	/* A partial magic holds no data and would hide the next block from readers. */
	if (status.st_size < (off_t)FLMEM_BLOCK_MAGIC_SIZE && ftruncate(fd, 0) == 0)
		status.st_size = 0;
	*ret_size = (uint64_t)status.st_size;
	return 0;
}

static void init_recorder(int fd, char *path, uint64_t size, struct flmem_recorder *ret_recorder)
{
	*ret_recorder = (struct flmem_recorder){
		.fd = fd,
		.path = path,
		.budget = FLMEM_RECORDING_BUDGET,
		.thin_at = FLMEM_RECORDING_BUDGET,
		.size = size,
		.introduced = true,
		.block = FLMEM_BUF_INIT,
		.intro = FLMEM_BUF_INIT,
	};
}

int flmem_recorder_open_new(int directory, const char *name, struct flmem_recorder *ret_recorder)
{
	FLMEM_AUTO_CLOSE int fd =
		openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	init_recorder(FLMEM_TAKE_FD(fd), NULL, 0, ret_recorder);
	return 0;
}

bool flmem_recorder_may_drop(int directory, const char *name)
{
	struct stat status;
	FLMEM_AUTO_CLOSE int fd =
		flmem_file_place_open_regular(directory, name, O_RDONLY | O_NOFOLLOW, &status);

	return fd >= 0 && status.st_uid == geteuid() && status.st_nlink == 1 &&
	       may_append(fd, status.st_size);
}

int flmem_recorder_open(const char *path, struct flmem_recorder *ret_recorder,
			struct flmem_error *err)
{
	/* Command lines are private to the user. */
	FLMEM_AUTO_CLOSE int fd =
		open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
	uint64_t size = 0;
	int rc;

	/*
	 * Refuse a link, even a dangling one: it would create a file at a place that another user
	 * chose.
	 */
	if (fd < 0 && errno == ELOOP)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is a symbolic link; name its target", path);
	if (fd < 0)
		return flmem_error_set(err, flmem_code_of_open(errno), errno,
				       "cannot record to '%s'", path);
	rc = prepare_recording_file(fd, path, &size, err);
	if (rc)
		return rc;
	init_recorder(FLMEM_TAKE_FD(fd), realpath(path, NULL), size, ret_recorder);
	return 0;
}

void flmem_recorder_close(struct flmem_recorder *recorder)
{
	if (recorder->fd >= 0)
		flmem_recorder_flush(recorder);
	flmem_downsample_job_free(recorder->thinning);
	recorder->thinning = NULL;
	free(recorder->path);
	recorder->path = NULL;
	flmem_cleanup_close(&recorder->fd);
	recorder->fd = -1;
	flmem_buf_clear(&recorder->block);
	flmem_buf_clear(&recorder->intro);
	flmem_last_samples_clear(&recorder->last);
}

static void lose_block(struct flmem_recorder *r, int error)
{
	r->lost++;
	r->error = error;
	r->introduced = false;
	/* Readers would skip half a block; removing it leaves space for a whole one. */
	if (ftruncate(r->fd, (off_t)r->size) < 0)
		r->error = errno;
}

static bool write_block(struct flmem_recorder *r, const struct flmem_buf *records)
{
	FLMEM_AUTO_BUF struct flmem_buf block = FLMEM_BUF_INIT;
	char header[FLMEM_BLOCK_HEADER] = FLMEM_BLOCK_MAGIC;
	int rc = records->failed ? -ENOMEM : 0;

	if (!records->length && !rc)
		return true;
	flmem_block_put_u32(header + 4, (uint32_t)records->length);
	flmem_block_put_u32(header + 8, flmem_block_sum(records->data, records->length));
	flmem_buf_append(&block, header, sizeof(header));
	flmem_buf_append(&block, records->data, records->length);
	if (!rc && block.failed)
		rc = -ENOMEM;
	/* Write with one call, so that a kill almost always leaves a whole block or none. */
	if (!rc && lseek(r->fd, (off_t)r->size, SEEK_SET) < 0)
		rc = -errno;
	if (!rc)
		rc = flmem_io_write_all(r->fd, block.data, block.length);
	if (rc) {
		lose_block(r, -rc);
		return false;
	}
	r->size += block.length;
	return true;
}

static void adopt_thinned(struct flmem_recorder *r)
{
	uint64_t size, allowed = flmem_downsample_job_budget(r->thinning);
	int fd = -1;

	if (is_still_there(r->fd, r->path))
		fd = flmem_downsample_job_replace(r->thinning, r->fd, r->size, &size);
	if (fd >= 0) {
		close(r->fd);
		r->fd = fd;
		r->size = size;
	}
	/* If thinning or replacing the file failed, the file must grow before the next try. */
	r->thin_at = r->size + r->size / 4;
	if (r->thin_at < allowed)
		r->thin_at = allowed;
}

/* Thins the file in the background if it exceeds its budget, and adopts the result. */
static void limit_size(struct flmem_recorder *r)
{
	enum flmem_downsample_state state;

	if (!r->thinning && r->budget && r->path && r->size > r->thin_at &&
	    is_still_there(r->fd, r->path))
		r->thinning = flmem_downsample_job_start(r->path, r->size, r->budget);
	state = r->thinning ? flmem_downsample_job_state(r->thinning) : FLMEM_DOWNSAMPLE_RUNS;
	if (state == FLMEM_DOWNSAMPLE_RUNS)
		return;
	if (state == FLMEM_DOWNSAMPLE_DONE)
		adopt_thinned(r);
	else if (state == FLMEM_DOWNSAMPLE_NEEDLESS)
		r->thin_at = flmem_downsample_job_budget(r->thinning);
	else
		r->thin_at = r->size + r->size / 4;
	flmem_downsample_job_free(r->thinning);
	r->thinning = NULL;
}

static void write_pending(struct flmem_recorder *recorder)
{
	if (!recorder->block.length && !recorder->block.failed)
		return;
	if (++recorder->blocks % INTRO_EVERY == 0)
		recorder->introduced = false;
	if (!recorder->introduced)
		recorder->introduced = write_block(recorder, &recorder->intro);
	if (recorder->introduced)
		write_block(recorder, &recorder->block);
	flmem_buf_clear(&recorder->block);
	recorder->ticked = false;
	flmem_last_samples_reset(&recorder->last);
}

void flmem_recorder_flush(struct flmem_recorder *recorder)
{
	write_pending(recorder);
	limit_size(recorder);
}

static void put_record_text(struct flmem_buf *buf, const char *text)
{
	size_t length = strnlen(text, COMMAND_MAX);

	flmem_varint_put(buf, length);
	flmem_buf_append(buf, text, length);
}

static void put_session(struct flmem_buf *b, const struct flmem_record *record)
{
	flmem_varint_put(b, FLMEM_BLOCK_VERSION);
	flmem_varint_put(b, record->interval_us);
	flmem_varint_put(b, record->at_us / 1000);
}

static void put_process_record(struct flmem_buf *b, const struct flmem_record *record)
{
	flmem_varint_put(b, record->process);
	flmem_varint_put(b, record->pid);
	flmem_varint_put(b, record->start_time);
	flmem_varint_put(b, record->framework);
	flmem_varint_put(b, record->role);
	put_record_text(b, record->command);
	put_record_text(b, record->site);
}

/*
 * Writes the first tick of a block in full, the others as differences of elapsed time and clock
 * error.
 */
static void put_tick(struct flmem_recorder *r, const struct flmem_record *record)
{
	uint64_t elapsed = record->elapsed_us / 1000, at = record->at_us / 1000;

	if (r->ticked) {
		flmem_varint_put(&r->block, elapsed - r->elapsed_ms);
		flmem_varint_put(&r->block,
				 flmem_varint_fold(elapsed - r->elapsed_ms, at - r->at_ms));
	} else {
		flmem_varint_put(&r->block, elapsed);
		flmem_varint_put(&r->block, at);
	}
	r->ticked = true;
	r->elapsed_ms = elapsed;
	r->at_ms = at;
}

static void put_sample(struct flmem_buf *b, const struct flmem_record *record, uint64_t *last)
{
	uint64_t kib = record->bytes / 1024;

	flmem_varint_put(b, record->process);
	flmem_varint_put(b, flmem_varint_fold(*last, kib));
	*last = kib;
}

static void put_split(struct flmem_buf *b, const struct flmem_record *record)
{
	flmem_varint_put(b, record->process);
	for (size_t i = 0; i < FLMEM_RECORD_KINDS; i++)
		flmem_varint_put(b,
				 record->kinds[i] == UINT64_MAX ? 0 : record->kinds[i] / 1024 + 1);
}

/* In the file 0 means unknown. */
static void put_numbers(struct flmem_buf *b, const struct flmem_record *record, size_t count)
{
	for (size_t i = 0; i < count; i++)
		flmem_varint_put(b, record->numbers[i] == UINT64_MAX ? 0 : record->numbers[i] + 1);
}

static void put_action(struct flmem_buf *b, const struct flmem_record *record)
{
	flmem_varint_put(b, record->process);
	flmem_varint_put(b, record->action);
	put_numbers(b, record, FLMEM_RECORD_OF_ACTION);
	put_record_text(b, record->reason);
}

static void put_pressure(struct flmem_buf *b, const struct flmem_record *record)
{
	flmem_varint_put(b, record->process);
	flmem_varint_put(b, record->of_host);
	put_numbers(b, record, FLMEM_RECORD_NUMBERS);
}

/* Moves *at past a record of the introduction, which has only sessions and processes. */
static bool pass_introduced(const struct flmem_buf *intro, size_t *at, uint64_t *ret_process)
{
	uint64_t kind, number, length;
	bool ok = flmem_varint_take(intro->data, intro->length, at, &kind);
	bool session = ok && kind == FLMEM_RECORD_SESSION;

	*ret_process = UINT64_MAX;
	for (unsigned i = 0; ok && i < (session ? 3 : 5); i++) {
		ok = flmem_varint_take(intro->data, intro->length, at, &number);
		if (!session && !i)
			*ret_process = number;
	}
	for (unsigned i = 0; ok && !session && i < 2; i++) {
		ok = flmem_varint_take(intro->data, intro->length, at, &length);
		*at += ok ? length : 0;
	}
	return ok && *at <= intro->length;
}

/* Drops the earlier record of a process that now runs another program. */
static void drop_introduced(struct flmem_recorder *r, uint64_t process)
{
	size_t at = 0, from;
	uint64_t found;

	if (r->intro.failed)
		return;
	for (from = 0; at < r->intro.length; from = at) {
		if (!pass_introduced(&r->intro, &at, &found))
			return;
		if (found != process)
			continue;
		memmove(r->intro.data + from, r->intro.data + at, r->intro.length - at);
		r->intro.length -= at - from;
		return;
	}
}

/* Adds records that later ones depend on to the introduction. */
static void introduce_record(struct flmem_recorder *r, const struct flmem_record *record,
			     size_t from)
{
	if (record->kind == FLMEM_RECORD_PROCESS && record->process < r->met)
		drop_introduced(r, record->process);
	else if (record->kind == FLMEM_RECORD_PROCESS)
		r->met = record->process + 1;
	if (r->intro.length + (r->block.length - from) <= INTRO_MAX)
		flmem_buf_append(&r->intro, r->block.data + from, r->block.length - from);
}

/* Starts a new block if this one is long enough; samples and their tick must be in one block. */
static void end_block(struct flmem_recorder *r, enum flmem_record_kind next)
{
	const struct flmem_record tick = {.elapsed_us = r->elapsed_ms * 1000,
					  .at_us = r->at_ms * 1000};
	bool ticked = r->ticked;

	if (next == FLMEM_RECORD_SESSION) {
		/* A block with a session is complete by itself, also when it is repeated. */
		flmem_recorder_flush(r);
		flmem_buf_reset(&r->intro);
		r->met = 0;
		return;
	}
	if (r->block.length <= (next == FLMEM_RECORD_TICK ? BLOCK_ENOUGH : BLOCK_FULL))
		return;
	flmem_recorder_flush(r);
	if (!ticked || next == FLMEM_RECORD_TICK)
		return;
	flmem_varint_put(&r->block, FLMEM_RECORD_TICK);
	put_tick(r, &tick);
}

void flmem_recorder_add(struct flmem_recorder *recorder, const struct flmem_record *record)
{
	struct flmem_buf *b = &recorder->block;
	uint64_t *last;
	size_t from;

	if (record->process >= FLMEM_RECORD_PROCESSES_MAX)
		return;
	last = flmem_last_samples_at(&recorder->last, record->process);
	if (!last)
		return;
	end_block(recorder, record->kind);
	from = b->length;
	flmem_varint_put(b, record->kind);
	switch (record->kind) {
	case FLMEM_RECORD_SESSION:
		put_session(b, record);
		break;
	case FLMEM_RECORD_PROCESS:
		put_process_record(b, record);
		break;
	case FLMEM_RECORD_TICK:
		put_tick(recorder, record);
		break;
	case FLMEM_RECORD_SAMPLE:
		put_sample(b, record, last);
		break;
	case FLMEM_RECORD_SPLIT:
		put_split(b, record);
		break;
	case FLMEM_RECORD_END:
	case FLMEM_RECORD_OWN_ROUNDS:
		flmem_varint_put(b, record->process);
		break;
	case FLMEM_RECORD_ROUND_START:
	case FLMEM_RECORD_ROUND_END:
	case FLMEM_RECORD_ROUND_RUNS:
		flmem_varint_put(b, record->round);
		break;
	case FLMEM_RECORD_OWN_START:
	case FLMEM_RECORD_OWN_END:
		flmem_varint_put(b, record->process);
		flmem_varint_put(b, record->round);
		break;
	case FLMEM_RECORD_ACTION:
		put_action(b, record);
		break;
	case FLMEM_RECORD_PRESSURE:
		put_pressure(b, record);
		break;
	}
	if (record->kind == FLMEM_RECORD_SESSION || record->kind == FLMEM_RECORD_PROCESS)
		introduce_record(recorder, record, from);
}
