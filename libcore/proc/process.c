/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <flmem/parse.h>

#include "base/attempt.h"
#include "base/clock.h"
#include "base/files/io.h"
#include "proc/files/read_hazard.h"
#include "proc/pages.h"
#include "proc/stat.h"

#define FILE_LIMIT ((size_t)64 << 20)
#define PF_KTHREAD 0x00200000U /* include/linux/sched.h; part of the /proc/PID/stat ABI */

/* Numbers of fields of /proc/PID/stat. */
enum {
	FIELD_PARENT = 4,
	FIELD_FLAGS = 9,
	FIELD_START_TIME = 22,
	FIELD_ARGUMENTS = 48, /* since Linux 3.5 */
};

static bool parse_stat(const char *text, struct flmem_process *process)
{
	const char *fields = flmem_stat_fields(text);
	uint64_t parent, flags;

	if (!fields || !fields[0] || fields[1] != ' ')
		return false;
	if (!flmem_stat_number(fields, FIELD_PARENT, &parent) ||
	    !flmem_stat_number(fields, FIELD_FLAGS, &flags) ||
	    !flmem_stat_number(fields, FIELD_START_TIME, &process->start_time))
		return false;
	process->state = *fields;
	process->parent = (pid_t)parent;
	process->kernel_thread = flags & PF_KTHREAD;
	return true;
}

int flmem_process_error(const struct flmem_process *process, int negative_errno, const char *what,
			struct flmem_error *err)
{
	int pid = (int)process->pid;

	switch (-negative_errno) {
	case ESRCH:
	case ENOENT:
		/* The open files belong to an address space that the process has left. */
		if (process->pidfd >= 0 && flmem_process_alive(process))
			return flmem_error_set(err, FLMEM_ENOPROC, 0,
					       "process %d has executed another program meanwhile, "
					       "or is exiting; run the command again",
					       pid);
		return flmem_error_set(err, FLMEM_ENOPROC, 0, "process %d has exited", pid);
	case EACCES:
	case EPERM:
		return flmem_error_set(err, FLMEM_EPERM, 0,
				       "not permitted to %s of process %d: run as its user or as "
				       "root, in a container with --cap-add=SYS_PTRACE",
				       what, pid);
	default:
		return flmem_error_set(err, FLMEM_EFAILED, -negative_errno,
				       "cannot %s of process %d", what, pid);
	}
}

static int open_directory(int proc_dirfd, pid_t pid, struct flmem_process *process,
			  struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	char name[16];
	int rc;

	snprintf(name, sizeof(name), "%d", (int)pid);
	process->dirfd = openat(proc_dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (process->dirfd < 0 && errno != ENOENT)
		return flmem_process_error(process, -errno, "open the directory", err);
	if (process->dirfd < 0)
		return flmem_error_set(err, FLMEM_ENOPROC, 0, "no process %d", (int)pid);
	rc = flmem_process_read(process, "stat", &buf);
	if (rc)
		return flmem_process_error(process, rc, "read the state", err);
	if (!parse_stat(buf.data, process))
		return flmem_error_set(err, FLMEM_EFAILED, 0, "cannot parse /proc/%d/stat",
				       (int)pid);
	return 0;
}

int flmem_process_open_at(int proc_dirfd, pid_t pid, struct flmem_process *ret_process,
			  struct flmem_error *err)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	int rc;

	process.pid = pid;
	rc = open_directory(proc_dirfd, pid, &process, err);
	if (rc)
		return rc;
	*ret_process = process;
	process = (struct flmem_process)FLMEM_PROCESS_INIT;
	return 0;
}

/*
 * Returns true if a directory is the /proc of another PID namespace: its PIDs differ from those of
 * system calls, and may name another process here.
 */
static bool is_proc_of_other_namespace(int proc)
{
	char self[32];
	ssize_t length = readlinkat(proc, "self", self, sizeof(self) - 1);
	pid_t pid;

	if (length < 0)
		return errno == ENOENT && faccessat(proc, "version", F_OK, 0) == 0;
	self[length] = '\0';
	return flmem_parse_pid(self, &pid, NULL) || pid != getpid();
}

int flmem_process_open(pid_t pid, struct flmem_process *ret_process, struct flmem_error *err)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_CLOSE int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	int rc;

	if (proc < 0)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, errno,
				       "cannot open /proc; mount it first");
	if (is_proc_of_other_namespace(proc))
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "/proc belongs to another PID namespace, where PIDs mean "
				       "other processes; run flmem in that namespace, or mount "
				       "/proc of this one (unshare --mount-proc)");
	process.pid = pid;
	/*
	 * Open the directory first: whatever the PID means a moment later, the files below it
	 * belong to one process only, and reading it again after pidfd_open() proves that both are
	 * the same.
	 */
	rc = open_directory(proc, pid, &process, err);
	if (rc)
		return rc;
	process.pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	/* pidfd_open() gives EINVAL before Linux 6.9, ENOENT since. */
	if (process.pidfd < 0 && (errno == EINVAL || errno == ENOENT))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "%d is a thread, not a process; name its process", (int)pid);
	if (process.pidfd < 0 && errno != ENOSYS)
		return flmem_process_error(&process, -errno, "pin the identity", err);
	rc = flmem_process_read(&process, "stat", &buf);
	if (rc)
		return flmem_process_error(&process, rc, "read the state", err);
	process.pagemap = openat(process.dirfd, "pagemap", O_RDONLY | O_CLOEXEC);
	*ret_process = process;
	process = (struct flmem_process)FLMEM_PROCESS_INIT;
	return 0;
}

