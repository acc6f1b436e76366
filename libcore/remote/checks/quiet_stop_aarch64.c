/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __aarch64__

#include "remote/checks/quiet_stop.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/files/io.h"
#include "base/portable.h"
#include "base/text/hex.h"
#include "base/text/version_number.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "proc/status.h"
#include "proc/task.h"

#define SLEEP_US	10000U /* minimum time that a thread must have slept */
#define PARK_PAUSE_US	50U
#define PERSONALITY_MAX 64U

static const char ends[] = "is in a wait that may end with EINTR when it is stopped (aarch64)";
static const char ends_socket[] = "waits on a socket, which may have a timeout and end with EINTR "
				  "when it is stopped (aarch64)";
static const char awake[] = "did not sleep for long enough to be stopped (aarch64)";

bool flmem_quiet_stop_fits_kernel(const char *release)
{
	/* First release with PTRACE_GET_SYSCALL_INFO. */
	static const struct flmem_version_number first = FLMEM_VERSION_NUMBER(5, 3, 0);
	struct flmem_version_number kernel;

	return !flmem_version_number_parse(release, &kernel, NULL) &&
	       flmem_version_number_compare(&kernel, &first) >= 0;
}

/* Files whose reads return ERESTARTSYS. */
static const char *const quiet_files[] = {
	"anon_inode:[eventfd]",	 "anon_inode:[timerfd]", "anon_inode:[signalfd]",
	"anon_inode:[fanotify]", "anon_inode:inotify",
};

/*
 * True for consoles, /dev/tty and the ends of pseudoterminals:
 * Documentation/admin-guide/devices.txt.
 */
static bool is_terminal_device(unsigned major)
{
	return major == 4 || major == 5 || (major >= 136 && major <= 143);
}

static const char *why_read_ends(const struct flmem_process *process, pid_t tid,
				 uint64_t descriptor)
{
	struct statx file;
	char name[48], target[64];

	snprintf(name, sizeof(name), "task/%d/fd/%d", (int)tid, (int)(unsigned)descriptor);
	if (flmem_process_readlink(process, name, target, sizeof(target)) == 0)
		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(quiet_files); i++)
			if (strcmp(target, quiet_files[i]) == 0)
				return NULL;
	if (flmem_file_statx(process->dirfd, name, AT_STATX_DONT_SYNC, STATX_TYPE, &file))
		return ends;
	if (S_ISSOCK(file.stx_mode))
		return ends_socket;
	return S_ISFIFO(file.stx_mode) ||
			       (S_ISCHR(file.stx_mode) && is_terminal_device(file.stx_rdev_major))
		       ? NULL
		       : ends;
}

/*
 * True if the personality keeps timeouts. The file has eight hexadecimal digits; the flag is in the
 * upper four.
 */
static bool keeps_timeouts(const struct flmem_process *process, pid_t tid)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	char path[48];
	int digits;

	snprintf(path, sizeof(path), "task/%d/personality", (int)tid);
	if (flmem_io_read_file_at(process->dirfd, path, PERSONALITY_MAX, &text) || !text.length)
		return true;
	digits = flmem_hex_read4(text.data);
	return digits < 0 || digits & (STICKY_TIMEOUTS >> 16);
}

/*
 * Returns why a wait may end with EINTR: the rest of its timeout cannot be stored (fs/select.c,
 * poll_select_finish()).
 */
static const char *why_timeout_ends(const struct flmem_process *process,
				    const struct flmem_maps *maps, pid_t tid, uint64_t address)
{
	const struct flmem_map *first, *last;

	if (!address)
		return NULL;
	if (!maps)
		return ends;
	first = flmem_maps_find(maps, address);
	last = flmem_maps_find(maps, address + sizeof(struct timespec) - 1);
	return first && last && first->flags & last->flags & FLMEM_MAP_WRITE &&
			       !keeps_timeouts(process, tid)
		       ? NULL
		       : ends;
}

const char *flmem_quiet_stop_refuses(const struct flmem_process *process,
				     const struct flmem_maps *maps, pid_t tid,
				     const struct flmem_task_wait *at)
{
	switch (at->number) {
	case SYS_futex:
	case SYS_wait4:
	case SYS_waitid:
	case SYS_msgrcv:
	case SYS_rt_sigsuspend:
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
		return NULL;
	case SYS_ppoll:
		return why_timeout_ends(process, maps, tid, at->args[2]);
	case SYS_pselect6:
		return why_timeout_ends(process, maps, tid, at->args[4]);
	case SYS_read:
	case SYS_readv:
		return why_read_ends(process, tid, at->args[0]);
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_accept:
	case SYS_accept4:
		return ends_socket;
	default: /* epoll_pwait(), sigtimedwait(), semtimedop() and others */
		return ends;
	}
}

