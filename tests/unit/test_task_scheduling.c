/* SPDX-License-Identifier: Apache-2.0 */
/* Tests threads that get a processor too late, or keep it, while others wait for what they hold. */
#include "borrowed.h"

#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/text/buf.h"
#include "proc/process.h"
#include "proc/task.h"
#include "proc/task_scheduling.h"

#define LOWER	  "lower priority"
#define REAL_TIME "is a real-time thread, and the main thread is not"
#define LIMITED	  "RLIMIT_RTTIME"
#define BUDGET	  "SCHED_DEADLINE"
#define LAZY	  "PR_SET_TIMERSLACK"
#define APART	  "is in another control group"
#define GROUP	  "cpu.rt_runtime_us"
#define BOOSTED	  "holds a lock for which a real-time thread waits"

/* Only newer headers of the C library have this number. */
#define POLICY_DEADLINE 6
#define POLICY_EXT	7

struct deadline {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

struct page {
	_Atomic pid_t thread;
	_Atomic int error;
};

struct row {
	const char *name;
	/* The changes that the threads make; they return 0, or -1 with errno. */
	int (*first)(void), (*other)(void);
	const char *refuses_first, *refuses_other;
};

static struct page *page;
static const struct row *current;

/* Control groups that the second thread seems to have; NULL: its own. */
static const char *groups;
static size_t further_threads;

/* Results of reading the groups of the second thread, or of all, and of the list of threads. */
static struct {
	int groups, tasks;
	bool of_all, is_list_full;
	pid_t ended; /* in place of the last thread of the list */
} unread;

int __real_flmem_process_read(const struct flmem_process *process, const char *name,
			      struct flmem_buf *buf);
int __wrap_flmem_process_read(const struct flmem_process *process, const char *name,
			      struct flmem_buf *buf);
int __wrap_flmem_process_read(const struct flmem_process *process, const char *name,
			      struct flmem_buf *buf)
{
	char other[40];

	snprintf(other, sizeof(other), "task/%d/cgroup", (int)atomic_load(&page->thread));
	if (unread.groups && strstr(name, "/cgroup") && (unread.of_all || strcmp(name, other) == 0))
		return unread.groups;
	if (!groups || strcmp(name, other) != 0)
		return __real_flmem_process_read(process, name, buf);
	flmem_buf_puts(buf, groups);
	return 0;
}

int __real_flmem_tasks_read(const struct flmem_process *process, struct flmem_tasks *ret_tasks);
int __wrap_flmem_tasks_read(const struct flmem_process *process, struct flmem_tasks *ret_tasks);
int __wrap_flmem_tasks_read(const struct flmem_process *process, struct flmem_tasks *ret_tasks)
{
	int rc = unread.tasks ? unread.tasks : __real_flmem_tasks_read(process, ret_tasks);

	if (!rc && unread.is_list_full) {
		ret_tasks->ids = realloc(ret_tasks->ids, FLMEM_TASKS_MAX * sizeof(pid_t));
		assert_non_null(ret_tasks->ids);
		for (size_t i = ret_tasks->count; i < FLMEM_TASKS_MAX; i++)
			ret_tasks->ids[i] = ret_tasks->ids[0];
		ret_tasks->count = FLMEM_TASKS_MAX;
	}
	if (!rc && unread.ended)
		ret_tasks->ids[ret_tasks->count - 1] = unread.ended;
	return rc;
}

/* Most kernels have no class for schedulers in BPF: its number replaces that of a usual one. */
static bool other_is_ext, all_are_ext;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	long arguments[5], rc;
	struct deadline *seen;
	va_list list;

	va_start(list, number);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(arguments); i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	rc = __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3],
			    arguments[4]);
	if (number != SYS_sched_getattr || rc)
		return rc;
	memcpy(&seen, &arguments[1], sizeof(seen));
	if (all_are_ext || (other_is_ext && (pid_t)arguments[0] == page->thread))
		seen->policy = POLICY_EXT;
	return rc;
}

static bool has_group_budget;

