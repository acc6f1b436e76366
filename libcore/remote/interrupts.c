/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/interrupts.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/attempt.h"

#define LIMIT_S 3

static atomic_bool limited;
static _Thread_local bool lacks_limit;

void flmem_interrupts_limit_hold(bool is_expendable)
{
	atomic_store(&limited, is_expendable);
}

struct flmem_interrupts flmem_interrupts_defer(void)
{
	struct sigevent end = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
	const struct itimerspec limit = {.it_value = {.tv_sec = LIMIT_S}};
	struct flmem_interrupts interrupts = {0};
	sigset_t all;

	sigfillset(&all);
	sigemptyset(&interrupts.before);
	pthread_sigmask(SIG_SETMASK, &all, &interrupts.before);
	lacks_limit = atomic_load(&limited);
	if (lacks_limit && timer_create(CLOCK_MONOTONIC, &end, &interrupts.timer) == 0) {
		lacks_limit = false;
		interrupts.limited = true;
		timer_settime(interrupts.timer, 0, &limit, NULL);
		flmem_attempt_set_limit(&interrupts.timer, &limit);
	}
	return interrupts;
}

bool flmem_interrupts_may_hold(void)
{
	return !lacks_limit;
}

void flmem_interrupts_restore(struct flmem_interrupts *interrupts)
{
	if (interrupts->limited) {
		flmem_attempt_set_limit(NULL, NULL);
		timer_delete(interrupts->timer);
	}
	lacks_limit = false;
	pthread_sigmask(SIG_SETMASK, &interrupts->before, NULL);
}
