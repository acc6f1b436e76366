/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/limits/headroom.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include <flmem/parse.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "proc/limits/cgroup.h"
#include "proc/rollup.h"
#include "proc/scan.h"
#include "proc/status.h"

#define FILE_LIMIT 65536U
#define MAPS_LIMIT (64U << 20)

/* Mappings that a thread and its allocations may need. */
#define SPARE_MAPPINGS 64U

/*
 * Memory that a thread reserves: its stack, usually 8 MiB, and an arena of 64 MiB, which glibc
 * keeps for the next thread. It counts for the limits on address space and on locked memory
 * (MCL_FUTURE). The program may need the rest at once.
 */
#define SPARE_RESERVED ((uint64_t)256 << 20)
#define USUAL_STACK    ((uint64_t)8 << 20)
/* Largest part of a stack beyond the usual size, if memory is locked when it is mapped. */
#define LOCKED_STACK_MAX ((uint64_t)56 << 20)

/*
 * Number of threads and processes that a program may start at about the same time, besides flmem's.
 */
#define SPARE_TASKS 16U

/* Inode of the first user namespace (include/linux/proc_ns.h). */
#define FIRST_USER_NAMESPACE 0xEFFFFFFDU

/*
 * Mode 2 of vm.overcommit_memory: the kernel refuses memory that it might not be able to provide.
 */
#define NEVER_OVERCOMMIT 2U

/* Parses a number up to the next blank. */
static bool parse_word(const char *at, uint64_t *ret_number)
{
	size_t length = strcspn(at, " \t\n");
	char word[32];

	if (length >= sizeof(word))
		return false;
	memcpy(word, at, length);
	word[length] = '\0';
	return flmem_parse_u64(word, 0, UINT64_MAX, ret_number, NULL) == 0;
}

bool flmem_headroom_limit_find(const char *limits, const char *name, uint64_t *ret_limit)
{
	const char *at = strstr(limits, name);

	if (!at)
		return false;
	at += strlen(name);
	at += strspn(at, " ");
	if (!flmem_text_starts(at, "unlimited"))
		return parse_word(at, ret_limit);
	*ret_limit = UINT64_MAX;
	return true;
}

/* Reads the limits from /proc: prlimit(2) takes CAP_SYS_RESOURCE for a process of another user. */
bool flmem_headroom_limits_read(const struct flmem_process *process, struct flmem_buf *limits)
{
	return flmem_io_read_file_at(process->dirfd, "limits", FILE_LIMIT, limits) == 0;
}

bool flmem_headroom_limit(const struct flmem_process *process, const char *name,
			  uint64_t *ret_limit)
{
	FLMEM_AUTO_BUF struct flmem_buf limits = FLMEM_BUF_INIT;

	return flmem_headroom_limits_read(process, &limits) &&
	       flmem_headroom_limit_find(limits.data, name, ret_limit);
}

/*
 * Returns true if less than `bytes` remain below a limit. `line`: the line of /proc/PID/status that
 * shows what the limit counts.
 */
static bool is_near_limit(const struct flmem_process *process, const char *name, const char *line,
			  uint64_t bytes)
{
	FLMEM_AUTO_BUF struct flmem_buf status = FLMEM_BUF_INIT;
	uint64_t limit, used;

	if (!flmem_headroom_limit(process, name, &limit))
		return true;
	if (limit == UINT64_MAX)
		return false;
	return flmem_io_read_file_at(process->dirfd, "status", FILE_LIMIT, &status) ||
	       !flmem_rollup_find(status.data, line, &used) || used >= limit ||
	       limit - used < bytes;
}

/* Returns true if the limit on locked memory does not apply to the process. */
static bool may_lock_all(const struct flmem_process *process)
{
	struct flmem_status status;

	return flmem_status_read(process, &status, NULL) == 0 &&
	       (flmem_u64_or(status.cap_effective, 0) >> CAP_IPC_LOCK & 1);
}

/*
 * Returns true if new memory may be locked: after mlockall(MCL_FUTURE) each new mapping counts. The
 * kernel does not show whether that was called, but then the stack of a new thread is locked, too.
 */