bool __wrap_flmem_cpu_quota_limits_real_time(int rootfd, const struct flmem_process *process);
bool __wrap_flmem_cpu_quota_limits_real_time(int rootfd, const struct flmem_process *process)
{
	(void)process;
	assert_true(rootfd >= 0);
	return has_group_budget;
}

static int set_policy(int policy, int priority)
{
	const struct sched_param param = {.sched_priority = priority};

	return sched_setscheduler(0, policy, &param);
}

static int be_usual(void)
{
	return set_policy(SCHED_OTHER, 0) || setpriority(PRIO_PROCESS, 0, 0) ? -1 : 0;
}

static int be_batch(void)
{
	return set_policy(SCHED_BATCH, 0);
}

static int be_last(void)
{
	return set_policy(SCHED_IDLE, 0);
}

static int be_low(void)
{
	return setpriority(PRIO_PROCESS, 0, 7);
}

static int be_high(void)
{
	return setpriority(PRIO_PROCESS, 0, -7);
}

static int be_fifo(void)
{
	return set_policy(SCHED_FIFO, 1);
}

static int be_limited(void)
{
	const struct rlimit limit = {1000000, RLIM_INFINITY};

	return setrlimit(RLIMIT_RTTIME, &limit) ? -1 : set_policy(SCHED_RR, 1);
}

/* Sets the slack of this thread alone, as with TimerSlackNSec= of systemd. */
static int be_lazy(void)
{
	errno = EPERM; /* without root flmem may not read the slack */
	return geteuid() ? -1 : prctl(PR_SET_TIMERSLACK, 2000000000UL);
}

static int be_less_lazy(void)
{
	return prctl(PR_SET_TIMERSLACK, 1000000000UL);
}

static int be_budgeted(void)
{
	const struct deadline deadline = {
		.size = sizeof(deadline),
		.policy = POLICY_DEADLINE,
		.runtime = 1000000,
		.deadline = 1000000000,
		.period = 1000000000,
	};

	return (int)syscall(SYS_sched_setattr, 0L, &deadline, 0L);
}

static pthread_mutex_t lent_lock;

static void *wait_for_lent_lock(void *unused)
{
	if (be_fifo())
		atomic_store(&page->error, errno);
	else
		pthread_mutex_lock(&lent_lock);
	return unused;
}

#define IGNORED_FIELDS "%*d%*d%*d%*d%*d%*u%*u%*u%*u%*u%*u%*u%*d%*d" /* 4 to 17 */

/* Returns true once the kernel runs this thread as a real-time one (field 18, priority). */
static bool is_lent_priority(void)
{
	FILE *file = fopen("/proc/thread-self/stat", "re");
	int priority = 0;

	if (!file || fscanf(file, "%*d (%*[^)]) %*c" IGNORED_FIELDS "%d", &priority) != 1)
		abort();
	fclose(file);
	return priority < 0;
}

/* Holds a lock with priority inheritance that a real-time thread waits for. */
static int be_boosted(void)
{
	pthread_mutexattr_t attributes;
	pthread_t waiter;

	if (pthread_mutexattr_init(&attributes) ||
	    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) ||
	    pthread_mutex_init(&lent_lock, &attributes) || pthread_mutex_lock(&lent_lock) ||
	    pthread_create(&waiter, NULL, wait_for_lent_lock, NULL))
		return -1;
	while (!atomic_load(&page->error) && !is_lent_priority())
		usleep(1000);
	return 0;
}

static const struct row rows[] = {
	{"equal", be_usual, be_usual, NULL, NULL},
	{"equal and low", be_low, be_low, NULL, NULL},
	{"equal and last", be_last, be_last, NULL, NULL},
	{"batch", be_usual, be_batch, NULL, NULL},
	{"late timers", be_usual, be_lazy, NULL, LAZY},
	{"late timers of the first", be_lazy, be_usual, LAZY, LAZY}, /* new threads inherit it */
	{"rather late timers", be_usual, be_less_lazy, NULL, NULL},
	{"one is last", be_usual, be_last, NULL, LOWER},
	{"the first is last", be_last, be_usual, LOWER, NULL},
	{"one is low", be_usual, be_low, NULL, LOWER},
	{"the first is low", be_low, be_usual, LOWER, NULL},
	{"one is last, the others low", be_low, be_last, NULL, LOWER},
	{"one is high", be_usual, be_high, NULL, NULL},
	{"one in real time", be_usual, be_fifo, NULL, REAL_TIME},
	{"low beside real time", be_low, be_fifo, LOWER, REAL_TIME},
	{"all in real time", be_fifo, be_fifo, NULL, NULL},
	{"all in real time, limited", be_limited, be_limited, LIMITED, LIMITED},
	{"one with the priority of another", be_usual, be_boosted, NULL, BOOSTED},
	{"one with a budget", be_fifo, be_budgeted, NULL, BUDGET},
};

