/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/priority.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>

#include "base/clock.h"

#define SPIN_US 2000U
#define HIGHEST (-20)

/* PRIO_PROCESS with 0 is the calling thread alone (setpriority(2), "C library"). */
struct flmem_priority flmem_priority_raise(void)
{
	struct flmem_priority priority = {.slack_ns = flmem_clock_sharpen()};

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
	flmem_cleanup_timer_slack(&priority->slack_ns);
	*priority = (struct flmem_priority){0};
}

void flmem_priority_pause(uint64_t spent_us, uint64_t sleep_us)
{
	if (spent_us < SPIN_US)
		sched_yield();
	else
		flmem_clock_sleep_us(sleep_us);
}
