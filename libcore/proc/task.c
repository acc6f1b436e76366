/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/task.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <flmem/parse.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/text.h"
#include "proc/limits/cgroup.h"
#include "proc/process.h"
#include "proc/stat.h"
#include "proc/status.h"

#define LISTS_MAX 8U

static int add_task(struct flmem_tasks *tasks, size_t *capacity, pid_t tid)
{
	if (tasks->count == *capacity) {
		size_t grown = *capacity ? *capacity * 2 : 64;
		pid_t *ids = reallocarray(tasks->ids, grown, sizeof(*ids));

		if (!ids)
			return -ENOMEM;
		tasks->ids = ids;
		*capacity = grown;
	}
	tasks->ids[tasks->count++] = tid;
	return 0;
}

/* Returns true if one of the first `count` is this thread; usually it is the one at `*next`. */
static bool is_task_known(const struct flmem_tasks *tasks, size_t count, pid_t tid, size_t *next)
{
	for (size_t i = 0; i < count; i++) {
		const size_t at = (*next + i) % count;

		if (tasks->ids[at] != tid)
			continue;
		*next = at + 1;
		return true;
	}
	return false;
}

/* Adds the threads that are not known yet. Returns 1 if there are any, 0 if not, or -errno. */
static int list_tasks(const struct flmem_process *process, struct flmem_tasks *tasks,
		      size_t *capacity)
{
	FLMEM_AUTO_DIR DIR *dir = flmem_io_open_dir(process->dirfd, "task");
	const size_t known = tasks->count;
	size_t next = 0;
	pid_t tid;

	if (!dir)
		return -errno;
	while (tasks->count < FLMEM_TASKS_MAX) {
		const struct dirent *entry = (errno = 0, readdir(dir));
		int rc;

		if (!entry && errno)
			return errno == ENOENT ? -ESRCH : -errno;
		if (!entry)
			break;
		if (flmem_parse_pid(entry->d_name, &tid, NULL) ||
		    is_task_known(tasks, known, tid, &next))
			continue;
		rc = add_task(tasks, capacity, tid);
		if (rc)
			return rc;
	}
	return tasks->count > known;
}

/*
 * If a thread exits while the kernel lists the threads, that part of the list ends, and the next
 * part begins one thread too late (next_tid() and first_tid() in fs/proc/base.c): a list may lack a
 * live thread. So the threads are listed again until no new one appears; for a program that
 * constantly starts threads, a few lists together must suffice.
 */
int flmem_tasks_read(const struct flmem_process *process, struct flmem_tasks *ret_tasks)
{
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};
	size_t capacity = 0;
	int rc = 1;

	for (unsigned i = 0; i < LISTS_MAX && rc > 0; i++)
		rc = list_tasks(process, &tasks, &capacity);
	if (rc < 0)
		return rc;
	*ret_tasks = tasks;
	tasks = (struct flmem_tasks){0};
	return 0;
}

void flmem_tasks_clear(struct flmem_tasks *tasks)
{
	free(tasks->ids);
	*tasks = (struct flmem_tasks){0};
}

static int open_task_file(const struct flmem_process *process, pid_t tid, const char *name)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "task/%d/%s", (int)tid, name);
	fd = openat(process->dirfd, path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int read_open_file(int fd, char *out, size_t size)
{
	ssize_t got = pread(fd, out, size - 1, 0);

	if (got < 0)
		return -errno;
	out[got] = '\0';
	return 0;
}

static int read_task_file(const struct flmem_process *process, pid_t tid, const char *name,
			  char *out, size_t size)
{
	FLMEM_AUTO_CLOSE int fd = open_task_file(process, tid, name);

	return fd < 0 ? fd : read_open_file(fd, out, size);
}

/* Returns the thread's own ID; 0, which is not an ID of a thread, if it is unknown. */
static pid_t read_inner_id(const struct flmem_process *process, pid_t tid)
{
	struct flmem_status status;
	char text[4096];

	if (read_task_file(process, tid, "status", text, sizeof(text)) ||
	    flmem_status_parse(text, &status, NULL) || status.ns_pid.unknown ||
	    status.ns_pid.value > INT32_MAX)
		return 0;
	return (pid_t)status.ns_pid.value;
}

int flmem_task_ids_read(const struct flmem_process *process, struct flmem_task_ids *ret_ids)
{
	FLMEM_AUTO_TASK_IDS struct flmem_task_ids ids = {0};
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};
	bool same = read_inner_id(process, process->pid) == process->pid;
	int rc = flmem_tasks_read(process, &tasks);

	if (rc)
		return rc;
	ids.rows = calloc(tasks.count + 1, sizeof(*ids.rows));
	if (!ids.rows)
		return -ENOMEM;
	for (; ids.count < tasks.count; ids.count++) {
		pid_t tid = tasks.ids[ids.count];

		ids.rows[ids.count] = (struct flmem_task_id){
			.outer = tid,
			.inner = same ? tid : read_inner_id(process, tid),
		};
	}
	*ret_ids = ids;
	ids = (struct flmem_task_ids){0};
	return 0;
}

