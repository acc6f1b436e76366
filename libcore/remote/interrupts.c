/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/interrupts.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/attempt.h"

#define LIMIT_S 3

static atomic_bool limited;
static _Thread_local bool lacks_limit;
/*
 * Timer that this thread keeps between two holds: before the second one the user's limit of pending
 * signals may have been reached.
 */
static _Thread_local timer_t interrupts_kept;
static _Thread_local bool is_kept;
static _Thread_local timer_t held; /* timer of the current hold */
static _Thread_local bool is_limited;
static const struct itimerspec limit = {.it_value = {.tv_sec = LIMIT_S}};

void flmem_interrupts_limit_hold(bool is_expendable)
{
	atomic_store(&limited, is_expendable);
}

static bool make_timer(timer_t *ret_timer)
{
	struct sigevent end = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};

	if (!is_kept)
		return timer_create(CLOCK_MONOTONIC, &end, ret_timer) == 0;
	*ret_timer = interrupts_kept;
	is_kept = false;
	return true;
}

static void keep_timer(timer_t timer)
{
	const struct itimerspec never = {0};

	if (is_kept) {
		timer_delete(timer);
		return;
	}
	timer_settime(timer, 0, &never, NULL);
	interrupts_kept = timer;
	is_kept = true;
}

void flmem_interrupts_end(void)
{
	if (is_kept)
		timer_delete(interrupts_kept);
	is_kept = false;
}

struct flmem_interrupts flmem_interrupts_defer(void)
{
	struct flmem_interrupts interrupts = {0};
	sigset_t all;

	sigfillset(&all);
	sigemptyset(&interrupts.before);
	pthread_sigmask(SIG_SETMASK, &all, &interrupts.before);
	lacks_limit = atomic_load(&limited);
	if (lacks_limit && make_timer(&interrupts.timer)) {
		lacks_limit = false;
		interrupts.limited = is_limited = true;
		held = interrupts.timer;
		timer_settime(interrupts.timer, 0, &limit, NULL);
		flmem_attempt_set_limit(&interrupts.timer, &limit);
	}
	return interrupts;
}

void flmem_interrupts_renew(void)
{
	if (is_limited)
		timer_settime(held, 0, &limit, NULL);
}

bool flmem_interrupts_may_hold(void)
{
	return !lacks_limit;
}

void flmem_interrupts_restore(struct flmem_interrupts *interrupts)
{
	if (interrupts->limited) {
		flmem_attempt_set_limit(NULL, NULL);
		is_limited = false;
		keep_timer(interrupts->timer);
	}
	lacks_limit = false;
	pthread_sigmask(SIG_SETMASK, &interrupts->before, NULL);
}
