/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/hold.h"

#include <pthread.h>
#include <stdatomic.h>

#define LIMIT_S 3

static atomic_bool expendable;

void flmem_hold_expend_process(bool is_expendable)
{
	atomic_store(&expendable, is_expendable);
}

struct flmem_hold flmem_hold_begin(void)
{
	struct sigevent end = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
	const struct itimerspec limit = {.it_value = {.tv_sec = LIMIT_S}};
	struct flmem_hold hold = {0};
	sigset_t all;

	sigfillset(&all);
	sigemptyset(&hold.before);
	pthread_sigmask(SIG_SETMASK, &all, &hold.before);
	if (atomic_load(&expendable) && timer_create(CLOCK_MONOTONIC, &end, &hold.timer) == 0) {
		hold.limited = true;
		timer_settime(hold.timer, 0, &limit, NULL);
	}
	return hold;
}

void flmem_hold_end(struct flmem_hold *hold)
{
	if (hold->limited)
		timer_delete(hold->timer);
	pthread_sigmask(SIG_SETMASK, &hold->before, NULL);
}
