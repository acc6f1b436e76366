/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/wait_changes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/portable.h"
#include "base/text/buf.h"
#include "proc/limits/headroom.h"
#include "proc/stat.h"

/* Of /proc/PID/stat. */
#define FIELD_GROUP	 5
#define FIELD_TERMINAL	 7
#define FIELD_FOREGROUND 8

/* Of devices (Documentation/admin-guide/devices.txt). */
#define MEM_MAJOR    1U
#define NULL_MINOR   3U
#define ZERO_MINOR   5U
#define FULL_MINOR   7U
#define TTY_MAJOR    4U
#define TTYAUX_MAJOR 5U

/* P_PIDFD (linux/wait.h); older C libraries do not define it. */
#define WAITS_FOR_PIDFD 3
/* Of the descriptors of one poll() so many are checked, and read at once. */
#define POLLED_MAX 1024U
#define AT_ONCE	   64U
#define SET_WORDS  (POLLED_MAX / 64U)

/*
 * `terminal` as /proc/PID/stat shows it (new_encode_dev() in the kernel). /dev/tty and /dev/tty0
 * are the terminal of whoever opens them.
 */
static bool may_be_terminal(const struct statx *file, uint64_t terminal)
{
	const uint64_t minor = file->stx_rdev_minor;

	if (file->stx_rdev_major == TTYAUX_MAJOR || file->stx_rdev_major == TTY_MAJOR)
		return true;
	return terminal == ((minor & 0xff) | (uint64_t)file->stx_rdev_major << 8 |
			    (minor & ~UINT64_C(0xff)) << 12);
}

/*
 * A process that began to read its terminal in the foreground waits for input; a read that is made
 * again in the background stops it by SIGTTIN, or fails (drivers/tty/tty_jobctrl.c).
 */
static bool reads_in_background(const struct flmem_process *process, const struct statx *file)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	uint64_t group, terminal, foreground;
	const char *fields;

	if (!S_ISCHR(file->stx_mode))
		return false;
	fields = flmem_process_read(process, "stat", &buf) ? NULL : flmem_stat_fields(buf.data);
	if (!fields || !flmem_stat_number(fields, FIELD_GROUP, &group) ||
	    !flmem_stat_number(fields, FIELD_TERMINAL, &terminal))
		return true;
	return terminal && may_be_terminal(file, terminal) &&
	       !(flmem_stat_number(fields, FIELD_FOREGROUND, &foreground) && foreground == group);
}

/* Nothing waits for these: another descriptor had the number when the wait began. */
static bool is_never_waited_for(const struct statx *file)
{
	return S_ISCHR(file->stx_mode) && file->stx_rdev_major == MEM_MAJOR &&
	       (file->stx_rdev_minor == NULL_MINOR || file->stx_rdev_minor == ZERO_MINOR ||
		file->stx_rdev_minor == FULL_MINOR);
}

/* Octal digits. */
static uint64_t parse_open_flags(const char *digits)
{
	uint64_t flags = 0;

	for (; *digits >= '0' && *digits <= '7'; digits++)
		flags = flags << 3 | (uint64_t)(*digits - '0');
	return flags;
}

/* Any process that shares the open file may set O_NONBLOCK: then the call fails with EAGAIN. */
static bool is_nonblocking(const struct flmem_process *process, pid_t tid, uint64_t descriptor)
{
	static const char name[] = "flags:\t";
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	const char *flags;
	char path[48];

	snprintf(path, sizeof(path), "task/%d/fdinfo/%d", (int)tid, (int)(unsigned)descriptor);
	if (flmem_process_read(process, path, &buf))
		return false;
	flags = strstr(buf.data, name);
	return flags && parse_open_flags(flags + strlen(name)) & O_NONBLOCK;
}

const char *flmem_wait_read_changed(const struct flmem_process *process, pid_t tid,
				    uint64_t descriptor, const struct statx *file)
{
	if (is_never_waited_for(file))
		return "is reading from a descriptor that was replaced since";
	if (is_nonblocking(process, tid, descriptor))
		return "is reading from a descriptor that does not wait any more (O_NONBLOCK)";
	return reads_in_background(process, file) ? "is reading a terminal in the background"
						  : NULL;
}