static void *be_other(void *unused)
{
	if (current->other())
		atomic_store(&page->error, errno);
	atomic_store(&page->thread, (pid_t)syscall(SYS_gettid));
	for (;;)
		pause();
	return unused;
}

static void *be_further(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void be_child(void)
{
	pthread_t thread;

	for (size_t i = 0; i < further_threads; i++)
		if (pthread_create(&thread, NULL, be_further, NULL))
			abort();
	if (current->first() || pthread_create(&thread, NULL, be_other, NULL)) {
		atomic_store(&page->error, errno);
		atomic_store(&page->thread, -1);
	}
	for (;;)
		pause();
}

static void compare(const struct target *target, pid_t tid, const char *expected)
{
	struct flmem_task_groups seen = FLMEM_TASK_GROUPS_INIT;
	const char *reason = flmem_task_scheduling_refuses(&target->process, tid, &seen);

	flmem_task_groups_clear(&seen);
	if (!expected != !reason || (reason && !strstr(reason, expected)))
		fail_msg("%s: %s", current->name, reason ? reason : "accepted");
}

/* Tries a row. Returns false where this user may not have such threads. */
static bool run_row(const struct row *row)
{
	struct target target;
	pid_t child;
	int error;

	current = row;
	atomic_store(&page->thread, 0);
	atomic_store(&page->error, 0);
	child = child_start(be_child);
	assert_true(child > 0);
	await_true(atomic_load(&page->thread));
	error = atomic_load(&page->error);
	if (!error) {
		target_open(child, &target);
		compare(&target, child, row->refuses_first);
		compare(&target, atomic_load(&page->thread), row->refuses_other);
		target_close(&target);
	}
	child_end(child);
	return !error;
}

static void priorities_are_compared(void **state)
{
	size_t missing = 0;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		if (run_row(&rows[i]))
			continue;
		print_message("SKIP: %s: not permitted here\n", rows[i].name);
		missing++;
	}
	if (missing)
		skip();
}

/* One of the two groups may give its thread little processor time. */
static void threads_in_different_groups_are_refused(void **state)
{
	static const struct row apart = {"apart", be_usual, be_usual, APART, APART};

	(void)state;
	groups = "3:cpu:/flmem-test\n0::/\n";
	assert_true(run_row(&apart));
	groups = NULL;
}

/* A late thread is compared whatever the number of threads before it. */
static void a_late_thread_is_compared_with_all(void **state)
{
	static const struct row late = {"late", be_usual, be_usual, APART, APART};

	(void)state;
	further_threads = 64;
	groups = "3:cpu:/flmem-test\n0::/\n";
	assert_true(run_row(&late));
	groups = NULL;
	further_threads = 0;
}

static void a_thread_that_moves_later_is_compared_as_well(void **state)
{
	struct flmem_task_groups seen = FLMEM_TASK_GROUPS_INIT;
	struct target target;
	const char *reason;
	pid_t child;

	(void)state;
	current = &rows[0];
	atomic_store(&page->thread, 0);
	child = child_start(be_child);
	await_true(atomic_load(&page->thread));
	target_open(child, &target);
	assert_null(flmem_task_scheduling_refuses(&target.process, child, &seen));
	groups = "3:cpu:/flmem-test\n0::/\n";
	reason = flmem_task_scheduling_refuses(&target.process, atomic_load(&page->thread), &seen);
	assert_non_null(reason);
	assert_non_null(strstr(reason, APART));
	groups = NULL;
	flmem_task_groups_clear(&seen);
	target_close(&target);
	child_end(child);
}

