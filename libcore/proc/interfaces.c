/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/interfaces.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/portable.h"
#include "base/silent_child.h"

const struct flmem_interface_info flmem_interfaces[FLMEM_INTERFACE_COUNT] = {
#define INTERFACE_ROW(name_, text_, since_, use_) {text_, since_, use_},
	FLMEM_INTERFACES(INTERFACE_ROW)
#undef INTERFACE_ROW
};

/* From include/uapi/linux/fs.h; the headers of Debian 12 are older than both. */
#define PAGEMAP_SCAN_CALL  _IOC(_IOC_READ | _IOC_WRITE, 'f', 16, 96)
#define PROCMAP_QUERY_CALL _IOC(_IOC_READ | _IOC_WRITE, 'f', 17, 104)

static __attribute__((noreturn)) void be_target(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

static int try_ptrace(pid_t target)
{
	return ptrace(PTRACE_SEIZE, target, NULL, NULL) < 0 ? errno : 0;
}

static int try_process_vm_readv(pid_t target)
{
	static const uint64_t word = 1;
	uint64_t copy;
	struct iovec local = {.iov_base = &copy, .iov_len = sizeof(copy)};
	struct iovec remote = {.iov_base = (void *)(uintptr_t)&word, .iov_len = sizeof(word)};

	return process_vm_readv(target, &local, 1, &remote, 1, 0) < 0 ? errno : 0;
}

static int try_pidfd(pid_t target)
{
	return syscall(SYS_pidfd_open, target, 0) < 0 ? errno : 0;
}

static int try_openat2(pid_t target)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};

	(void)target;
	return syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how)) < 0 ? errno : 0;
}

/*
 * Makes an empty query: a kernel with the call rejects the argument, one without it returns ENOTTY.
 */
static int try_ioctl(const char *path, unsigned long request)
{
	uint64_t query[16] = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno;
	if (ioctl(fd, FLMEM_IOCTL_REQUEST(request), query) < 0 &&
	    (errno == ENOTTY || errno == EPERM))
		return errno;
	return 0;
}

static int try_pagemap_scan(pid_t target)
{
	(void)target;
	return try_ioctl("/proc/self/pagemap", PAGEMAP_SCAN_CALL);
}

static int try_procmap_query(pid_t target)
{
	(void)target;
	return try_ioctl("/proc/self/maps", PROCMAP_QUERY_CALL);
}

static int (*const tries[FLMEM_INTERFACE_COUNT])(pid_t target) = {
	[FLMEM_INTERFACE_PTRACE] = try_ptrace,
	[FLMEM_INTERFACE_PROCESS_VM_READV] = try_process_vm_readv,
	[FLMEM_INTERFACE_PIDFD] = try_pidfd,
	[FLMEM_INTERFACE_OPENAT2] = try_openat2,
	[FLMEM_INTERFACE_PAGEMAP_SCAN] = try_pagemap_scan,
	[FLMEM_INTERFACE_PROCMAP_QUERY] = try_procmap_query,
};

static int probe_one(int (*attempt)(pid_t), pid_t target, struct flmem_interface_result *result)
{
	pid_t child = flmem_silent_child_start();
	int status, rc;

	if (child < 0)
		return -errno;
	if (!child)
		_exit(attempt(target) & 0xff); /* every errno is below 134 */
	rc = flmem_silent_child_wait(child, &status);
	if (rc)
		return rc;
	result->killed = WIFSIGNALED(status);
	result->error = WIFSIGNALED(status) ? EPERM : WEXITSTATUS(status);
	return 0;
}

/*
 * Marks a call as not tried: tracing was refused, but for a child that is unlike ordinary targets.
 */
static void mark_untried(struct flmem_interface_result *result)
{
	if (result->error != EPERM || result->killed)
		return;
	result->untried = true;
	result->error = 0;
}

int flmem_interfaces_probe(struct flmem_interface_result ret_results[FLMEM_INTERFACE_COUNT],
			   struct flmem_error *err)
{
	struct flmem_interface_result results[FLMEM_INTERFACE_COUNT] = {0};
	pid_t target = flmem_silent_child_start();
	int rc = 0, status;

	if (target < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot start a child process");
	if (!target)
		be_target();
	for (size_t i = 0; i < FLMEM_INTERFACE_COUNT && !rc; i++)
		rc = probe_one(tries[i], target, &results[i]);
	kill(target, SIGKILL);
	flmem_silent_child_wait(target, &status);
	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot start a child process");
	if (prctl(PR_GET_DUMPABLE) != 1) {
		mark_untried(&results[FLMEM_INTERFACE_PTRACE]);
		mark_untried(&results[FLMEM_INTERFACE_PROCESS_VM_READV]);
	}
	for (size_t i = 0; i < FLMEM_INTERFACE_COUNT; i++)
		ret_results[i] = results[i];
	return 0;
}

/*
 * Opens the memory of a process. A kernel thread, or a process that ended meanwhile, gives ENOENT
 * or ESRCH: then the next one is tried.
 */
static int try_memory_of(int proc, const char *pid)
{
	FLMEM_AUTO_CLOSE int fd = -1;
	char path[NAME_MAX + 8];

	snprintf(path, sizeof(path), "%s/mem", pid);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : 0;
}

int flmem_interfaces_other_user(void)
{
	FLMEM_AUTO_DIR DIR *proc = opendir("/proc");

	for (struct dirent *entry; proc && (entry = readdir(proc));) {
		struct stat status;
		int rc;

		if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
		    fstatat(dirfd(proc), entry->d_name, &status, 0) < 0 ||
		    status.st_uid == geteuid())
			continue;
		rc = try_memory_of(dirfd(proc), entry->d_name);
		if (rc == 0 || rc == -EACCES || rc == -EPERM)
			return rc;
	}
	return -ESRCH;
}
