/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/waits.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/portable.h"
#include "base/text/text.h"
#include "proc/process.h"
#include "proc/task.h"
#include "remote/checks/wait_changes.h"

#define EPOLL_INSTANCE "anon_inode:[eventpoll]"

/* The kind of timeout of a row, and its place among the arguments. */
enum timeout_kind {
	TIMEOUT_NONE,
	TIMEOUT_FUTEX,	  /* depends on the futex operation */
	TIMEOUT_MS,	  /* int milliseconds in the argument, negative: no timeout */
	TIMEOUT_EPOLL,	  /* int milliseconds as well, but the kernel keeps no remainder */
	TIMEOUT_RELATIVE, /* struct timespec that the kernel does not change */
	TIMEOUT_UPDATED,  /* struct timespec or timeval that the kernel updates */
	TIMEOUT_SLEEP,	  /* nanosleep: the argument, the remainder in the next one */
	TIMEOUT_CLOCK,	  /* clock_nanosleep: flags in the argument before */
};

struct wait_row {
	long number;
	const char *name;
	bool on_file; /* argument 0 is a descriptor that must not be a regular file */
	enum timeout_kind timeout;
	int argument; /* index of the timeout */
};

/*
 * restart_syscall is missing on purpose: its arguments are in the kernel's restart block, which a
 * borrowed thread loses.
 */
static const struct wait_row waits_rows[] = {
	{SYS_futex, "futex", false, TIMEOUT_FUTEX, 3},
	{SYS_read, "read", true, TIMEOUT_NONE, 0},
	{SYS_readv, "readv", true, TIMEOUT_NONE, 0},
	{SYS_recvfrom, "recv", true, TIMEOUT_NONE, 0},
	{SYS_recvmsg, "recvmsg", true, TIMEOUT_NONE, 0},
	{SYS_accept, "accept", true, TIMEOUT_NONE, 0},
	{SYS_accept4, "accept4", true, TIMEOUT_NONE, 0},
	{SYS_wait4, "wait4", false, TIMEOUT_NONE, 0},
	{SYS_waitid, "waitid", false, TIMEOUT_NONE, 0},
	{SYS_msgrcv, "msgrcv", false, TIMEOUT_NONE, 0},
	{SYS_rt_sigsuspend, "sigsuspend", false, TIMEOUT_NONE, 0},
	{SYS_rt_sigtimedwait, "sigtimedwait", false, TIMEOUT_RELATIVE, 2},
	{SYS_semtimedop, "semtimedop", false, TIMEOUT_RELATIVE, 3},
	{SYS_ppoll, "ppoll", false, TIMEOUT_UPDATED, 2},
	{SYS_pselect6, "pselect6", false, TIMEOUT_UPDATED, 4},
	{SYS_epoll_pwait, "epoll_pwait", true, TIMEOUT_EPOLL, 3},
#ifdef SYS_epoll_pwait2
	{SYS_epoll_pwait2, "epoll_pwait2", true, TIMEOUT_RELATIVE, 3},
#endif
	{SYS_nanosleep, "nanosleep", false, TIMEOUT_SLEEP, 0},
	{SYS_clock_nanosleep, "clock_nanosleep", false, TIMEOUT_CLOCK, 2},
/* Calls that newer architectures do not have. */
#ifdef SYS_pause
	{SYS_pause, "pause", false, TIMEOUT_NONE, 0},
#endif
#ifdef SYS_poll
	{SYS_poll, "poll", false, TIMEOUT_MS, 2},
#endif
#ifdef SYS_select
	{SYS_select, "select", false, TIMEOUT_UPDATED, 4},
#endif
#ifdef SYS_epoll_wait
	{SYS_epoll_wait, "epoll_wait", true, TIMEOUT_EPOLL, 3},
#endif
};

static const struct wait_row *find_row(long number)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(waits_rows); i++)
		if (waits_rows[i].number == number)
			return &waits_rows[i];
	return NULL;
}

