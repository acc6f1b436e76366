/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/io.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/statvfs.h>

#include "base/attempt.h"
#include "base/cleanup.h"
#include "base/files/file_place.h"

#define READ_STEP 4096U

int flmem_io_read_all(int fd, size_t limit, struct flmem_buf *buf)
{
	size_t total = 0;

	for (;;) {
		size_t room = limit - total;
		ssize_t got;

		if (!flmem_buf_reserve(buf, READ_STEP))
			return -ENOMEM;
		/* Large reads of /proc files are cheaper, so use the whole allocation. */
		if (room > buf->capacity - buf->length - 1)
			room = buf->capacity - buf->length - 1;
		if (!room) {
			char probe;

			got = read(fd, &probe, 1);
			return got > 0 ? -EFBIG : got < 0 ? -errno : 0;
		}
		got = read(fd, buf->data + buf->length, room);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			buf->data[buf->length] = '\0';
			return got < 0 ? -errno : 0;
		}
		buf->length += (size_t)got;
		buf->data[buf->length] = '\0';
		total += (size_t)got;
		if (buf->length + 1 == buf->capacity && !flmem_buf_reserve(buf, buf->capacity))
			return -ENOMEM;
	}
}

int flmem_io_read_file_at(int dirfd, const char *path, size_t limit, struct flmem_buf *buf)
{
	FLMEM_AUTO_CLOSE int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	return flmem_io_read_all(fd, limit, buf);
}

int flmem_io_read_pipe(int fd, size_t limit, struct flmem_buf *buf)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	size_t before = buf->length;
	int rc;

	/*
	 * Read before waiting: poll() would wait for a writer of a FIFO that no process has opened
	 * to write, while a read reports it as empty.
	 */
	do
		rc = flmem_io_read_all(fd, limit - (buf->length - before), buf);
	while (rc == -EAGAIN && (poll(&ready, 1, -1) >= 0 || errno == EINTR));
	return rc;
}

int flmem_io_read_named(const char *path, size_t limit, struct flmem_buf *buf)
{
	FLMEM_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	return fd < 0 ? -errno : flmem_io_read_pipe(fd, limit, buf);
}

int flmem_io_reopen(int fd, int flags)
{
	char self[32];
	int opened;

	/* Opening this path opens the file itself (proc(5)). */
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	opened = open(self, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return opened < 0 ? -errno : opened;
}

DIR *flmem_io_open_dir(int dirfd, const char *path)
{
	FLMEM_AUTO_CLOSE int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (dir)
		(void)FLMEM_TAKE_FD(fd);
	return dir;
}

int flmem_io_free_bytes(int fd, uint64_t *ret_bytes)
{
	struct statvfs status;

	if (fstatvfs(fd, &status) < 0)
		return -errno;
	if (__builtin_mul_overflow((uint64_t)status.f_bavail, (uint64_t)status.f_frsize, ret_bytes))
		*ret_bytes = UINT64_MAX;
	return 0;
}

bool flmem_io_read_at(int fd, uint64_t offset, void *out, size_t length)
{
	char *p = out;

	while (length) {
		ssize_t got = pread(fd, p, length, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0 || flmem_attempt_is_lost())
			return false;
		p += got;
		offset += (uint64_t)got;
		length -= (size_t)got;
	}
	return true;
}

int flmem_io_write_all(int fd, const void *bytes, size_t length)
{
	const char *p = bytes;

	while (length) {
		ssize_t put = write(fd, p, length);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -errno;
		p += put;
		length -= (size_t)put;
	}
	return 0;
}

int flmem_io_write_file(const char *path, const void *bytes, size_t length, mode_t mode,
			bool replace, struct flmem_error *err)
{
	FLMEM_AUTO_FILE_PLACE struct flmem_file_place place = FLMEM_FILE_PLACE_INIT;
	int rc = flmem_file_place_open(path, &place);

	if (rc)
		return flmem_error_set(err, flmem_code_of_open(-rc), -rc, "cannot write '%s'",
				       path);
	return flmem_file_place_write(&place, bytes, length, mode, replace, err);
}
