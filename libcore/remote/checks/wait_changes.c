/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/wait_changes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/portable.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "proc/limits/headroom.h"
#include "proc/maps.h"
#include "proc/stat.h"
#include "remote/checks/wait_children.h"

/* Numbers of fields of /proc/PID/stat. */
#define FIELD_GROUP	 5
#define FIELD_TERMINAL	 7
#define FIELD_FOREGROUND 8

/* Major and minor numbers of devices (Documentation/admin-guide/devices.txt). */
#define MEM_MAJOR    1U
#define KMSG_MINOR   11U
#define TTY_MAJOR    4U
#define TTYAUX_MAJOR 5U

/* Most descriptors of one poll() that are checked; they are read at once. */
#define POLLED_MAX 1024U
#define AT_ONCE	   64U
#define SET_WORDS  (POLLED_MAX / 64U)
#define EXCEPTIONS 3 /* index of that set */
/* What poll() reports of a file that has nothing to wait for (DEFAULT_POLLMASK in the kernel). */
#define DATA_EVENTS (POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM)

#define PAGE 4096U /* the smallest page size; larger pages are read repeatedly */
/* Most entries of a list argument that are checked. */
#define ENTRIES_MAX 1024U
#define PAGES_MAX   ((ENTRIES_MAX * sizeof(struct iovec)) / PAGE + 2)
#define SIGNAL_SET  8U /* of the kernel: 64 signals */
/* Distance above its stack pointer in which the variables of a thread are searched for. */
#define OWN_STACK_BYTES 65536U
/* Descriptors that must be left below the limit: others may open files meanwhile. */
#define DESCRIPTORS_LEFT 16U

/* P_PIDFD (linux/wait.h); older C libraries do not define it. */
#define WAITS_FOR_PIDFD 3

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
 * True if the process now reads its terminal in the background. One that began to read in the
 * foreground waits for input; a read that is made again in the background stops it by SIGTTIN, or
 * fails (drivers/tty/tty_jobctrl.c).
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

/*
 * True for files that no call waits for, such as /dev/null and /dev/urandom: another descriptor had
 * the number when the wait began. Among the memory devices only the kernel log can be waited for.
 */
static bool is_never_waited_for(const struct statx *file)
{
	return S_ISCHR(file->stx_mode) && file->stx_rdev_major == MEM_MAJOR &&
	       file->stx_rdev_minor != KMSG_MINOR;
}

/* Parses octal digits. */
static uint64_t parse_open_flags(const char *digits)
{
	uint64_t flags = 0;

	for (; *digits >= '0' && *digits <= '7'; digits++)
		flags = flags << 3 | (uint64_t)(*digits - '0');
	return flags;
}

/* Reads the flags of the open file; false if they cannot be read. */
static bool read_open_flags(const struct flmem_process *process, pid_t tid, uint64_t descriptor,
			    uint64_t *ret_flags)
{
	static const char name[] = "flags:\t";
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	const char *flags;
	char path[48];

	snprintf(path, sizeof(path), "task/%d/fdinfo/%d", (int)tid, (int)(unsigned)descriptor);
	flags = flmem_process_read(process, path, &buf) ? NULL : strstr(buf.data, name);
	if (flags)
		*ret_flags = parse_open_flags(flags + strlen(name));
	return flags;
}

static bool may_not_block(const struct flmem_process *process, pid_t tid, uint64_t descriptor)
{
	uint64_t flags;

	return !read_open_flags(process, tid, descriptor, &flags) || flags & O_NONBLOCK;
}

/*
 * The other end of a pipe may have taken the number. Any process that shares the open file may set
 * O_NONBLOCK: then the call fails with EAGAIN.
 */
const char *flmem_wait_read_changed(const struct flmem_process *process, pid_t tid,
				    uint64_t descriptor, const struct statx *file)
{
	uint64_t flags;

	if (!read_open_flags(process, tid, descriptor, &flags))
		return "waits on a descriptor that cannot be examined";
	if (is_never_waited_for(file))
		return "is reading from a descriptor that was replaced since";
	if ((flags & O_ACCMODE) == O_WRONLY || flags & O_PATH)
		return "is reading from a descriptor that was replaced since";
	if (flags & O_NONBLOCK)
		return "is reading from a descriptor that no longer waits (O_NONBLOCK)";
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
	return polls && (!flmem_headroom_limit(process, "Max open files", &limit) ||
			 (uint32_t)at->args[1] > limit);
}