/*
 * True if the send has no MSG_FASTOPEN: with data in the first packet of the handshake a repeated
 * call may send it twice.
 */
static bool is_plain_send(const uint64_t *args)
{
	return !(args[3] & MSG_FASTOPEN);
}

static bool is_plain_message(const uint64_t *args)
{
	return !(args[2] & MSG_FASTOPEN);
}

/*
 * True if there are no entries to submit; otherwise the result is the number of entries that the
 * kernel took.
 */
static bool submits_nothing(const uint64_t *args)
{
	return (uint32_t)args[1] == 0;
}

/*
 * True if making the call twice has the same effect as once; modes that move data are not included.
 */
static bool is_idempotent(const uint64_t *args)
{
	return !(args[1] & (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE));
}

struct repeat {
	long number;
	bool (*holds)(const uint64_t *args); /* condition on the arguments; NULL: any arguments */
};

/*
 * More calls, in which no thread is borrowed, for which the kernel returns plain EINTR only if they
 * did nothing. An interrupt may hit them if a thread has moved on since it was read. All other
 * calls restart by themselves (ERESTARTSYS and others), or EINTR does not mean that nothing was
 * done (close(), ioctl(), files of FUSE servers except for reads and writes).
 */
static const struct repeat repeats[] = {
	/* ipc/sem.c: an interrupted operation has changed no semaphore. */
	{SYS_semop, NULL},
	/* fs/aio.c: only if no event was taken. */
	{SYS_io_getevents, NULL},
	/* io_uring/io_uring.c: returns the result of the wait only if nothing was submitted. */
	{SYS_io_uring_enter, submits_nothing},
	/*
	 * Sockets with SO_RCVTIMEO or SO_SNDTIMEO, sock_intr_errno() in include/net/sock.h: if a
	 * part was transferred, they return its length instead.
	 */
	{SYS_recvmmsg, NULL},
	{SYS_write, NULL},
	{SYS_writev, NULL},
	{SYS_sendto, is_plain_send},
	{SYS_sendmsg, is_plain_message},
	{SYS_sendmmsg, is_plain_send},
	{SYS_sendfile, NULL},
	{SYS_splice, NULL},
	/* net/ipv4/af_inet.c: a connect() on a socket that is connecting continues to wait. */
	{SYS_connect, NULL},
	/* mm/shmem.c before 6.18, fs/hugetlbfs/inode.c: any signal ends and undoes it. */
	{SYS_fallocate, is_idempotent},
};

bool flmem_wait_is_repeatable(const struct flmem_task_wait *at)
{
	if (find_row(at->number))
		return true;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(repeats); i++)
		if (repeats[i].number == at->number)
			return !repeats[i].holds || repeats[i].holds(at->args);
	return false;
}

/*
 * True for epoll instances and similar descriptors, whose files have no type; `kind` begins their
 * name.
 */
static bool is_anonymous(const struct flmem_process *process, const char *name, const char *kind)
{
	char target[32];

	return flmem_process_readlink(process, name, target, sizeof(target)) == 0 &&
	       flmem_text_starts(target, kind);
}

static bool is_of_kind(const struct flmem_process *process, pid_t tid, uint64_t descriptor,
		       const char *kind)
{
	char name[48];

	snprintf(name, sizeof(name), "task/%d/fd/%u", (int)tid, (unsigned)descriptor);
	return is_anonymous(process, name, kind);
}

/* True for such files from which reads always fail. */
static bool is_never_read(const struct flmem_process *process, pid_t tid, uint64_t descriptor)
{
	return is_of_kind(process, tid, descriptor, EPOLL_INSTANCE) ||
	       is_of_kind(process, tid, descriptor, "anon_inode:[pidfd]") ||
	       is_of_kind(process, tid, descriptor, "anon_inode:[io_uring]");
}