const char *flmem_quiet_stop_refuses_computing(void)
{
	return "computes, and the system call that it makes next may end with EINTR (aarch64)";
}

void flmem_quiet_stop_note(struct flmem_quiet_sleepers *sleepers,
			   const struct flmem_candidates *found)
{
	const struct flmem_quiet_sleepers before = *sleepers;
	const uint64_t now = flmem_clock_us();

	sleepers->count = 0;
	for (size_t i = 0; i < found->count && i < FLMEM_CANDIDATES_MAX; i++) {
		const struct flmem_candidate *row = &found->rows[i];
		uint64_t since = now;

		for (size_t j = 0; j < before.count; j++)
			if (before.rows[j].tid == row->tid &&
			    before.rows[j].sleeps == row->sleeps &&
			    before.rows[j].losses == row->losses)
				since = before.rows[j].since_us;
		sleepers->rows[i].tid = row->tid;
		sleepers->rows[i].sleeps = row->sleeps;
		sleepers->rows[i].losses = row->losses;
		sleepers->rows[i].since_us = since;
		sleepers->count++;
	}
}

const char *flmem_quiet_stop_is_new(const struct flmem_quiet_sleepers *sleepers, pid_t tid)
{
	for (size_t i = 0; i < sleepers->count; i++)
		if (sleepers->rows[i].tid == tid)
			return flmem_clock_us() - sleepers->rows[i].since_us < SLEEP_US ? awake
											: NULL;
	return awake;
}

uint64_t flmem_quiet_stop_due_us(const struct flmem_quiet_sleepers *sleepers)
{
	const uint64_t now = flmem_clock_us();
	uint64_t due = 0;

	for (size_t i = 0; i < sleepers->count; i++) {
		const uint64_t slept = now - sleepers->rows[i].since_us;

		if (slept < SLEEP_US && (!due || SLEEP_US - slept < due))
			due = SLEEP_US - slept;
	}
	return due;
}

int flmem_quiet_stop_open(const struct flmem_process *process, pid_t tid)
{
	return flmem_task_open_wait(process, tid);
}

bool flmem_quiet_stop_sleeps_on(const struct flmem_candidate *candidate, int status_fd, int wait_fd)
{
	const struct flmem_task_wait *at = &candidate->at;
	struct flmem_status status;
	struct flmem_task_wait now;

	/* The quickest check comes last, so that its result is the most recent. */
	return flmem_status_read_open(status_fd, &status) == 0 &&
	       !status.voluntary_switches.unknown && !status.involuntary_switches.unknown &&
	       status.voluntary_switches.value == candidate->sleeps &&
	       status.involuntary_switches.value == candidate->losses &&
	       flmem_task_read_open_wait(wait_fd, &now) == 1 && now.number == at->number &&
	       now.sp == at->sp && now.pc == at->pc &&
	       memcmp(now.args, at->args, sizeof(now.args)) == 0;
}

bool flmem_quiet_stop_watch(const struct flmem_process *process, pid_t tid,
			    struct flmem_candidate *ret_candidate)
{
	struct flmem_status status;

	*ret_candidate = (struct flmem_candidate){.tid = tid, .at.number = -1};
	if (flmem_task_read_wait(process, tid, &ret_candidate->at) != 1 ||
	    flmem_quiet_stop_refuses(process, NULL, tid, &ret_candidate->at) ||
	    flmem_status_read_thread(process, tid, &status) || status.voluntary_switches.unknown ||
	    status.involuntary_switches.unknown)
		return false;
	ret_candidate->sleeps = status.voluntary_switches.value;
	ret_candidate->losses = status.involuntary_switches.value;
	flmem_clock_sleep_us(SLEEP_US);
	return true;
}

/*
 * True if the thread is in the park: no thread is borrowed that has made its own call there
 * (remote/checks/stopped_thread.c).
 */
static bool is_parked_at(const struct flmem_task_wait *at, const struct flmem_gadgets *gadgets)
{
	return at->number == SYS_nanosleep && at->pc >= gadgets->syscall &&
	       at->pc < gadgets->syscall + flmem_arch_syscall.length;
}

bool flmem_quiet_stop_await_park(const struct flmem_process *process, pid_t tid,
				 const struct flmem_gadgets *gadgets, uint64_t timeout_us)
{
	const uint64_t start = flmem_clock_us();
	struct flmem_task_wait at;
	int rc;

	/* The thread is still entering the park, or is delayed by a page fault. */
	while ((rc = flmem_task_read_wait(process, tid, &at)) == 0 || (rc == 1 && at.number < 0)) {
		if (flmem_clock_us() - start > timeout_us)
			return false;
		flmem_clock_sleep_us(PARK_PAUSE_US);
	}
	return rc < 0 || is_parked_at(&at, gadgets); /* the next step detects an exit */
}

#else
typedef int flmem_quiet_stop_aarch64_unused;
#endif
