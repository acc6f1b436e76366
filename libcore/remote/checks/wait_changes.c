/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/wait_changes.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

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
