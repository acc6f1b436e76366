/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/task_context.h"

#include <linux/kcmp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "proc/process.h"

#define LINK_MAX	   64
#define IOPRIO_WHO_PROCESS 1 /* linux/ioprio.h, which older systems do not have */
#define IOPRIO_NONE_MAX	   0x1fff
#define IOPRIO_USUAL	   0x4004 /* class 2, level 4 */

static bool is_shared(pid_t one, pid_t other, int what)
{
	return syscall(SYS_kcmp, one, other, what, 0, 0) == 0;
}

/* Returns true if the lines of both files that begin with `name` are equal. */
static bool has_same_line(const char *one, const char *other, const char *name)
{
	const char *mine = strstr(one, name), *theirs = strstr(other, name);
	size_t length;

	if (!mine || !theirs)
		return !mine && !theirs;
	/* Both point to the line break before the line. */
	length = strcspn(++mine, "\n");
	return length == strcspn(++theirs, "\n") && memcmp(mine, theirs, length) == 0;
}

static bool has_same_identity(const struct flmem_process *process, pid_t tid)
{
	static const char *const lines[] = {
		"\nUmask:",  "\nUid:",	  "\nGid:",    "\nGroups:", "\nCapInh:",
		"\nCapPrm:", "\nCapEff:", "\nCapBnd:", "\nCapAmb:",
	};
	FLMEM_AUTO_BUF struct flmem_buf one = FLMEM_BUF_INIT, other = FLMEM_BUF_INIT;
	char name[40];

	snprintf(name, sizeof(name), "task/%d/status", (int)tid);
	if (flmem_process_read(process, "status", &one) ||
	    flmem_process_read(process, name, &other))
		return false;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lines); i++)
		if (!has_same_line(one.data, other.data, lines[i]))
			return false;
	/*
	 * If this thread has the flag and the first one does not, it would deny rights to the code.
	 */
	return strstr(other.data, "\nNoNewPrivs:\t0") ||
	       has_same_line(one.data, other.data, "\nNoNewPrivs:");
}

/*
 * Compares namespaces that a thread may have separately. A separate mount namespace requires a
 * separate working directory (CLONE_FS), and a process with several threads cannot change the
 * others.
 */
static bool has_same_namespaces(const struct flmem_process *process, pid_t tid)
{
	static const char *const kinds[] = {
		"net", "ipc", "uts", "cgroup", "pid_for_children", "time_for_children",
	};
	char name[48], one[LINK_MAX], other[LINK_MAX];

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(kinds); i++) {
		int mine, theirs;

		snprintf(name, sizeof(name), "ns/%s", kinds[i]);
		mine = flmem_process_readlink(process, name, one, sizeof(one));
		snprintf(name, sizeof(name), "task/%d/ns/%s", (int)tid, kinds[i]);
		theirs = flmem_process_readlink(process, name, other, sizeof(other));
		if (mine != theirs || (!mine && strcmp(one, other) != 0))
			return false;
	}
	return true;
}

/*
 * Without a priority of its own, a thread shows another one before its first access to a disk than
 * afterwards, in kernels before 6.0: class 0, or the usual class.
 */
static long disk_priority(pid_t tid)
{
	long priority = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, tid);

	return priority >= 0 && priority <= IOPRIO_NONE_MAX ? IOPRIO_USUAL : priority;
}

static bool has_same_scheduling(pid_t one, pid_t other)
{
	cpu_set_t mine, theirs;

	CPU_ZERO(&mine);
	CPU_ZERO(&theirs);
	if (sched_getscheduler(one) != sched_getscheduler(other) ||
	    getpriority(PRIO_PROCESS, (id_t)one) != getpriority(PRIO_PROCESS, (id_t)other) ||
	    disk_priority(one) != disk_priority(other))
		return false;
	/* With more processors than the set holds, both calls give EINVAL. */
	if (sched_getaffinity(one, sizeof(mine), &mine) != 0 ||
	    sched_getaffinity(other, sizeof(theirs), &theirs) != 0)
		return true;
	return CPU_EQUAL(&mine, &theirs);
}

const char *flmem_task_context_differs(const struct flmem_process *process, pid_t tid)
{
	pid_t leader = process->pid;

	if (tid == leader)
		return NULL;
	if (!is_shared(leader, tid, KCMP_FILES) || !is_shared(leader, tid, KCMP_FS))
		return "has a separate descriptor table or working directory";
	if (!has_same_identity(process, tid))
		return "has a different identity (ids, capabilities, umask or no_new_privs)";
	if (!has_same_namespaces(process, tid))
		return "has different namespaces";
	if (!has_same_scheduling(leader, tid))
		return "has a different scheduling policy, priority or affinity";
	return NULL;
}
