/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library in front of the C library: flock(), rename(), unlinkat(), pwrite(), and fsync() with
 * fdatasync() each make the file $SLOW_FLOCK.begun, $SLOW_RENAME.begun, $SLOW_UNLINKAT.begun,
 * $SLOW_WRITE.begun, $SLOW_FLUSH.begun and wait while the one without this suffix exists, as in a
 * process that gets no time; pwrite() after it has written. With $FLUSH_LARGE only files of 1,000
 * bytes or more wait for their flush. With $NO_FLOCK a file system has no locks. The first openat()
 * in a directory, of a path that ends in $NO_OPEN, fails as on a damaged disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

static void wait_while(const char *variable)
{
	const char *slow = getenv(variable);
	char begun[4096];

	if (!slow || access(slow, F_OK) < 0)
		return;
	snprintf(begun, sizeof(begun), "%s.begun", slow);
	close(open(begun, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	while (access(slow, F_OK) == 0)
		usleep(1000);
}

PUBLIC int flock(int fd, int operation)
{
	wait_while("SLOW_FLOCK");
	if (getenv("NO_FLOCK")) {
		errno = ENOSYS;
		return -1;
	}
	return (int)syscall(SYS_flock, fd, operation);
}

static bool fails_to_open(int directory, const char *name)
{
	static atomic_bool failed;
	const char *end = getenv("NO_OPEN");
	char link[40], path[8192];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", directory);
	length = end ? readlink(link, path, 4096) : -1;
	if (length < 0)
		return false;
	length += snprintf(path + length, 4096, "/%s", name);
	return (size_t)length >= strlen(end) && strcmp(path + length - strlen(end), end) == 0 &&
	       !atomic_exchange(&failed, true);
}

static int open_unless(int directory, const char *name, int flags, unsigned mode)
{
	if (fails_to_open(directory, name)) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_openat, directory, name, flags, mode);
}

PUBLIC int openat(int directory, const char *name, int flags, ...)
{
	va_list more;
	unsigned mode;

	va_start(more, flags);
	mode = flags & O_CREAT ? va_arg(more, unsigned) : 0;
	va_end(more);
	return open_unless(directory, name, flags, mode);
}

/* _FORTIFY_SOURCE calls these functions if there is no mode. */
PUBLIC int __openat_2(int directory, const char *name, int flags)
{
	return open_unless(directory, name, flags, 0);
}

PUBLIC int rename(const char *from, const char *to)
{
	wait_while("SLOW_RENAME");
	return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

PUBLIC int unlinkat(int directory, const char *name, int flags)
{
	wait_while("SLOW_UNLINKAT");
	return (int)syscall(SYS_unlinkat, directory, name, flags);
}

static int has_flush_to_wait(int fd)
{
	struct stat status;

	return !getenv("FLUSH_LARGE") ||
	       (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size >= 1000);
}

PUBLIC int fsync(int fd)
{
	if (has_flush_to_wait(fd))
		wait_while("SLOW_FLUSH");
	return (int)syscall(SYS_fsync, fd);
}

PUBLIC int fdatasync(int fd)
{
	wait_while("SLOW_FLUSH");
	return (int)syscall(SYS_fdatasync, fd);
}

PUBLIC ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
	ssize_t put = syscall(SYS_pwrite64, fd, bytes, length, offset);

	wait_while("SLOW_WRITE");
	return put;
}