static bool may_lock_new_memory(const struct flmem_process *process)
{
	FLMEM_AUTO_BUF struct flmem_buf status = FLMEM_BUF_INIT;
	uint64_t locked;

	return flmem_io_read_file_at(process->dirfd, "status", FILE_LIMIT, &status) ||
	       !flmem_rollup_find(status.data, "VmLck", &locked) || locked;
}

static bool is_lock_limit_near(const struct flmem_process *process, uint64_t bytes)
{
	return may_lock_new_memory(process) && !may_lock_all(process) &&
	       is_near_limit(process, "Max locked memory", "VmLck", bytes);
}

static bool read_number_file(const char *path, uint64_t *ret_number)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	if (flmem_io_read_file_at(AT_FDCWD, path, FILE_LIMIT, &text))
		return false;
	return parse_word(text.data, ret_number);
}

static bool has_many_mappings(const struct flmem_process *process)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	uint64_t limit, count = 0;

	if (!read_number_file("/proc/sys/vm/max_map_count", &limit) ||
	    flmem_io_read_file_at(process->dirfd, "maps", MAPS_LIMIT, &text))
		return true;
	for (const char *at = text.data; (at = strchr(at, '\n')); at++)
		count++;
	return count + SPARE_MAPPINGS > limit;
}

static bool is_host_committed(uint64_t bytes)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	uint64_t mode, limit, committed;

	if (!read_number_file("/proc/sys/vm/overcommit_memory", &mode))
		return true;
	if (mode != NEVER_OVERCOMMIT)
		return false;
	return flmem_io_read_file_at(AT_FDCWD, "/proc/meminfo", FILE_LIMIT, &text) ||
	       !flmem_rollup_find(text.data, "CommitLimit", &limit) ||
	       !flmem_rollup_find(text.data, "Committed_AS", &committed) || committed >= limit ||
	       limit - committed < bytes;
}

static int refuse_mappings(const struct flmem_process *process, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "process %d could end for lack of memory: it has nearly as many "
			       "mappings as the kernel allows (vm.max_map_count), or their number "
			       "cannot be read; raise that with sysctl",
			       (int)process->pid);
}

/* Checks all limits. `stack`: size of a thread's stack beyond the usual. */
static int check_room_below_limits(const struct flmem_process *process, uint64_t bytes,
				   uint64_t stack, struct flmem_error *err)
{
	const uint64_t reserved = (bytes < SPARE_RESERVED ? SPARE_RESERVED : bytes) + stack;
	const char *limit = NULL, *raised_with = "prlimit";
	uint64_t needed;

	bytes += stack;
	needed = bytes;
	if (is_near_limit(process, "Max address space", "VmSize", reserved)) {
		limit = "its address space (ulimit -v)";
		needed = reserved;
	} else if (is_near_limit(process, "Max data size", "VmData", bytes)) {
		limit = "its data (ulimit -d)";
	} else if (is_lock_limit_near(process, reserved)) {
		limit = "its locked memory (ulimit -l)";
		needed = reserved;
	} else if (has_many_mappings(process)) {
		return refuse_mappings(process, err);
	} else if (is_host_committed(bytes)) {
		limit = "this host (vm.overcommit_memory is 2)";
		raised_with = "sysctl";
	}
	if (!limit)
		return 0;
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "process %d could end for lack of memory: the limit of %s leaves "
			       "less than %llu MiB, or cannot be read; raise it with %s",
			       (int)process->pid, limit, (unsigned long long)(needed >> 20),
			       raised_with);
}

int flmem_headroom_check(const struct flmem_process *process, uint64_t bytes,
			 struct flmem_error *err)
{
	return check_room_below_limits(process, bytes, 0, err);
}

/*
 * Returns the size of a thread's stack beyond the usual: flmem gives it as much as the first
 * thread's may have (remote/new_thread.c). glibc keeps the stack for the next thread, also one of a
 * gigabyte.
 */
static uint64_t read_extra_stack(const struct flmem_process *process)
{
	uint64_t stack;

	if (!flmem_headroom_limit(process, "Max stack size", &stack) || stack == UINT64_MAX ||
	    stack < USUAL_STACK)
		return 0;
	return stack - USUAL_STACK;
}

