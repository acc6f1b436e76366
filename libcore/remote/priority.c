/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/priority.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "proc/host_facts.h"
#include "proc/limits/cpu_quota.h"
#include "proc/task.h"

#define SPIN_US	  2000U
#define HIGHEST	  (-20)
#define YIELDS_US 40U /* idle machine; on a busy one it yields once */
#define NAP_US	  5U

/*
 * Time for which this thread yields between two sleeps, and the wait time at which it last slept.
 */
static _Thread_local unsigned yields_us;
static _Thread_local uint64_t napped_us;
static _Thread_local bool has_yielded;

/*
 * Moves to the processor that the thread last ran on, if this process may use it, without staying
 * bound to it: a real-time thread may occupy it.
 */
static void move_to_processor_of(const struct flmem_process *process, pid_t tid)
{
	cpu_set_t processors, one;
	int processor = flmem_task_processor(process, tid);

	if (processor < 0 || processor >= CPU_SETSIZE ||
	    sched_getaffinity(0, sizeof(processors), &processors))
		return;
	CPU_ZERO(&one);
	CPU_SET((size_t)processor, &one);
	if (CPU_ISSET((size_t)processor, &processors) && CPU_COUNT(&processors) > 1 &&
	    sched_setaffinity(0, sizeof(one), &one) == 0)
		sched_setaffinity(0, sizeof(processors), &processors);
}

/*
 * Returns true if the thread could lose its processor for long in its class, whatever its nice
 * value: in SCHED_IDLE to each thread that wakes up, and in those of real-time threads when the
 * budget of its control group is used up (cpu.rt_runtime_us).
 */
static bool has_unsure_class(int policy)
{
	if (policy == SCHED_FIFO || policy == SCHED_RR)
		return flmem_cpu_quota_limits_own_real_time();
	return policy == SCHED_IDLE;
}

static void choose_usual_class(struct flmem_priority *priority)
{
	const struct sched_param usual = {0};
	int own, kept;

	priority->policy = sched_getscheduler(0);
	kept = priority->policy & SCHED_RESET_ON_FORK;
	own = priority->policy & ~SCHED_RESET_ON_FORK;
	if (priority->policy < 0 || sched_getparam(0, &priority->parameters) ||
	    !has_unsure_class(own))
		return;
	priority->changed_class = sched_setscheduler(0, SCHED_OTHER | kept, &usual) == 0;
	priority->is_last = own == SCHED_IDLE && !priority->changed_class;
}

/* PRIO_PROCESS with 0 is the calling thread alone (setpriority(2), "C library"). */
struct flmem_priority flmem_priority_raise(const struct flmem_process *process, pid_t tid)
{
	struct flmem_priority priority = {.slack_ns = flmem_clock_minimise_slack()};

	yields_us = flmem_host_is_busy() ? 0 : YIELDS_US;
	has_yielded = false;
	move_to_processor_of(process, tid);
	choose_usual_class(&priority);
	errno = 0;
	priority.nice = getpriority(PRIO_PROCESS, 0);
	if (!errno && priority.nice > HIGHEST)
		priority.raised = setpriority(PRIO_PROCESS, 0, HIGHEST) == 0;
	return priority;
}

void flmem_priority_restore(struct flmem_priority *priority)
{
	if (priority->raised)
		setpriority(PRIO_PROCESS, 0, priority->nice);
	if (priority->changed_class)
		sched_setscheduler(0, priority->policy, &priority->parameters);
	flmem_cleanup_timer_slack(&priority->slack_ns);
	*priority = (struct flmem_priority){0};
}

static bool may_yield(uint64_t spent_us)
{
	if (spent_us < napped_us)
		napped_us = 0; /* a new wait has begun */
	return spent_us < SPIN_US && (!has_yielded || spent_us - napped_us < yields_us);
}

void flmem_priority_pause(uint64_t spent_us, uint64_t sleep_us)
{
	has_yielded = may_yield(spent_us);
	if (has_yielded) {
		sched_yield();
		return;
	}
	napped_us = spent_us;
	flmem_clock_sleep_us(spent_us < SPIN_US ? NAP_US : sleep_us);
}
