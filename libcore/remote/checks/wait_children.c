/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/wait_children.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "proc/process.h"
#include "proc/status.h"
#include "proc/task.h"

/* Flags of wait4() and waitid() (linux/wait.h). */
#define OF_THREAD   0x20000000U /* __WNOTHREAD: children of this thread alone */
#define OF_ANY_KIND 0x40000000U /* __WALL */
#define OF_CLONE    0x80000000U /* __WCLONE: those that do not send SIGCHLD when they end */

/* P_PIDFD; older C libraries do not define it. */
#define WAITS_FOR_PIDFD 3

/* The children that a call waits for; 0: any child. */
struct awaited_children {
	pid_t child;
	bool by_group, by_descriptor;
	unsigned options;
};

static struct awaited_children read_awaited(const struct flmem_task_wait *at)
{
	const int which = (int)at->args[0];

	if (at->number == SYS_waitid)
		return (struct awaited_children){.child = which == P_PID ? (pid_t)at->args[1] : 0,
						 .by_group = which == P_PGID,
						 .by_descriptor = which == WAITS_FOR_PIDFD,
						 .options = (unsigned)at->args[3]};
	return (struct awaited_children){.child = which > 0 ? which : 0,
					 .by_group = which == 0 || which < -1,
					 .options = (unsigned)at->args[2]};
}

/*
 * True if `children` has the ID: the IDs are separated by spaces, as in
 * /proc/PID/task/TID/children.
 */
static bool has_id(const char *children, pid_t wanted)
{
	uint64_t id;

	while (flmem_text_read_digits(&children, &id)) {
		if (!wanted || id == (uint64_t)wanted)
			return true;
		while (*children == ' ')
			children++;
	}
	return false;
}

/*
 * True if the thread has such a child, also if the kernel does not list children
 * (CONFIG_PROC_CHILDREN).
 */
static bool has_child_of_thread(const struct flmem_process *process, pid_t tid, pid_t wanted)
{
	FLMEM_AUTO_BUF struct flmem_buf children = FLMEM_BUF_INIT;
	char name[40];

	snprintf(name, sizeof(name), "task/%d/children", (int)tid);
	return flmem_process_read(process, name, &children) || has_id(children.data, wanted);
}

static bool has_child(const struct flmem_process *process, pid_t tid,
		      const struct awaited_children *awaited)
{
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};
	struct flmem_status status;
	pid_t wanted = awaited->child;

	/* In its own PID namespace it knows its children by other ids. */
	if (!awaited->by_descriptor && (flmem_status_read(process, &status, NULL) ||
					flmem_u64_or(status.ns_pid, 0) != (uint64_t)process->pid))
		wanted = 0;
	if (has_child_of_thread(process, tid, wanted))
		return true;
	if (awaited->options & OF_THREAD || flmem_tasks_read(process, &tasks))
		return false;
	for (size_t i = 0; i < tasks.count; i++)
		if (has_child_of_thread(process, tasks.ids[i], wanted))
			return true;
	return false;
}

/*
 * Reads which process a pidfd refers to, by its ID in /proc; 0: it has none there. False if it is
 * not a pidfd, or one of a process that has been waited for.
 */
static bool read_described(const struct flmem_process *process, pid_t tid, uint64_t descriptor,
			   pid_t *ret_child)
{
	static const char name[] = "\nPid:\t";
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	const char *digits;
	uint64_t id;
	char path[48];

	snprintf(path, sizeof(path), "task/%d/fdinfo/%d", (int)tid, (int)(unsigned)descriptor);
	digits = flmem_process_read(process, path, &buf) ? NULL : strstr(buf.data, name);
	if (!digits)
		return false;
	digits += strlen(name);
	if (!flmem_text_read_digits(&digits, &id))
		return false;
	*ret_child = (pid_t)id;
	return true;
}

/*
 * A child may leave its process group, and has SIGCHLD as others once it executes a program. A
 * process that is traced is not a child after the trace.
 */
const char *flmem_wait_children_changed(const struct flmem_process *process, pid_t tid,
					const struct flmem_task_wait *at)
{
	struct awaited_children awaited = read_awaited(at);

	if (awaited.by_descriptor && !read_described(process, tid, at->args[1], &awaited.child))
		return "waits for a child by a descriptor that changed since";
	if (awaited.by_group)
		return "waits for children of a process group, which may be in another one now";
	if (awaited.options & OF_CLONE && !(awaited.options & OF_ANY_KIND))
		return "waits for a child of a kind that it may no longer be (__WCLONE)";
	return has_child(process, tid, &awaited)
		       ? NULL
		       : "waits for a child that the process no longer has";
}