int flmem_headroom_check_thread(const struct flmem_process *process, uint64_t bytes,
				struct flmem_error *err)
{
	const uint64_t stack = read_extra_stack(process);

	/*
	 * Such a stack is resident at once, and permanently: the host or the control group could
	 * run out of memory.
	 */
	if (stack > LOCKED_STACK_MAX && may_lock_new_memory(process))
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "process %d locks memory, and the stack of a new thread "
				       "would have %llu MiB (ulimit -s), all of it resident; start "
				       "it with a lower limit",
				       (int)process->pid,
				       (unsigned long long)((stack + USUAL_STACK) >> 20));
	return check_room_below_limits(process, bytes, stack, err);
}

/* Returns true if RLIMIT_NPROC does not apply to the process (kernel/fork.c, copy_process). */
static bool may_start_any_number(const struct flmem_process *process,
				 const struct flmem_status *status)
{
	const uint64_t capabilities = flmem_u64_or(status->cap_effective, 0);
	struct stat namespace;

	return fstatat(process->dirfd, "ns/user", &namespace, 0) == 0 &&
	       namespace.st_ino == FIRST_USER_NAMESPACE &&
	       (status->uid.real == 0 || (capabilities >> CAP_SYS_RESOURCE & 1) ||
		(capabilities >> CAP_SYS_ADMIN & 1));
}

/*
 * Counts the threads of a user, as far as they are visible; ended ones count until they are waited
 * for.
 */
static uint64_t count_tasks_of_user(uint32_t user)
{
	FLMEM_AUTO_CLOSE int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	FLMEM_AUTO_SCAN struct flmem_scan scan = {0};
	uint64_t count = 0;

	if (proc < 0 || flmem_scan_read(proc, &scan, NULL))
		return UINT64_MAX;
	for (size_t i = 0; i < scan.count; i++) {
		FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
		struct flmem_status status;

		if (!flmem_process_open_at(proc, scan.rows[i].pid, &process, NULL) &&
		    !flmem_status_read(&process, &status, NULL) && status.uid.known &&
		    status.uid.real == user)
			count += flmem_u64_or(status.threads, 1);
	}
	return count;
}

/*
 * Returns true if all threads of the host are fewer than `limit`: the second last word of
 * /proc/loadavg ends in "/" and their number.
 */
static bool has_host_fewer_tasks(uint64_t limit)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	const char *at;
	uint64_t all;

	if (flmem_io_read_file_at(AT_FDCWD, "/proc/loadavg", FILE_LIMIT, &text))
		return false;
	at = strchr(text.data, '/');
	return at && parse_word(at + 1, &all) && all < limit && limit - all > SPARE_TASKS;
}

/*
 * Returns how many threads the limit of the user (RLIMIT_NPROC) leaves; 0 if that cannot be read.
 */
static uint64_t user_tasks_left(const struct flmem_process *process, uint32_t *ret_user)
{
	struct flmem_status status;
	uint64_t limit, count;

	*ret_user = 0;
	if (!flmem_headroom_limit(process, "Max processes", &limit) ||
	    flmem_status_read(process, &status, NULL))
		return 0;
	if (limit == UINT64_MAX || has_host_fewer_tasks(limit) || !status.uid.known ||
	    may_start_any_number(process, &status))
		return UINT64_MAX;
	*ret_user = status.uid.real;
	count = count_tasks_of_user(status.uid.real);
	return count < limit ? limit - count : 0;
}

int flmem_headroom_check_tasks(const struct flmem_process *process, struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	uint64_t left = root < 0 ? 0 : flmem_cgroups_tasks_left(root, process);
	uint32_t user = 0;

	if (left > SPARE_TASKS) {
		left = user_tasks_left(process, &user);
		if (left > SPARE_TASKS)
			return 0;
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "user %u of process %d may start %llu more threads "
				       "(ulimit -u), which the program may need itself",
				       (unsigned)user, (int)process->pid, (unsigned long long)left);
	}
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "the control group of process %d may start %llu more threads "
			       "(pids.max), which the program may need itself",
			       (int)process->pid, (unsigned long long)left);
}
