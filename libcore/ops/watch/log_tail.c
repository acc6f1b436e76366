/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/watch/log_tail.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file_place.h"

#define READ_SIZE ((size_t)64 << 10)

/*
 * POLL_MAX: most bytes that one call reads; the next call continues. SKIP_COST: of a line that is
 * too long only the end of it is searched for, so more of it is read in one call.
 */
#define POLL_MAX  ((size_t)8 << 20)
#define SKIP_COST 16U

/* Continues at the byte `offset`, from the next start of a line on. */
static void start_log_at(struct flmem_log *log, off_t offset)
{
	const size_t length = offset < FLMEM_LOG_SEEN_MAX ? (size_t)offset : FLMEM_LOG_SEEN_MAX;
	const ssize_t got = pread(log->fd, log->next.seen, length, offset - (off_t)length);

	log->next.offset = offset;
	log->next.seen_length = got > 0 && (size_t)got == length ? length : 0;
	log->length = 0;
	log->skipping =
		offset > 0 && (!log->next.seen_length || log->next.seen[length - 1] != '\n');
}

/* Continues at the start, since the file was cut or is another one. */
static void leave_log(struct flmem_log *log)
{
	if (log->next.offset) {
		log->left = log->next;
		log->left_length = log->length;
	}
	start_log_at(log, 0);
}

/*
 * Reads the bytes that are now before a place. Returns false if there are fewer than were read
 * before.
 */
static bool read_place(const struct flmem_log *log, const struct flmem_log_place *place,
		       char now[FLMEM_LOG_SEEN_MAX])
{
	const ssize_t got =
		pread(log->fd, now, place->seen_length, place->offset - (off_t)place->seen_length);

	return got > 0 && (size_t)got == place->seen_length;
}

/* Skips lines that have been read, after an editor or rsync replaced the log by a copy. */
static void pass_copied_lines(struct flmem_log *log)
{
	const struct flmem_log_place *left = &log->left;
	char now[FLMEM_LOG_SEEN_MAX];

	if (!log->next.offset && read_place(log, left, now) &&
	    memcmp(now, left->seen, left->seen_length) == 0)
		start_log_at(log, left->offset - (off_t)log->left_length);
}

static int open_log_file(struct flmem_log *log)
{
	struct stat status;
	FLMEM_AUTO_CLOSE int fd =
		flmem_file_place_open_regular(AT_FDCWD, log->path, O_RDONLY, &status);

	if (fd < 0)
		return fd;
	log->device = status.st_dev;
	log->inode = status.st_ino;
	log->fd = FLMEM_TAKE_FD(fd);
	leave_log(log);
	return 0;
}

int flmem_log_open(const char *path, off_t back, struct flmem_log *ret_log, struct flmem_error *err)
{
	FLMEM_AUTO_LOG struct flmem_log log = {.path = strdup(path), .fd = -1};
	int rc;

	log.line = malloc(FLMEM_LOG_LINE_MAX + 1);
	if (!log.path || !log.line)
		return flmem_error_nomem(err, "cannot follow '%s'", path);
	rc = open_log_file(&log);
	if (rc == -EINVAL)
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"the log '%s' is not a regular file; name the file that the job writes",
			path);
	if (rc && rc != -ENOENT)
		return flmem_error_set(err, flmem_code_of_open(-rc), -rc,
				       "cannot read the log '%s'", path);
	if (!rc) {
		off_t end = lseek(log.fd, 0, SEEK_END);

		start_log_at(&log, end > back ? end - back : 0);
	}
	*ret_log = log;
	log = (struct flmem_log){.fd = -1};
	return 0;
}

void flmem_log_close(struct flmem_log *log)
{
	flmem_cleanup_close(&log->fd);
	free(log->path);
	free(log->line);
	*log = (struct flmem_log){.fd = -1};
}

static void append_bytes(struct flmem_log *log, const char *bytes, size_t length)
{
	size_t room = FLMEM_LOG_LINE_MAX - log->length;

	if (log->skipping)
		return;
	if (length > room)
		length = room;
	memcpy(log->line + log->length, bytes, length);
	log->length += length;
}

void flmem_log_feed(struct flmem_log *log, const char *bytes, size_t length, flmem_log_visit *visit,
		    void *context)
{
	const char *end = bytes + length;

	while (bytes < end) {
		const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));

		append_bytes(log, bytes, (size_t)((newline ? newline : end) - bytes));
		if (!newline)
			return;
		if (!log->skipping)
			visit(context, log->line, log->length);
		log->length = 0;
		log->skipping = false;
		bytes = newline + 1;
	}
}

static void remember_seen(struct flmem_log *log, const char *bytes, size_t length)
{
	const size_t added = length < FLMEM_LOG_SEEN_MAX ? length : FLMEM_LOG_SEEN_MAX;
	size_t kept = FLMEM_LOG_SEEN_MAX - added;

	if (kept > log->next.seen_length)
		kept = log->next.seen_length;
	memmove(log->next.seen, log->next.seen + log->next.seen_length - kept, kept);
	memcpy(log->next.seen + kept, bytes + length - added, added);
	log->next.seen_length = kept + added;
}

/* Reads the next bytes. Returns true at the end of the file. */
static bool read_available(struct flmem_log *log, flmem_log_visit *visit, void *context)
{
	char bytes[READ_SIZE];

	pass_copied_lines(log);
	for (size_t total = 0; total < POLL_MAX;) {
		bool skips = log->skipping || log->length == FLMEM_LOG_LINE_MAX;
		ssize_t got = pread(log->fd, bytes, sizeof(bytes), log->next.offset);

		if (got <= 0)
			return true;
		log->next.offset += got;
		total += (size_t)got / (skips ? SKIP_COST : 1);
		remember_seen(log, bytes, (size_t)got);
		flmem_log_feed(log, bytes, (size_t)got, visit, context);
		if ((size_t)got < sizeof(bytes))
			return true;
	}
	return false;
}

static bool is_other_file(const struct flmem_log *log)
{
	struct stat status;

	return stat(log->path, &status) == 0 &&
	       (status.st_dev != log->device || status.st_ino != log->inode);
}

/*
 * Recognises a hole: a writer without O_APPEND continues at its offset, also after another process
 * cut the file.
 */
static bool is_log_hole(const char *bytes, size_t length)
{
	return !bytes[0] && memcmp(bytes, bytes + 1, length - 1) == 0;
}

/* Returns true if other bytes are now where the last ones were read. */
static bool is_written_anew(const struct flmem_log *log)
{
	char now[FLMEM_LOG_SEEN_MAX];

	return read_place(log, &log->next, now) &&
	       memcmp(now, log->next.seen, log->next.seen_length) != 0 &&
	       !is_log_hole(now, log->next.seen_length);
}

/*
 * Handles a file that was truncated in place, as logrotate's copytruncate does, and may have grown
 * since.
 */
static void restart_if_cut(struct flmem_log *log)
{
	struct stat status;

	if (fstat(log->fd, &status) == 0 &&
	    (status.st_size < log->next.offset || is_written_anew(log)))
		leave_log(log);
}

void flmem_log_poll(struct flmem_log *log, flmem_log_visit *visit, void *context)
{
	if (log->fd >= 0) {
		bool other = is_other_file(log);

		restart_if_cut(log);
		if (!read_available(log, visit, context) || !other)
			return;
		close(log->fd);
		log->fd = -1;
	}
	if (open_log_file(log) == 0)
		read_available(log, visit, context);
}
