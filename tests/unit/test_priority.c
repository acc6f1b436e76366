/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "proc/process.h"
#include "proc/task.h"
#include "remote/priority.h"

#define NICE	 5
#define SLACK_NS 70000UL
#define TRIES	 20

struct scheduling {
	cpu_set_t processors;
	int nice;
	int slack_ns;
};

#define REAL_TIME 3 /* a priority */

/* The class that this thread seems to have, and whether it may leave it. */
static int policy, real_time;
static bool may_not_leave, has_budget;

bool __wrap_flmem_cpu_quota_limits_own_real_time(void);
bool __wrap_flmem_cpu_quota_limits_own_real_time(void)
{
	return has_budget;
}

int __wrap_sched_getscheduler(pid_t pid);
int __wrap_sched_getscheduler(pid_t pid)
{
	(void)pid;
	return policy;
}

int __wrap_sched_setscheduler(pid_t pid, int chosen, const struct sched_param *param);
int __wrap_sched_setscheduler(pid_t pid, int chosen, const struct sched_param *param)
{
	assert_int_equal(pid, 0);
	errno = EPERM;
	if (may_not_leave)
		return -1;
	policy = chosen;
	real_time = param->sched_priority;
	return 0;
}

int __wrap_sched_getparam(pid_t pid, struct sched_param *param);
int __wrap_sched_getparam(pid_t pid, struct sched_param *param)
{
	(void)pid;
	param->sched_priority = real_time;
	return 0;
}

static void read_own(struct scheduling *own)
{
	assert_int_equal(sched_getaffinity(0, sizeof(own->processors), &own->processors), 0);
	errno = 0;
	own->nice = getpriority(PRIO_PROCESS, 0);
	assert_int_equal(errno, 0);
	own->slack_ns = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
}

static int first_processor(const cpu_set_t *set)
{
	int number = 0;

	while (!CPU_ISSET((size_t)number, set))
		number++;
	return number;
}