int flmem_process_arguments_at(const struct flmem_process *process, uint64_t *ret_address)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	int rc = flmem_process_read(process, "stat", &buf);
	const char *fields = rc ? NULL : flmem_stat_fields(buf.data);

	if (rc)
		return rc;
	return fields && flmem_stat_number(fields, FIELD_ARGUMENTS, ret_address) ? 0 : -EINVAL;
}

void flmem_process_unpin(struct flmem_process *process)
{
	flmem_cleanup_close(&process->pidfd);
	flmem_cleanup_close(&process->mem_fd);
	flmem_cleanup_close(&process->pagemap);
	process->pidfd = process->mem_fd = process->pagemap = -1;
}

void flmem_process_close(struct flmem_process *process)
{
	flmem_process_unpin(process);
	flmem_cleanup_close(&process->dirfd);
	process->dirfd = -1;
}

bool flmem_process_alive(const struct flmem_process *process)
{
	struct pollfd poller = {.fd = process->pidfd, .events = POLLIN};
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;

	if (process->pidfd >= 0)
		return poll(&poller, 1, 0) == 0;
	/*
	 * Kernels before 5.3 have no pidfd: the directory gives ESRCH once the process is reaped.
	 */
	return flmem_process_read(process, "stat", &buf) == 0;
}

int flmem_process_read(const struct flmem_process *process, const char *name, struct flmem_buf *buf)
{
	return flmem_io_read_file_at(process->dirfd, name, FILE_LIMIT, buf);
}

int flmem_process_readlink(const struct flmem_process *process, const char *name, char *ret_target,
			   size_t size)
{
	ssize_t length = readlinkat(process->dirfd, name, ret_target, size);

	if (length < 0)
		return -errno;
	if ((size_t)length >= size)
		return -ENAMETOOLONG;
	ret_target[length] = '\0';
	return 0;
}

/*
 * Returns true for a regular file. Opening a device can act on it, and reading some files of the
 * kernel removes what others wait for (/proc/kmsg, trace_pipe). The process chooses the path.
 */
static bool is_plain_file(int fd)
{
	struct statfs system;
	struct stat status;

	return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && fstatfs(fd, &system) == 0 &&
	       system.f_type != PROC_SUPER_MAGIC && system.f_type != SYSFS_MAGIC &&
	       system.f_type != DEBUGFS_MAGIC && system.f_type != TRACEFS_MAGIC;
}

bool flmem_process_shares_mounts(const struct flmem_process *process)
{
	struct stat own, its;

	return stat("/proc/self/ns/mnt", &own) == 0 &&
	       fstatat(process->dirfd, "ns/mnt", &its, 0) == 0 && own.st_ino == its.st_ino &&
	       own.st_dev == its.st_dev;
}

int flmem_process_open_file(const struct flmem_process *process, const char *path)
{
	FLMEM_AUTO_CLOSE int root = openat(process->dirfd, "root", O_PATH | O_CLOEXEC);
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	FLMEM_AUTO_CLOSE int seen = -1;

	if (root < 0)
		return -errno;
	seen = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	if (seen < 0)
		return -errno;
	return is_plain_file(seen) ? flmem_io_reopen(seen, O_RDONLY) : -EINVAL;
}

int flmem_process_open_path(const struct flmem_process *process, const char *path)
{
	char directory[PATH_MAX], root[PATH_MAX], whole[2 * PATH_MAX];
	const char *seen = directory;
	size_t length;
	int rc;

	if (path[0] == '/')
		return flmem_process_open_file(process, path);
	rc = flmem_process_readlink(process, "cwd", directory, sizeof(directory));
	if (!rc)
		rc = flmem_process_readlink(process, "root", root, sizeof(root));
	if (rc)
		return rc;
	/* After chroot(2) both links show their path as seen from outside. */
	length = strcmp(root, "/") == 0 ? 0 : strlen(root);
	if (strncmp(directory, root, length) == 0 && (!length || directory[length] == '/'))
		seen += length;
	if (snprintf(whole, sizeof(whole), "%s/%s", seen, path) >= (int)sizeof(whole))
		return -ENAMETOOLONG;
	return flmem_process_open_file(process, whole);
}