bool flmem_wait_polls_too_many(const struct flmem_process *process,
			       const struct flmem_task_wait *at)
{
	bool polls = at->number == SYS_ppoll;
	uint64_t limit;

#ifdef SYS_poll
	polls = polls || at->number == SYS_poll;
#endif
	return polls && flmem_headroom_limit(process, "Max open files", &limit) &&
	       (uint32_t)at->args[1] > limit;
}

/* True also if the process may not be asked. */
static bool is_descriptor_open(const struct flmem_process *process, pid_t tid, uint64_t descriptor)
{
	struct stat link;
	char name[48];

	snprintf(name, sizeof(name), "task/%d/fd/%d", (int)tid, (int)(unsigned)descriptor);
	return fstatat(process->dirfd, name, &link, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

static const char *refuse_polled(const struct flmem_process *process, pid_t tid,
				 const struct flmem_task_wait *at)
{
	struct pollfd rows[AT_ONCE];
	uint64_t count = (uint32_t)at->args[1];

	if (count > POLLED_MAX)
		count = POLLED_MAX;
	for (uint64_t first = 0; first < count; first += AT_ONCE) {
		size_t length = count - first < AT_ONCE ? (size_t)(count - first) : AT_ONCE;

		if (flmem_process_read_memory(process, at->args[0] + first * sizeof(*rows), rows,
					      length * sizeof(*rows)))
			return "polls by a list that cannot be read any more";
		for (size_t i = 0; i < length; i++)
			if (rows[i].fd >= 0 &&
			    !is_descriptor_open(process, tid, (uint64_t)rows[i].fd))
				return "polls a descriptor that was closed since";
	}
	return NULL;
}

static const char *refuse_selected(const struct flmem_process *process, pid_t tid,
				   const struct flmem_task_wait *at)
{
	uint64_t words[SET_WORDS];
	uint64_t count = (uint32_t)at->args[0];

	if (count > POLLED_MAX)
		count = POLLED_MAX;
	for (int set = 1; set <= 3; set++) {
		if (!at->args[set] || !count)
			continue;
		if (flmem_process_read_memory(process, at->args[set], words,
					      (count + 63) / 64 * sizeof(*words)))
			return "polls by a list that cannot be read any more";
		for (uint64_t i = 0; i < count; i++)
			if (words[i / 64] >> i % 64 & 1 && !is_descriptor_open(process, tid, i))
				return "polls a descriptor that was closed since";
	}
	return NULL;
}

/* A group of 0 is the one that the caller has when it makes the call; any thread may change it. */
static const char *refuse_children(const struct flmem_process *process, pid_t tid,
				   const struct flmem_task_wait *at)
{
	const bool by_kind = at->number == SYS_waitid;
	const int kind = (int)at->args[0];

	if (by_kind ? kind == P_PGID && !(uint32_t)at->args[1] : !(uint32_t)at->args[0])
		return "waits for children of its process group, which may be another one now";
	if (by_kind && kind == WAITS_FOR_PIDFD &&
	    (!is_descriptor_open(process, tid, at->args[1]) ||
	     is_nonblocking(process, tid, at->args[1])))
		return "waits for a child by a descriptor that changed since";
	return NULL;
}

/* The C library ends a program whose futex gives EFAULT. */
static const char *refuse_word(const struct flmem_process *process,
			       const struct flmem_task_wait *at)
{
	uint32_t word;

	return flmem_process_read_memory(process, at->args[0], &word, sizeof(word))
		       ? "waits for a word that cannot be read any more"
		       : NULL;
}

const char *flmem_wait_arguments_changed(const struct flmem_process *process, pid_t tid,
					 const struct flmem_task_wait *at)
{
	switch (at->number) {
	case SYS_futex:
		return refuse_word(process, at);
	case SYS_wait4:
	case SYS_waitid:
		return refuse_children(process, tid, at);
	case SYS_ppoll:
#ifdef SYS_poll
	case SYS_poll:
#endif
		return refuse_polled(process, tid, at);
	case SYS_pselect6:
#ifdef SYS_select
	case SYS_select:
#endif
		return refuse_selected(process, tid, at);
	default:
		return NULL;
	}
}