/* True if the descriptor is open, also if the process may not be read. */
static bool is_descriptor_open(const struct flmem_process *process, pid_t tid, uint64_t descriptor)
{
	struct stat link;
	char name[48];

	snprintf(name, sizeof(name), "task/%d/fd/%d", (int)tid, (int)(unsigned)descriptor);
	return fstatat(process->dirfd, name, &link, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/* True for files and directories, which for poll() are always readable and writable. */
static bool is_always_ready(const struct flmem_process *process, pid_t tid, uint64_t descriptor)
{
	struct statx file = {0};
	char name[48];

	snprintf(name, sizeof(name), "task/%d/fd/%d", (int)tid, (int)(unsigned)descriptor);
	return flmem_file_statx(process->dirfd, name, AT_STATX_DONT_SYNC, STATX_TYPE, &file) == 0 &&
	       (S_ISREG(file.stx_mode) || S_ISDIR(file.stx_mode) || S_ISBLK(file.stx_mode) ||
		is_never_waited_for(&file));
}

/*
 * Returns why a descriptor is refused, or NULL. `awaits_data`: the call waits for data or for room,
 * and not only for errors and the like.
 */
static const char *refuse_descriptor(const struct flmem_process *process, pid_t tid,
				     uint64_t descriptor, bool awaits_data)
{
	if (!is_descriptor_open(process, tid, descriptor))
		return "polls a descriptor that was closed since";
	return awaits_data && is_always_ready(process, tid, descriptor)
		       ? "polls a descriptor that was replaced since"
		       : NULL;
}

static const char *refuse_polled(const struct flmem_process *process, pid_t tid,
				 const struct flmem_task_wait *at)
{
	struct pollfd rows[AT_ONCE];
	uint64_t count = (uint32_t)at->args[1];
	const char *reason = NULL;

	if (count > POLLED_MAX)
		count = POLLED_MAX;
	for (uint64_t first = 0; first < count && !reason; first += AT_ONCE) {
		size_t length = count - first < AT_ONCE ? (size_t)(count - first) : AT_ONCE;

		if (flmem_process_read_memory(process, at->args[0] + first * sizeof(*rows), rows,
					      length * sizeof(*rows)))
			return "polls by a list that can no longer be read";
		for (size_t i = 0; i < length && !reason; i++)
			if (rows[i].fd >= 0)
				reason = refuse_descriptor(process, tid, (uint64_t)rows[i].fd,
							   rows[i].events & DATA_EVENTS);
	}
	return reason;
}

static const char *refuse_selected(const struct flmem_process *process, pid_t tid,
				   const struct flmem_task_wait *at)
{
	uint64_t words[SET_WORDS];
	uint64_t count = (uint32_t)at->args[0];
	const char *reason = NULL;

	if (count > POLLED_MAX)
		count = POLLED_MAX;
	for (int set = 1; set <= 3 && !reason; set++) {
		if (!at->args[set] || !count)
			continue;
		if (flmem_process_read_memory(process, at->args[set], words,
					      (count + 63) / 64 * sizeof(*words)))
			return "polls by a list that can no longer be read";
		for (uint64_t i = 0; i < count && !reason; i++)
			if (words[i / 64] >> i % 64 & 1)
				reason = refuse_descriptor(process, tid, i, set < EXCEPTIONS);
	}
	return reason;
}

static const char *refuse_children(const struct flmem_process *process, pid_t tid,
				   const struct flmem_task_wait *at)
{
	if (at->number == SYS_waitid && (int)at->args[0] == WAITS_FOR_PIDFD &&
	    (!is_descriptor_open(process, tid, at->args[1]) ||
	     may_not_block(process, tid, at->args[1])))
		return "waits for a child by a descriptor that changed since";
	return flmem_wait_children_changed(process, tid, at);
}

/*
 * Returns why the futex word is refused, or NULL: the C library ends a program whose futex gives
 * EFAULT.
 */
static const char *refuse_word(const struct flmem_process *process,
			       const struct flmem_task_wait *at)
{
	uint32_t word;

	return flmem_process_read_memory(process, at->args[0], &word, sizeof(word))
		       ? "waits for a word that can no longer be read"
		       : NULL;
}

/* The kernel's struct user_msghdr, of which musl's msghdr has the half of some numbers. */
struct kernel_message {
	uint64_t name, name_bytes;
	uint64_t parts, part_count;
	uint64_t control, control_bytes;
	uint64_t flags;
};

/* Memory that the kernel reads when a call is made, besides the lists above. */
static const struct {
	long number;
	uint64_t bytes;
	int argument;
	int count; /* index of the argument with the number of entries; -1: there is one entry */
} pointers[] = {
	{SYS_futex, sizeof(struct timespec), 3, -1},
	{SYS_nanosleep, sizeof(struct timespec), 0, -1},
	{SYS_clock_nanosleep, sizeof(struct timespec), 2, -1},
	{SYS_readv, sizeof(struct iovec), 1, 2},
	{SYS_recvmsg, sizeof(struct kernel_message), 1, -1},
	{SYS_rt_sigsuspend, SIGNAL_SET, 0, -1},
	{SYS_rt_sigtimedwait, SIGNAL_SET, 0, -1},
	{SYS_semtimedop, sizeof(struct sembuf), 1, 2},
	{SYS_ppoll, sizeof(struct timespec), 2, -1},
	{SYS_ppoll, SIGNAL_SET, 3, -1},
	{SYS_pselect6, sizeof(struct timespec), 4, -1},
	{SYS_pselect6, 2 * sizeof(uint64_t), 5, -1}, /* a pointer and a length */
	{SYS_epoll_pwait, SIGNAL_SET, 4, -1},
#ifdef SYS_epoll_pwait2
	{SYS_epoll_pwait2, SIGNAL_SET, 4, -1},
#endif
#ifdef SYS_select
	{SYS_select, sizeof(struct timeval), 4, -1},
#endif
};

/* True if one byte of each page can be read. */
static bool is_readable(const struct flmem_process *process, uint64_t address, uint64_t length)
{
	struct iovec places[PAGES_MAX];
	unsigned char bytes[PAGES_MAX];
	size_t count = 0;

	if (!length)
		return true;
	if (address + length < address)
		return false;
	for (uint64_t at = address; at < address + length && count < PAGES_MAX;
	     at = at - at % PAGE + PAGE)
		places[count++] = (struct iovec){(void *)(uintptr_t)at, 1};
	return flmem_process_read_scattered(process, places, count, bytes) == 0;
}

static bool is_list_readable(const struct flmem_process *process, uint64_t address, uint64_t bytes,
			     uint64_t count)
{
	return is_readable(process, address, (count < ENTRIES_MAX ? count : ENTRIES_MAX) * bytes);
}

/* True if the lists can be read to which the memory above points. */
static bool is_second_list_readable(const struct flmem_process *process,
				    const struct flmem_task_wait *at)
{
	struct kernel_message message;
	uint64_t set;

	if (at->number == SYS_recvmsg && at->args[1])
		return flmem_process_read_memory(process, at->args[1], &message, sizeof(message)) ==
			       0 &&
		       is_list_readable(process, message.parts, sizeof(struct iovec),
					message.part_count);
	if (at->number == SYS_pselect6 && at->args[5])
		return flmem_process_read_memory(process, at->args[5], &set, sizeof(set)) == 0 &&
		       (!set || is_readable(process, set, SIGNAL_SET));
	return true;
}

/*
 * True if the rest of a sleep can be written. A sleep that is interrupted writes the rest of its
 * time at once, and fails with EFAULT where it cannot (nanosleep_copyout() in the kernel).
 */
static bool may_write_rest(const struct flmem_process *process, const struct flmem_task_wait *at)
{
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	const struct flmem_map *map;
	uint64_t rest = 0;

	if (at->number == SYS_nanosleep)
		rest = at->args[1];
	else if (at->number == SYS_clock_nanosleep && !(at->args[1] & TIMER_ABSTIME))
		rest = at->args[3];
	if (!rest || rest - at->sp < OWN_STACK_BYTES)
		return true;
	map = flmem_maps_read(process, &maps, NULL) ? NULL : flmem_maps_find(&maps, rest);
	return map && map->flags & FLMEM_MAP_WRITE && map->end - rest >= sizeof(struct timespec);
}

static const char *refuse_memory(const struct flmem_process *process,
				 const struct flmem_task_wait *at)
{
	bool readable = is_second_list_readable(process, at);

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(pointers) && readable; i++) {
		const uint64_t address = at->args[pointers[i].argument];
		const int count = pointers[i].count;

		if (pointers[i].number == at->number && address)
			readable = is_list_readable(process, address, pointers[i].bytes,
						    count < 0 ? 1 : at->args[count]);
	}
	if (!readable)
		return "is in a call whose arguments can no longer be read";
	return may_write_rest(process, at)
		       ? NULL
		       : "sleeps and cannot be given the rest of its time where it asks for it";
}

/*
 * True if the process has more descriptors than `most`, also if they cannot be counted. Linux 6.2
 * and later report the number of entries as the size of the directory.
 */
static bool has_more_descriptors(const struct flmem_process *process, pid_t tid, uint64_t most)
{
	struct stat status;
	uint64_t count = 0;
	char name[32];
	DIR *dir;

	snprintf(name, sizeof(name), "task/%d/fd", (int)tid);
	if (fstatat(process->dirfd, name, &status, 0) == 0 && status.st_size > 0)
		return (uint64_t)status.st_size > most;
	dir = flmem_io_open_dir(process->dirfd, name);
	if (!dir)
		return true;
	while (count <= most && readdir(dir))
		count++;
	closedir(dir);
	return count > most;
}

/*
 * Returns why an accept() is refused, or NULL. It reserves the number of its descriptor while it
 * waits. A stop releases the number: another thread may take it, or the limit may no longer allow
 * it.
 */
static const char *refuse_accept(const struct flmem_process *process, pid_t tid)
{
	uint64_t limit;

	if (flmem_headroom_limit(process, "Max open files", &limit) && limit >= DESCRIPTORS_LEFT &&
	    !has_more_descriptors(process, tid, limit - DESCRIPTORS_LEFT))
		return NULL;
	return "waits for a connection for which its limit (ulimit -n) may not leave a descriptor";
}

static const char *refuse_first(const struct flmem_process *process, pid_t tid,
				const struct flmem_task_wait *at)
{
	switch (at->number) {
	case SYS_futex:
		return refuse_word(process, at);
	case SYS_accept:
	case SYS_accept4:
		return refuse_accept(process, tid);
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

const char *flmem_wait_arguments_changed(const struct flmem_process *process, pid_t tid,
					 const struct flmem_task_wait *at)
{
	const char *reason = refuse_first(process, tid, at);

	return reason ? reason : refuse_memory(process, at);
}