/*
 * True for pipes, sockets, terminals and similar files, which belong to the program. A read from a
 * regular file is short and may belong to the allocator or the dynamic linker (overcommit_memory, a
 * library). Checked without opening the file, and without a request to a file server.
 */
static bool is_stream(const struct flmem_process *process, pid_t tid, uint64_t descriptor,
		      struct statx *ret_file)
{
	char name[48];

	snprintf(name, sizeof(name), "task/%d/fd/%d", (int)tid, (int)(unsigned)descriptor);
	*ret_file = (struct statx){0};
	if (is_anonymous(process, name, "anon_inode:"))
		return true;
	if (flmem_file_statx(process->dirfd, name, AT_STATX_DONT_SYNC, STATX_TYPE, ret_file))
		return false;
	return S_ISSOCK(ret_file->stx_mode) || S_ISFIFO(ret_file->stx_mode) ||
	       S_ISCHR(ret_file->stx_mode);
}

/*
 * True if the call waits for all data: an interrupt ends it with the partial data that has arrived,
 * which cannot be put back.
 */
static bool waits_for_all(const struct flmem_task_wait *at)
{
	return (at->number == SYS_recvfrom && at->args[3] & MSG_WAITALL) ||
	       (at->number == SYS_recvmsg && at->args[2] & MSG_WAITALL);
}

static bool needs_socket(const struct flmem_task_wait *at)
{
	return at->number == SYS_recvfrom || at->number == SYS_recvmsg ||
	       at->number == SYS_accept || at->number == SYS_accept4;
}

/*
 * Classifies a wait on a file. SO_RCVTIMEO of a socket shows only at the stop, by EINTR.
 * pidfd_getfd() and getsockopt() would show it before, but while that second descriptor is open,
 * close() in the target neither ends the connection nor removes the socket from its epoll sets, for
 * as long as this process is stopped.
 */
static bool classify_file(const struct flmem_process *process, pid_t tid,
			  const struct flmem_task_wait *at, bool reads, struct flmem_wait *wait,
			  const char **ret_reason)
{
	struct statx file;

	if (!is_stream(process, tid, at->args[0], &file)) {
		*ret_reason = "is reading a file";
		return false;
	}
	*ret_reason = NULL;
	if (reads && is_never_read(process, tid, at->args[0]))
		*ret_reason = "is reading from a descriptor that was replaced since";
	else if (reads)
		*ret_reason = flmem_wait_read_changed(process, tid, at->args[0], &file);
	else if (!is_of_kind(process, tid, at->args[0], EPOLL_INSTANCE))
		*ret_reason = "waits on a descriptor that was replaced since";
	if (*ret_reason)
		return false;
	if (!S_ISSOCK(file.stx_mode)) {
		if (needs_socket(at))
			*ret_reason = "waits on a descriptor that was replaced since";
		return !*ret_reason;
	}
	if (waits_for_all(at)) {
		*ret_reason = "is reading until its buffer is full";
		return false;
	}
	wait->quality = FLMEM_WAIT_UNSURE;
	wait->eintr_means_timeout = true;
	return true;
}

static bool set_relative(const struct flmem_process *process, uint64_t address,
			 struct flmem_wait *wait, const char **ret_reason)
{
	struct timespec ts;

	if (!address)
		return true;
	if (flmem_process_read_memory(process, address, &ts, sizeof(ts))) {
		*ret_reason = "is in a wait whose timeout cannot be read";
		return false;
	}
	wait->quality = FLMEM_WAIT_RELATIVE;
	wait->late_us = ts.tv_sec < 0 || ts.tv_sec > INT32_MAX
				? UINT64_MAX
				: (uint64_t)ts.tv_sec * 1000000U + (uint64_t)ts.tv_nsec / 1000U;
	return true;
}

/*
 * Classifies a futex. glibc's locks, pthread mutexes and the spin locks of allocators wait for a
 * lock word of value 2 (lowlevellock.h: 2 is "locked, with waiters"): the thread may be inside an
 * allocator. Priority inheritance and requeue operations are not supported.
 */
