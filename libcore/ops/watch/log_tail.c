/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/watch/log_tail.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file_place.h"

#define READ_SIZE ((size_t)64 << 10)

/* The most that one call reads; the next call reads on. */
#define POLL_MAX ((size_t)8 << 20)

static int open_log_file(struct flmem_log *log)
{
	struct stat status;
	FLMEM_AUTO_CLOSE int fd =
		flmem_file_place_open_regular(AT_FDCWD, log->path, O_RDONLY, &status);

	if (fd < 0)
		return fd;
	log->device = status.st_dev;
	log->inode = status.st_ino;
	log->offset = 0;
	log->length = 0;
	log->skipping = false;
	log->fd = FLMEM_TAKE_FD(fd);
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
	if (rc == -EACCES || rc == -EPERM)
		return flmem_error_set(err, FLMEM_EPERM, -rc, "cannot read the log '%s'", path);
	if (rc == -EINVAL)
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"the log '%s' is not a regular file; name the file that the job writes",
			path);
	if (rc && rc != -ENOENT)
		return flmem_error_set(err, FLMEM_EUSAGE, -rc, "cannot read the log '%s'", path);
	if (!rc) {
		off_t end = lseek(log.fd, 0, SEEK_END);
		char before = '\n';

		log.offset = end > back ? end - back : 0;
		log.skipping = log.offset > 0 &&
			       (pread(log.fd, &before, 1, log.offset - 1) != 1 || before != '\n');
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

/* Reads the next bytes; true at the end of the file. */
static bool read_available(struct flmem_log *log, flmem_log_visit *visit, void *context)
{
	char bytes[READ_SIZE];

	for (size_t total = 0; total < POLL_MAX;) {
		ssize_t got = pread(log->fd, bytes, sizeof(bytes), log->offset);

		if (got <= 0)
			return true;
		log->offset += got;
		total += (size_t)got;
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

/* Handles a file that was truncated in place, as logrotate's copytruncate does. */
static void restart_if_cut(struct flmem_log *log)
{
	struct stat status;

	if (fstat(log->fd, &status) == 0 && status.st_size < log->offset) {
		log->offset = 0;
		log->length = 0;
		log->skipping = false;
	}
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
