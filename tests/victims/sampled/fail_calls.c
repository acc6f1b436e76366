/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library in front of the C library: of the calls that write below $FAIL_UNDER (creations of
 * files and folders among them), the one with the number $FAIL_CALL fails with the errno
 * $FAIL_ERRNO, and with $FAIL_ON all that follow. What a failed flush should have written is lost
 * (zeros), as when the kernel drops the pages. With $FAIL_SHORT the call before writes half only.
 * With $FAIL_KILL the process is killed before that call instead. With $FAIL_READS calls that open,
 * examine and read files count in their place, with $FAIL_OPENS those that open or create one, with
 * $FAIL_ALL all of these. Each call is one line of $FAIL_LOG: its number, '!' if it failed, its
 * name, its file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PUBLIC	   __attribute__((visibility("default")))
#define RANGES_MAX 4096
#define PATH_ROOM  8192

/* Bytes that were written, and not flushed yet. */
struct range {
	dev_t device;
	ino_t inode;
	off_t begin, end;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range ranges[RANGES_MAX];
static size_t range_count;
static unsigned long calls;

static unsigned long number(const char *name)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 10) : 0;
}

/* Finds the path of a file, or of a name in a folder. */
static void read_path(int fd, const char *name, char path[PATH_ROOM])
{
	char link[40];
	ssize_t length;

	path[0] = '\0';
	if (name && name[0] == '/') {
		snprintf(path, PATH_ROOM, "%s", name);
		return;
	}
	snprintf(link, sizeof(link), fd == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", fd);
	length = readlink(link, path, PATH_ROOM / 2);
	path[length < 0 ? 0 : length] = '\0';
	if (length > 0 && name)
		snprintf(path + length, PATH_ROOM - (size_t)length, "/%s", name);
}

static void log_call(unsigned long count, bool fails, const char *call, const char *path)
{
	const char *log = getenv("FAIL_LOG");
	char line[PATH_ROOM + 64];
	int fd, length;

	if (!log)
		return;
	fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC,
			  0600);
	length = snprintf(line, sizeof(line), "%lu%s %s %s\n", count, fails ? "!" : "", call, path);
	syscall(SYS_write, fd, line, (size_t)length);
	close(fd);
}

enum kind {
	WRITES = 1,
	READS = 2,
	OPENS = 4,
};

static int chosen_kinds(void)
{
	if (getenv("FAIL_ALL"))
		return WRITES | READS | OPENS;
	return getenv("FAIL_READS") ? READS : getenv("FAIL_OPENS") ? OPENS : WRITES;
}

/* Returns whether this call must fail; 2: it writes half, before one that fails. */
static int judge(int kinds, const char *call, int fd, const char *name)
{
	const char *under = getenv("FAIL_UNDER");
	unsigned long count, chosen = number("FAIL_CALL");
	char path[PATH_ROOM];
	int saved = errno;
	bool fails;

	if (!under || !(kinds & chosen_kinds()))
		return 0;
	read_path(fd, name, path);
	errno = saved;
	if (strncmp(path, under, strlen(under)) != 0)
		return 0;
	count = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
	fails = chosen && (count == chosen || (getenv("FAIL_ON") && count > chosen));
	log_call(count, fails, call, path + strlen(under));
	if (fails && getenv("FAIL_KILL"))
		kill(getpid(), SIGKILL);
	if (!fails && chosen && count + 1 == chosen && getenv("FAIL_SHORT"))
		return 2;
	errno = fails ? (int)number("FAIL_ERRNO") : saved;
	return fails;
}

static int examine(int fd, struct stat *status)
{
	return (int)syscall(SYS_newfstatat, fd, "", status, AT_EMPTY_PATH);
}

static bool is_there(int fd, const char *name)
{
	struct stat status;

	return !syscall(SYS_newfstatat, fd, name, &status, AT_SYMLINK_NOFOLLOW);
}

static void note_range(int fd, off_t begin, off_t end)
{
	struct stat status;

	if (examine(fd, &status) < 0 || !S_ISREG(status.st_mode))
		return;
	pthread_mutex_lock(&lock);
	if (range_count < RANGES_MAX)
		ranges[range_count++] = (struct range){status.st_dev, status.st_ino, begin, end};
	pthread_mutex_unlock(&lock);
}