static const struct row *row_named(const char *name)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	fail_msg("no row '%s'", name);
	return NULL;
}

static void run_as(const char *name, const char *refuses_first, const char *refuses_other)
{
	struct row row = *row_named(name);

	row.refuses_first = refuses_first;
	row.refuses_other = refuses_other;
	assert_true(run_row(&row));
}

static void real_time_threads_with_a_budget_are_refused(void **state)
{
	static const struct row row = {"all in real time", be_fifo, be_fifo, GROUP, GROUP};
	bool permitted;

	(void)state;
	has_group_budget = true;
	permitted = run_row(&row);
	has_group_budget = false;
	if (!permitted) {
		print_message("SKIP: real-time threads are not permitted here\n");
		skip();
	}
}

static void threads_of_a_scheduler_in_bpf_come_last(void **state)
{
	(void)state;
	other_is_ext = true;
	run_as("equal", NULL, LOWER);
	other_is_ext = false;
	all_are_ext = true;
	run_as("equal", NULL, NULL);
	all_are_ext = false;
}

static void threads_that_are_not_all_known_are_refused(void **state)
{
	(void)state;
	unread.tasks = -EACCES;
	run_as("equal", APART, APART);
	run_as("equal and low", LOWER, LOWER);
	unread.tasks = 0;
	unread.is_list_full = true;
	run_as("equal", APART, APART);
	run_as("equal and low", LOWER, LOWER);
	unread.is_list_full = false;
}

static void groups_that_cannot_be_read_are_refused(void **state)
{
	(void)state;
	unread.groups = -EACCES;
	run_as("equal", APART, APART);
	unread.groups = -ENOENT; /* the groups of an existing thread */
	run_as("equal", APART, APART);
	/* The kernel has no control groups. */
	unread.of_all = true;
	run_as("equal", NULL, NULL);
	unread.of_all = false;
	unread.groups = 0;
}

static void a_thread_that_ends_meanwhile_is_left_out(void **state)
{
	(void)state;
	unread.ended = INT32_MAX;
	run_as("equal", NULL, NULL);
	unread.ended = 0;
}

static bool drop_scheduling(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &head, data))
		return false;
	data[0].effective &= ~(1U << CAP_SYS_NICE);
	return syscall(SYS_capset, &head, data) == 0;
}

/* Without CAP_SYS_NICE the kernel shows no timer slack of another thread. */
static void late_timers_that_cannot_be_read_are_accepted(void **state)
{
	pid_t asking = fork();
	int status;

	(void)state;
	if (asking == 0) {
		if (!drop_scheduling())
			_exit(1);
		run_as("rather late timers", NULL, NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(asking, &status, 0), asking);
	assert_int_equal(status, 0);
}

static void a_thread_that_has_ended_is_refused(void **state)
{
	struct target target;
	pid_t child, gone;

	(void)state;
	current = &rows[0];
	child = child_start(be_child);
	gone = child_start(be_child);
	target_open(child, &target);
	child_end(gone);
	compare(&target, gone, "cannot be read");
	target_close(&target);
	child_end(child);
}

static int open_page(void **state)
{
	(void)state;
	page = child_share(sizeof(*page));
	return !page;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(priorities_are_compared),
		cmocka_unit_test(threads_in_different_groups_are_refused),
		cmocka_unit_test(a_late_thread_is_compared_with_all),
		cmocka_unit_test(a_thread_that_moves_later_is_compared_as_well),
		cmocka_unit_test(real_time_threads_with_a_budget_are_refused),
		cmocka_unit_test(threads_of_a_scheduler_in_bpf_come_last),
		cmocka_unit_test(threads_that_are_not_all_known_are_refused),
		cmocka_unit_test(groups_that_cannot_be_read_are_refused),
		cmocka_unit_test(a_thread_that_ends_meanwhile_is_left_out),
		cmocka_unit_test(late_timers_that_cannot_be_read_are_accepted),
		cmocka_unit_test(a_thread_that_has_ended_is_refused),
	};

	return cmocka_run_group_tests_name("task_scheduling", tests, open_page, NULL);
}