static bool classify_futex(const struct flmem_process *process, const struct flmem_task_wait *at,
			   struct flmem_wait *wait, const char **ret_reason)
{
	unsigned operation = (unsigned)at->args[1] & (unsigned)FUTEX_CMD_MASK;

	if (operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET) {
		*ret_reason = "is waiting for a lock";
		return false;
	}
	if ((uint32_t)at->args[2] == 2) {
		*ret_reason = "is waiting for a lock, possibly the allocator's";
		return false;
	}
	if (!at->args[3])
		return true;
	if (operation == FUTEX_WAIT)
		return set_relative(process, at->args[3], wait, ret_reason);
	wait->quality = FLMEM_WAIT_DEADLINE;
	return true;
}

static bool classify_timeout(const struct flmem_process *process, const struct wait_row *row,
			     const struct flmem_task_wait *at, struct flmem_wait *wait,
			     const char **ret_reason)
{
	uint64_t value = at->args[row->argument];

	switch (row->timeout) {
	case TIMEOUT_NONE:
		return true;
	case TIMEOUT_FUTEX:
		return classify_futex(process, at, wait, ret_reason);
	case TIMEOUT_MS:
	case TIMEOUT_EPOLL:
		if ((int32_t)value >= 0) {
			wait->quality = FLMEM_WAIT_RELATIVE;
			wait->late_us = (uint64_t)(uint32_t)value * 1000U;
		}
		return true;
	case TIMEOUT_RELATIVE:
		return set_relative(process, value, wait, ret_reason);
	case TIMEOUT_UPDATED:
		/*
		 * EINTR shows that the kernel could not update the timeout: fs/select.c,
		 * poll_select_finish().
		 */
		wait->eintr_means_timeout = value;
		if (value)
			wait->quality = FLMEM_WAIT_DEADLINE;
		return true;
	case TIMEOUT_SLEEP:
		/*
		 * The remainder overwrites the request, so the repeated call sleeps for the rest.
		 */
		wait->quality = FLMEM_WAIT_DEADLINE;
		return value == at->args[1] || set_relative(process, value, wait, ret_reason);
	case TIMEOUT_CLOCK:
		wait->quality = FLMEM_WAIT_DEADLINE;
		return (at->args[1] & TIMER_ABSTIME) || value == at->args[3] ||
		       set_relative(process, value, wait, ret_reason);
	}
	return false;
}

/*
 * True for calls whose remainder is lost: they return EINTR. For poll() and sleeps the kernel
 * resumes the rest (restart_syscall(2)).
 */
static bool keeps_no_remainder(const struct wait_row *row)
{
	return row->timeout == TIMEOUT_EPOLL || row->timeout == TIMEOUT_RELATIVE;
}

bool flmem_wait_classify(const struct flmem_process *process, pid_t tid,
			 const struct flmem_task_wait *at, struct flmem_wait *ret_wait,
			 const char **ret_reason)
{
	const struct wait_row *row = find_row(at->number);
	struct flmem_wait wait = {.quality = FLMEM_WAIT_ENDLESS};

	if (!row) {
		*ret_reason = "is in a system call that must not be interrupted";
		return false;
	}
	wait.name = row->name;
	if (row->on_file &&
	    !classify_file(process, tid, at, row->timeout == TIMEOUT_NONE, &wait, ret_reason))
		return false;
	if (flmem_wait_polls_too_many(process, at)) {
		*ret_reason = "polls more descriptors than its limit (ulimit -n) now allows";
		return false;
	}
	if (!classify_timeout(process, row, at, &wait, ret_reason))
		return false;
	*ret_reason = flmem_wait_arguments_changed(process, tid, at);
	if (*ret_reason)
		return false;
	wait.stop_restarts = wait.quality == FLMEM_WAIT_RELATIVE && keeps_no_remainder(row);
	*ret_wait = wait;
	return true;
}
