/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/task_scheduling.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <flmem/parse.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "proc/limits/cpu_quota.h"
#include "proc/limits/headroom.h"
#include "proc/process.h"
#include "proc/task.h"

/* struct sched_attr of the kernel, in its first version, which only newer C libraries define. */
struct sched_attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

#define POLICY_DEADLINE 6
#define POLICY_EXT	7 /* of a scheduler in BPF, perhaps after all usual threads */
#define SLACK_NS_MAX	1000000000U

/* Shares of the processor, ascending: SCHED_IDLE and SCHED_EXT, nice 19 to -20, real-time. */
#define SHARE_IDLE	0
#define SHARE_USUAL	20 /* share of nice 0 */
#define SHARE_REAL_TIME 41

static bool read_attributes(pid_t tid, struct sched_attributes *ret_attributes)
{
	return syscall(SYS_sched_getattr, tid, ret_attributes, sizeof(*ret_attributes), 0) == 0;
}

static bool is_real_time(const struct sched_attributes *attributes)
{
	return attributes->policy == SCHED_FIFO || attributes->policy == SCHED_RR ||
	       attributes->policy == POLICY_DEADLINE;
}

static int processor_share_of(const struct sched_attributes *attributes)
{
	if (is_real_time(attributes))
		return SHARE_REAL_TIME;
	if (attributes->policy == POLICY_EXT)
		return SHARE_IDLE;
	return attributes->policy == SCHED_IDLE ? SHARE_IDLE : SHARE_USUAL - attributes->nice;
}

/*
 * Returns true if another thread has a higher share and this one has less than the usual share. A
 * usual one is accepted beside threads of higher priority: most programs have some.
 */
static bool has_better(const struct flmem_process *process, int share)
{
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};
	struct sched_attributes other;

	if (share >= SHARE_USUAL)
		return false;
	if (flmem_tasks_read(process, &tasks) || tasks.count >= FLMEM_TASKS_MAX)
		return true;
	for (size_t i = 0; i < tasks.count; i++)
		if (read_attributes(tasks.ids[i], &other) && processor_share_of(&other) > share)
			return true;
	return false;
}

/*
 * Returns true if real-time threads have a time limit (RLIMIT_RTTIME), beyond which the kernel ends
 * the process.
 */
static bool is_time_limited(const struct flmem_process *process)
{
	uint64_t limit;

	return !flmem_headroom_limit(process, "Max realtime timeout", &limit) ||
	       limit != UINT64_MAX;
}

/* Returns true if a control group gives real-time threads a budget of processor time. */
static bool is_budgeted(const struct flmem_process *process)
{
	FLMEM_AUTO_CLOSE int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return root < 0 || flmem_cpu_quota_limits_real_time(root, process);
}

static const char *refuse_real_time(const struct flmem_process *process,
				    const struct sched_attributes *own)
{
	struct sched_attributes first;

	if (own->policy == POLICY_DEADLINE)
		return "is a real-time thread with a budget (SCHED_DEADLINE)";
	if (!read_attributes(process->pid, &first) || !is_real_time(&first))
		return "is a real-time thread, and the main thread is not";
	if (is_time_limited(process))
		return "is a real-time thread with a time limit (RLIMIT_RTTIME)";
	if (is_budgeted(process))
		return "is a real-time thread whose control group has a budget "
		       "(cpu.rt_runtime_us)";
	return NULL;
}

static bool is_task_there(const struct flmem_process *process, pid_t tid)
{
	char name[32];

	snprintf(name, sizeof(name), "task/%d", (int)tid);
	return faccessat(process->dirfd, name, F_OK, 0) == 0;
}