void flmem_task_ids_clear(struct flmem_task_ids *ids)
{
	free(ids->rows);
	*ids = (struct flmem_task_ids){0};
}

pid_t flmem_task_ids_outer(const struct flmem_task_ids *ids, pid_t inner)
{
	for (size_t i = 0; inner > 0 && i < ids->count; i++)
		if (ids->rows[i].inner == inner)
			return ids->rows[i].outer;
	return 0;
}

static bool hex_word(const char **text, uint64_t *ret_value)
{
	const char *p = *text;
	uint64_t value = 0;
	int digits = 0;

	if (strncmp(p, " 0x", 3) != 0)
		return false;
	for (p += 3;; p++, digits++) {
		if (*p >= '0' && *p <= '9')
			value = value << 4 | (uint64_t)(*p - '0');
		else if (*p >= 'a' && *p <= 'f')
			value = value << 4 | (uint64_t)(*p - 'a' + 10);
		else
			break;
	}
	*text = p;
	*ret_value = value;
	return digits > 0 && digits <= 16;
}

/* Parses a system call number: decimal, up to four digits, or -1. */
static bool call_number(const char **text, long *ret_number)
{
	const char *p = *text;
	long value = 0;
	int digits = 0;

	if (strncmp(p, "-1", 2) == 0) {
		*text = p + 2;
		*ret_number = -1;
		return true;
	}
	for (; *p >= '0' && *p <= '9' && digits < 5; p++, digits++)
		value = value * 10 + (*p - '0');
	*text = p;
	*ret_number = value;
	return digits > 0;
}

int flmem_task_wait_parse(const char *text, struct flmem_task_wait *ret_wait)
{
	struct flmem_task_wait wait = {0};

	if (strncmp(text, "running", 7) == 0)
		return 0;
	if (!call_number(&text, &wait.number))
		return -EPROTO;
	for (size_t i = 0; wait.number >= 0 && i < FLMEM_ARRAY_SIZE(wait.args); i++)
		if (!hex_word(&text, &wait.args[i]))
			return -EPROTO;
	if (!hex_word(&text, &wait.sp) || !hex_word(&text, &wait.pc))
		return -EPROTO;
	*ret_wait = wait;
	return 1;
}

int flmem_task_open_wait(const struct flmem_process *process, pid_t tid)
{
	return open_task_file(process, tid, "syscall");
}

int flmem_task_read_open_wait(int fd, struct flmem_task_wait *ret_wait)
{
	char text[256];
	int rc = read_open_file(fd, text, sizeof(text));

	return rc ? rc : flmem_task_wait_parse(text, ret_wait);
}

int flmem_task_read_wait(const struct flmem_process *process, pid_t tid,
			 struct flmem_task_wait *ret_wait)
{
	FLMEM_AUTO_CLOSE int fd = flmem_task_open_wait(process, tid);

	return fd < 0 ? fd : flmem_task_read_open_wait(fd, ret_wait);
}

uint64_t flmem_task_cpu_ns(const struct flmem_process *process, pid_t tid)
{
	uint64_t value;
	char text[96];

	/* The file has "run_ns wait_ns timeslices". */
	if (read_task_file(process, tid, "schedstat", text, sizeof(text)))
		return 0;
	text[strcspn(text, " \n")] = '\0';
	return flmem_parse_u64(text, 0, UINT64_MAX, &value, NULL) ? 0 : value;
}