static void lose(int fd, const struct range *range)
{
	char link[40], zeros[4096] = "";
	int again;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	again = (int)syscall(SYS_openat, AT_FDCWD, link, O_WRONLY | O_CLOEXEC, 0);
	for (off_t at = range->begin; at < range->end; at += (off_t)sizeof(zeros)) {
		size_t some = (size_t)(range->end - at);

		syscall(SYS_pwrite64, again, zeros, some < sizeof(zeros) ? some : sizeof(zeros),
			at);
	}
	close(again);
}

static void flush_ranges(int fd, bool lost)
{
	struct stat status;
	size_t kept = 0;

	if (examine(fd, &status) < 0)
		return;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < range_count; i++) {
		if (ranges[i].device != status.st_dev || ranges[i].inode != status.st_ino)
			ranges[kept++] = ranges[i];
		else if (lost)
			lose(fd, &ranges[i]);
	}
	range_count = kept;
	pthread_mutex_unlock(&lock);
}

static ssize_t put_bytes(int fd, const void *bytes, size_t length, off_t at, bool positioned)
{
	int fails = judge(WRITES, positioned ? "pwrite" : "write", fd, NULL);
	struct stat status;
	ssize_t put;

	if (fails == 1)
		return -1;
	length = fails && length > 1 ? length / 2 : length;
	if (positioned) {
		put = syscall(SYS_pwrite64, fd, bytes, length, at);
	} else {
		put = syscall(SYS_write, fd, bytes, length);
		at = (off_t)syscall(SYS_lseek, fd, 0, SEEK_CUR) - put;
	}
	if (put > 0 && getenv("FAIL_UNDER") && examine(fd, &status) == 0 && S_ISREG(status.st_mode))
		note_range(fd, at, at + put);
	return put;
}

PUBLIC ssize_t write(int fd, const void *bytes, size_t length)
{
	return put_bytes(fd, bytes, length, 0, false);
}

PUBLIC ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
	return put_bytes(fd, bytes, length, offset, true);
}

/* Writes one piece at a time, which is a short write to the caller. */
PUBLIC ssize_t pwritev(int fd, const struct iovec *pieces, int count, off_t offset)
{
	int i = 0;

	while (i + 1 < count && !pieces[i].iov_len)
		i++;
	return put_bytes(fd, pieces[i].iov_base, pieces[i].iov_len, offset, true);
}

PUBLIC int fchmod(int fd, mode_t mode)
{
	return judge(WRITES, "chmod", fd, NULL) == 1 ? -1 : (int)syscall(SYS_fchmod, fd, mode);
}

PUBLIC int sync_file_range(int fd, off_t offset, off_t length, unsigned flags)
{
	if (judge(WRITES, "sync_file_range", fd, NULL) == 1)
		return -1;
	return (int)syscall(SYS_sync_file_range, fd, offset, length, flags);
}

static int flush(int fd, const char *call, long system_call)
{
	int saved, fails = judge(WRITES, call, fd, NULL) == 1;

	saved = errno;
	flush_ranges(fd, fails);
	errno = saved;
	return fails ? -1 : (int)syscall(system_call, fd);
}

PUBLIC int fsync(int fd)
{
	return flush(fd, "fsync", SYS_fsync);
}

PUBLIC int fdatasync(int fd)
{
	return flush(fd, "fdatasync", SYS_fdatasync);
}

PUBLIC int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
	if (judge(WRITES, "rename", to_fd, to) == 1)
		return -1;
	return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
}

PUBLIC int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	return renameat2(from_fd, from, to_fd, to, 0);
}

PUBLIC int rename(const char *from, const char *to)
{
	return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

PUBLIC int unlinkat(int fd, const char *name, int flags)
{
	if (is_there(fd, name) && judge(WRITES, "remove", fd, name) == 1)
		return -1;
	return (int)syscall(SYS_unlinkat, fd, name, flags);
}

PUBLIC int unlink(const char *name)
{
	return unlinkat(AT_FDCWD, name, 0);
}

PUBLIC int rmdir(const char *name)
{
	return unlinkat(AT_FDCWD, name, AT_REMOVEDIR);
}

PUBLIC int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
	if (judge(WRITES, "link", to_fd, to) == 1)
		return -1;
	return (int)syscall(SYS_linkat, from_fd, from, to_fd, to, flags);
}

PUBLIC int fallocate(int fd, int mode, off_t offset, off_t length)
{
	if (judge(WRITES, "fallocate", fd, NULL) == 1)
		return -1;
	return (int)syscall(SYS_fallocate, fd, mode, offset, length);
}

