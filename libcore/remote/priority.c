/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/priority.h"

#include "base/clock.h"

#define SPIN_US	    2000U
#define SHORTEST_US 5U

struct flmem_priority flmem_priority_raise(void)
{
	struct flmem_priority priority = {.policy = sched_getscheduler(0)};
	struct sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};
	int kept = priority.policy & SCHED_RESET_ON_FORK;
	int usual = priority.policy & ~SCHED_RESET_ON_FORK;

	priority.slack_ns = flmem_clock_sharpen();
	/* What is real-time or has a deadline already knows what it does. */
	if ((usual == SCHED_OTHER || usual == SCHED_BATCH || usual == SCHED_IDLE) &&
	    sched_getparam(0, &priority.param) == 0)
		priority.raised = sched_setscheduler(0, SCHED_FIFO | kept, &lowest) == 0;
	return priority;
}

void flmem_priority_restore(struct flmem_priority *priority)
{
	if (priority->raised)
		sched_setscheduler(0, priority->policy, &priority->param);
	flmem_cleanup_timer_slack(&priority->slack_ns);
	*priority = (struct flmem_priority){0};
}

void flmem_priority_pause(const struct flmem_priority *priority, uint64_t spent_us,
			  uint64_t longest_us)
{
	uint64_t pause_us = spent_us / 8U > SHORTEST_US ? spent_us / 8U : SHORTEST_US;

	if (!priority->raised && spent_us < SPIN_US)
		sched_yield();
	else
		flmem_clock_sleep_us(pause_us < longest_us ? pause_us : longest_us);
}