/* Numbers of fields of /proc/PID/task/TID/stat. */
#define FIELD_FLAGS	9
#define FIELD_PRIORITY	18
#define FIELD_PROCESSOR 39
/*
 * PF_IO_WORKER and PF_USER_WORKER of the kernel's sched.h: a thread of io_uring or vhost, which
 * belongs to the process and never leaves the kernel. Before Linux 6.4 the second flag had another
 * meaning, and was set for no usual thread.
 */
#define KERNELS_FLAGS 0x4010U

static bool read_stat_number(const struct flmem_process *process, pid_t tid, int field,
			     uint64_t *ret_value)
{
	const char *fields;
	char text[1024];

	if (read_task_file(process, tid, "stat", text, sizeof(text)))
		return false;
	fields = flmem_stat_fields(text);
	return fields && flmem_stat_number(fields, field, ret_value);
}

int flmem_task_processor(const struct flmem_process *process, pid_t tid)
{
	uint64_t value;

	if (!read_stat_number(process, tid, FIELD_PROCESSOR, &value) || value > INT32_MAX)
		return -1;
	return (int)value;
}

/* The kernel shows real-time priorities as negative numbers, which are not parsed. */
bool flmem_task_is_boosted(const struct flmem_process *process, pid_t tid)
{
	uint64_t unused;

	return !read_stat_number(process, tid, FIELD_PRIORITY, &unused);
}

bool flmem_task_is_kernels(const struct flmem_process *process, pid_t tid)
{
	uint64_t flags;

	return read_stat_number(process, tid, FIELD_FLAGS, &flags) && flags & KERNELS_FLAGS;
}

size_t flmem_tasks_count_own(const struct flmem_process *process, const struct flmem_tasks *tasks,
			     size_t most)
{
	size_t own = 0;

	for (size_t i = 0; i < tasks->count && own < most; i++)
		own += !flmem_task_is_kernels(process, tasks->ids[i]);
	return own;
}

/*
 * Returns the function of the kernel in which the thread waits; NULL if the kernel does not show
 * it. Before Linux 5.16, wchan has no names on x86-64 unless the kernel is built with frame
 * pointers (bc9bbb81730e, "x86: Fix get_wchan() to support the ORC unwinder"). The stack has them;
 * reading it needs CAP_SYS_ADMIN.
 */
static const char *read_wait_function(const struct flmem_process *process, pid_t tid, char *text,
				      size_t size)
{
	const char *name;

	if (read_task_file(process, tid, "wchan", text, size) == 0 && strcmp(text, "0") != 0)
		return text;
	/* The first line is "[<0>] pipe_read+0x2fa/0x400": the innermost function comes first. */
	if (read_task_file(process, tid, "stack", text, size))
		return NULL;
	name = strchr(text, ' ');
	return name ? name + 1 : NULL;
}

/* Returns true if the function has one of these names, to which compilers may append a suffix. */
static bool is_one_of(const char *function, const char *const *functions)
{
	for (; *functions; functions++)
		if (flmem_text_starts(function, *functions))
			return true;
	return false;
}

bool flmem_task_is_supervised(const struct flmem_process *process, pid_t tid)
{
	/* Functions of kernel/seccomp.c; compilers may inline the first into the second. */
	static const char *const notification[] = {"seccomp_do_user_notification",
						   "__seccomp_filter", NULL};
	char text[128];
	const char *function = read_wait_function(process, tid, text, sizeof(text));

	return function && is_one_of(function, notification);
}

bool flmem_task_is_frozen(const struct flmem_process *process, pid_t tid)
{
	/* Functions of kernel/signal.c; compilers inline the first into the second. */
	static const char *const freezer[] = {"do_freezer_trap", "get_signal", NULL};
	char text[128];
	const char *function = read_wait_function(process, tid, text, sizeof(text));

	if (function)
		return is_one_of(function, freezer);
	FLMEM_AUTO_CLOSE int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return root < 0 || flmem_cgroups_freeze(root, process);
}

void flmem_task_name(const struct flmem_process *process, pid_t tid, char *out, size_t size)
{
	out[0] = '\0';
	if (read_task_file(process, tid, "comm", out, size) == 0)
		out[strcspn(out, "\n")] = '\0';
}