PUBLIC int posix_fallocate(int fd, off_t offset, off_t length)
{
	int saved = errno, rc = fallocate(fd, 0, offset, length) < 0 ? errno : 0;

	errno = saved;
	return rc;
}

PUBLIC int ftruncate(int fd, off_t length)
{
	if (judge(WRITES, "truncate", fd, NULL) == 1)
		return -1;
	return (int)syscall(SYS_ftruncate, fd, length);
}

PUBLIC int mkdirat(int fd, const char *name, mode_t mode)
{
	if (!is_there(fd, name) && judge(WRITES, "mkdir", fd, name) == 1)
		return -1;
	return (int)syscall(SYS_mkdirat, fd, name, mode);
}

PUBLIC int mkdir(const char *name, mode_t mode)
{
	return mkdirat(AT_FDCWD, name, mode);
}

static int open_file(int directory, const char *name, int flags, unsigned mode)
{
	bool creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;

	if (judge(OPENS | (creates ? WRITES : READS), creates ? "create" : "open", directory,
		  name) == 1)
		return -1;
	return (int)syscall(SYS_openat, directory, name, flags, mode);
}

static unsigned mode_of(int flags, va_list more)
{
	return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, unsigned) : 0;
}

PUBLIC int openat(int directory, const char *name, int flags, ...)
{
	va_list more;
	unsigned mode;

	va_start(more, flags);
	mode = mode_of(flags, more);
	va_end(more);
	return open_file(directory, name, flags, mode);
}

PUBLIC int open(const char *name, int flags, ...)
{
	va_list more;
	unsigned mode;

	va_start(more, flags);
	mode = mode_of(flags, more);
	va_end(more);
	return open_file(AT_FDCWD, name, flags, mode);
}

/* _FORTIFY_SOURCE calls these functions if there is no mode. */
PUBLIC int __openat_2(int directory, const char *name, int flags)
{
	return open_file(directory, name, flags, 0);
}

PUBLIC int __open_2(const char *name, int flags)
{
	return open_file(AT_FDCWD, name, flags, 0);
}

PUBLIC ssize_t read(int fd, void *bytes, size_t length)
{
	return judge(READS, "read", fd, NULL) == 1 ? -1 : syscall(SYS_read, fd, bytes, length);
}

PUBLIC ssize_t pread(int fd, void *bytes, size_t length, off_t offset)
{
	return judge(READS, "pread", fd, NULL) == 1
		       ? -1
		       : syscall(SYS_pread64, fd, bytes, length, offset);
}

PUBLIC int fstat(int fd, struct stat *status)
{
	if (judge(READS, "fstat", fd, NULL) == 1)
		return -1;
	return (int)syscall(SYS_newfstatat, fd, "", status, AT_EMPTY_PATH);
}

PUBLIC int fstatat(int fd, const char *name, struct stat *status, int flags)
{
	if (judge(READS, "stat", fd, name) == 1)
		return -1;
	return (int)syscall(SYS_newfstatat, fd, name, status, flags);
}

PUBLIC int faccessat(int fd, const char *name, int mode, int flags)
{
	struct stat status;

	(void)mode; /* flmem passes F_OK only */
	if (judge(READS, "access", fd, name) == 1)
		return -1;
	return (int)syscall(SYS_newfstatat, fd, name, &status, flags & AT_SYMLINK_NOFOLLOW);
}

PUBLIC int access(const char *name, int mode)
{
	return faccessat(AT_FDCWD, name, mode, 0);
}

PUBLIC int stat(const char *name, struct stat *status)
{
	return fstatat(AT_FDCWD, name, status, 0);
}

PUBLIC int lstat(const char *name, struct stat *status)
{
	return fstatat(AT_FDCWD, name, status, AT_SYMLINK_NOFOLLOW);
}

/* Replacements of the checked functions. */
ssize_t __pread_chk(int fd, void *bytes, size_t length, off_t offset, size_t room);
ssize_t __read_chk(int fd, void *bytes, size_t length, size_t room);

PUBLIC ssize_t __pread_chk(int fd, void *bytes, size_t length, off_t offset, size_t room)
{
	(void)room;
	return pread(fd, bytes, length, offset);
}

PUBLIC ssize_t __read_chk(int fd, void *bytes, size_t length, size_t room)
{
	(void)room;
	return read(fd, bytes, length);
}