/* Starts a child that runs on that processor alone, and waits. */
static pid_t start_on(int processor)
{
	int ready[2];
	char byte = 0;
	pid_t child;

	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (!child) {
		cpu_set_t one;

		CPU_ZERO(&one);
		CPU_SET((size_t)processor, &one);
		if (sched_setaffinity(0, sizeof(one), &one) || write(ready[1], &byte, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_true(child > 0);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return child;
}

/* Moves this process to another processor if there is one, then allows all again. */
static void leave_processor(int processor, const cpu_set_t *allowed)
{
	cpu_set_t others = *allowed;

	CPU_CLR((size_t)processor, &others);
	if (CPU_COUNT(&others))
		assert_int_equal(sched_setaffinity(0, sizeof(others), &others), 0);
	assert_int_equal(sched_setaffinity(0, sizeof(*allowed), allowed), 0);
}

static void the_processor_of_the_thread_is_shared_with_it(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	struct scheduling before, during, after;
	struct flmem_priority priority;
	pid_t child;
	int processor, shared = 0;

	(void)state;
	read_own(&before);
	processor = first_processor(&before.processors);
	child = start_on(processor);
	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	assert_int_equal(flmem_task_processor(&process, child), processor);
	/*
	 * The child may leave its processor, so that a busy machine may move it at once, now and
	 * then.
	 */
	for (int i = 0; i < TRIES; i++) {
		leave_processor(processor, &before.processors);
		priority = flmem_priority_raise(&process, child);
		shared += sched_getcpu() == processor;
		read_own(&during);
		flmem_priority_restore(&priority);
	}
	read_own(&after);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_true(shared > TRIES / 2);
	assert_true(CPU_EQUAL(&during.processors, &before.processors));
	assert_int_equal(during.slack_ns, 1);
	assert_true(CPU_EQUAL(&before.processors, &after.processors));
	assert_int_equal(after.nice, before.nice);
	assert_int_equal(after.slack_ns, before.slack_ns);
	if (geteuid() == 0)
		assert_int_equal(during.nice, -20);
}

static void a_processor_that_is_not_allowed_is_left_alone(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	struct scheduling before, during;
	struct flmem_priority priority;
	cpu_set_t others;
	pid_t child;
	int processor;

	(void)state;
	read_own(&before);
	if (CPU_COUNT(&before.processors) < 2)
		skip();
	processor = first_processor(&before.processors);
	child = start_on(processor);
	others = before.processors;
	CPU_CLR((size_t)processor, &others);
	assert_int_equal(sched_setaffinity(0, sizeof(others), &others), 0);
	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	priority = flmem_priority_raise(&process, child);
	read_own(&during);
	flmem_priority_restore(&priority);
	sched_setaffinity(0, sizeof(before.processors), &before.processors);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_true(CPU_EQUAL(&during.processors, &others));
}

static void nothing_is_restored_twice(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	struct flmem_priority priority;

	(void)state;
	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	priority = flmem_priority_raise(&process, getpid());
	flmem_priority_restore(&priority);
	assert_int_equal(prctl(PR_SET_TIMERSLACK, SLACK_NS + 1), 0);
	flmem_priority_restore(&priority);
	assert_int_equal(getpriority(PRIO_PROCESS, 0), NICE);
	assert_int_equal(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), SLACK_NS + 1);
}

/* Returns the policy while another thread would be held. */
static int raise_from(int own, bool *ret_last)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	struct flmem_priority priority;
	int meanwhile;

	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	policy = own;
	priority = flmem_priority_raise(&process, getpid());
	meanwhile = policy;
	*ret_last = priority.is_last;
	flmem_priority_restore(&priority);
	assert_int_equal(policy, own);
	return meanwhile;
}

static void a_class_that_runs_last_is_left_meanwhile(void **state)
{
	const int kept = SCHED_RESET_ON_FORK;
	bool is_last;

	(void)state;
	assert_int_equal(raise_from(SCHED_IDLE, &is_last), SCHED_OTHER);
	assert_false(is_last);
	assert_int_equal(raise_from(SCHED_IDLE | kept, &is_last), SCHED_OTHER | kept);
	assert_int_equal(raise_from(SCHED_BATCH, &is_last), SCHED_BATCH);
	may_not_leave = true;
	assert_int_equal(raise_from(SCHED_IDLE, &is_last), SCHED_IDLE);
	assert_true(is_last);
	may_not_leave = false;
	policy = SCHED_OTHER;
}

static void a_class_with_a_budget_is_left_meanwhile(void **state)
{
	bool is_last;

	(void)state;
	real_time = REAL_TIME;
	assert_int_equal(raise_from(SCHED_FIFO, &is_last), SCHED_FIFO);
	has_budget = true;
	assert_int_equal(raise_from(SCHED_FIFO, &is_last), SCHED_OTHER);
	assert_int_equal(real_time, REAL_TIME);
	assert_int_equal(raise_from(SCHED_RR, &is_last), SCHED_OTHER);
	may_not_leave = true;
	assert_int_equal(raise_from(SCHED_RR, &is_last), SCHED_RR);
	assert_false(is_last);
	may_not_leave = has_budget = false;
	policy = SCHED_OTHER;
	real_time = 0;
}

/* Sets other values than those of a new process, so that a restored value shows. */
static int begin(void **state)
{
	(void)state;
	return setpriority(PRIO_PROCESS, 0, NICE) || prctl(PR_SET_TIMERSLACK, SLACK_NS) ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_processor_of_the_thread_is_shared_with_it),
		cmocka_unit_test(a_processor_that_is_not_allowed_is_left_alone),
		cmocka_unit_test(nothing_is_restored_twice),
		cmocka_unit_test(a_class_that_runs_last_is_left_meanwhile),
		cmocka_unit_test(a_class_with_a_budget_is_left_meanwhile),
	};

	return cmocka_run_group_tests_name("priority", tests, begin, NULL);
}