/* Reads the groups of a thread; empty on kernels without control groups. Returns 0 or -errno. */
static int read_groups(const struct flmem_process *process, pid_t tid, struct flmem_buf *groups)
{
	char name[40];
	int rc;

	snprintf(name, sizeof(name), "task/%d/cgroup", (int)tid);
	flmem_buf_reset(groups);
	flmem_buf_puts(groups, "");
	rc = flmem_process_read(process, name, groups);
	if (rc == -ENOENT && is_task_there(process, tid))
		rc = 0;
	return !rc && groups->failed ? -ENOMEM : rc;
}

/*
 * Reads the groups of all threads. Returns false if some cannot be read. A thread that has exited
 * meanwhile is skipped.
 */
static bool read_all_groups(const struct flmem_process *process, struct flmem_task_groups *groups)
{
	FLMEM_AUTO_BUF struct flmem_buf other = FLMEM_BUF_INIT;
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};
	bool found = false;

	if (flmem_tasks_read(process, &tasks) || tasks.count >= FLMEM_TASKS_MAX)
		return false;
	for (size_t i = 0; i < tasks.count && !groups->differ; i++) {
		int rc = read_groups(process, tasks.ids[i], found ? &other : &groups->first);

		if (flmem_task_has_ended(rc))
			continue;
		if (rc)
			return false;
		groups->differ = found && strcmp(groups->first.data, other.data) != 0;
		found = true;
	}
	groups->is_read = found;
	return found;
}

/*
 * Returns true if the thread is in another group than others. Threads of one process may be in
 * groups with other shares and limits of processor time: those of version 1, and threaded ones of
 * version 2. In a group that has used up its quota, a thread continues in the next period, with the
 * locks that it holds.
 */
static bool is_grouped_apart(const struct flmem_process *process, pid_t tid,
			     struct flmem_task_groups *groups)
{
	FLMEM_AUTO_BUF struct flmem_buf own = FLMEM_BUF_INIT;

	if (read_groups(process, tid, &own))
		return true;
	if (!groups->is_read && !read_all_groups(process, groups))
		return true;
	return groups->differ || strcmp(own.data, groups->first.data) != 0;
}

/*
 * Returns true if the kernel may end the sleep of a thread too late (PR_SET_TIMERSLACK). If flmem
 * is killed, the thread stays in the sleep after its calls for that long. Unknown without
 * CAP_SYS_NICE.
 */
static bool sleeps_too_long(const struct flmem_process *process, pid_t tid)
{
	char name[40], text[24];
	FLMEM_AUTO_CLOSE int fd = -1;
	uint64_t slack_ns;
	ssize_t length;

	snprintf(name, sizeof(name), "../%d/timerslack_ns", (int)tid);
	fd = openat(process->dirfd, name, O_RDONLY | O_CLOEXEC);
	length = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	if (length <= 0)
		return false;
	text[text[length - 1] == '\n' ? length - 1 : length] = '\0';
	return flmem_parse_u64(text, 0, SLACK_NS_MAX, &slack_ns, NULL) != 0;
}

void flmem_task_groups_clear(struct flmem_task_groups *groups)
{
	flmem_buf_clear(&groups->first);
	*groups = (struct flmem_task_groups)FLMEM_TASK_GROUPS_INIT;
}

const char *flmem_task_scheduling_refuses(const struct flmem_process *process, pid_t tid,
					  struct flmem_task_groups *groups)
{
	struct sched_attributes own;

	if (!read_attributes(tid, &own))
		return "has a scheduling policy that cannot be read";
	if (is_real_time(&own))
		return refuse_real_time(process, &own);
	/* It would keep its processor as a real-time thread does, with the same limit. */
	if (flmem_task_is_boosted(process, tid))
		return "holds a lock for which a real-time thread waits";
	if (has_better(process, processor_share_of(&own)))
		return "has a lower priority than another thread, which could wait for it";
	if (sleeps_too_long(process, tid))
		return "may sleep for much longer than it asks for (PR_SET_TIMERSLACK)";
	return is_grouped_apart(process, tid, groups)
		       ? "is in another control group than another thread, which could wait for it"
		       : NULL;
}