/* Refuses to read in an abandoned attempt, or if the read would wait for a server in user space. */
static int check_answers(const struct flmem_process *process, uint64_t address, size_t length)
{
	return flmem_attempt_is_lost() ? -ETIMEDOUT
				       : flmem_read_hazard_check(process, address, length);
}

int flmem_process_read_scattered(const struct flmem_process *process, const struct iovec *places,
				 size_t count, void *out)
{
	struct iovec local = {.iov_base = out};
	uint64_t lowest = UINT64_MAX, highest = 0;
	ssize_t got;
	int rc;

	if (process->pidfd < 0)
		return -ENOSYS;
	for (size_t i = 0; i < count; i++) {
		uint64_t start = (uintptr_t)places[i].iov_base, end = start + places[i].iov_len;

		lowest = start < lowest ? start : lowest;
		highest = end > highest ? end : highest;
		local.iov_len += places[i].iov_len;
	}
	rc = check_answers(process, lowest, highest > lowest ? highest - lowest : 0);
	if (rc)
		return rc;
	got = process_vm_readv(process->pid, &local, 1, places, count, 0);
	if (got < 0)
		return -errno;
	return (size_t)got == local.iov_len ? 0 : -EFAULT;
}

int flmem_process_read_memory(const struct flmem_process *process, uint64_t address, void *out,
			      size_t length)
{
	const struct iovec place = {.iov_base = (void *)(uintptr_t)address, .iov_len = length};

	return flmem_process_read_scattered(process, &place, 1, out);
}

bool flmem_process_fetch_missed(const struct flmem_process *process)
{
	const struct flmem_missed_range range = flmem_read_hazard_take_missed();
	const uint64_t page = flmem_page_bytes(), last = range.address + range.length - 1;
	unsigned char byte;

	if (!range.length)
		return false;
	for (uint64_t at = range.address - range.address % page; at <= last; at += page)
		if (flmem_process_read_memory(process, at, &byte, 1))
			return false;
	return true;
}

int flmem_process_pin_memory(struct flmem_process *process, struct flmem_error *err)
{
	if (process->mem_fd >= 0)
		return 0;
	process->mem_fd = openat(process->dirfd, "mem", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (process->mem_fd < 0)
		return flmem_process_error(process, -errno, "open the memory", err);
	return 0;
}

/*
 * Evaluates a transfer. 0 bytes: no process runs in this address space. EIO: nothing is mapped at
 * the address.
 */
static int check_transfer(ssize_t done, size_t length)
{
	if (done < 0)
		return errno == EIO ? -EFAULT : -errno;
	if (done == 0 && length)
		return -ESRCH;
	return (size_t)done == length ? 0 : -EFAULT;
}

int flmem_process_read_pinned(const struct flmem_process *process, uint64_t address, void *out,
			      size_t length)
{
	int rc = process->mem_fd < 0 ? -EBADF : check_answers(process, address, length);

	if (rc)
		return rc;
	if (address > INT64_MAX)
		return -EFAULT;
	return check_transfer(pread(process->mem_fd, out, length, (off_t)address), length);
}

int flmem_process_failure(const struct flmem_process *process, int rc, struct flmem_error *err)
{
	char byte;

	if (rc != FLMEM_EUNSUPPORTED && rc != FLMEM_EUNSAFE && rc != FLMEM_EFAILED)
		return rc;
	/* Address 0 is never mapped, so this read never waits. */
	if (process->mem_fd < 0 || pread(process->mem_fd, &byte, 1, 0) != 0)
		return rc;
	return flmem_process_error(process, -ESRCH, "read the memory", err);
}

int flmem_process_write_memory(const struct flmem_process *process, uint64_t address,
			       const void *bytes, size_t length)
{
	if (process->mem_fd < 0)
		return -EBADF;
	if (flmem_attempt_is_lost())
		return -ETIMEDOUT;
	if (address > INT64_MAX)
		return -EFAULT;
	return check_transfer(pwrite(process->mem_fd, bytes, length, (off_t)address), length);
}

uint64_t flmem_process_started_us(const struct flmem_process *process)
{
	const uint64_t rate = (uint64_t)sysconf(_SC_CLK_TCK), unit = 1000000U;
	uint64_t wall_us = flmem_clock_wall_us(), seconds = process->start_time / rate;
	struct timespec boot;

	clock_gettime(CLOCK_BOOTTIME, &boot);
	if (seconds > INT64_MAX / unit / 2)
		return INT64_MAX;
	return wall_us - ((uint64_t)boot.tv_sec * unit + (uint64_t)boot.tv_nsec / 1000U) +
	       seconds * unit + process->start_time % rate * unit / rate;
}

int flmem_process_stack_limit(const struct flmem_process *process, uint64_t *ret_bytes)
{
	struct rlimit limit;

	if (prlimit(process->pid, RLIMIT_STACK, NULL, &limit))
		return -errno;
	*ret_bytes = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
	return 0;
}
