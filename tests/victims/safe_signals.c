/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safe_signals: a handler that runs 1,000 times a second on a thread that waits and allocates.
 *	-a	the handler has its own stack	-t N	threads beside, which wait
 */
#include "safe_common.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define WAIT_NS		20000000L
#define ALT_STACK_BYTES 65536

static _Atomic uint64_t handled;
static unsigned char *alt_stack;

static void count_signal(int number)
{
	unsigned char here;
	uintptr_t at = (uintptr_t)&here;
	uintptr_t low = (uintptr_t)alt_stack;

	(void)number;
	if (alt_stack && (at < low || at >= low + ALT_STACK_BYTES))
		victim_fail("the handler ran on another stack than its own");
	atomic_fetch_add(&handled, 1);
}

static void set_up_handler(bool own_stack)
{
	struct sigaction action = {.sa_handler = count_signal};

	if (own_stack) {
		alt_stack = malloc(ALT_STACK_BYTES);

		stack_t stack = {.ss_sp = alt_stack, .ss_size = ALT_STACK_BYTES};

		if (!alt_stack || sigaltstack(&stack, NULL) != 0)
			victim_die("sigaltstack");
		action.sa_flags = SA_ONSTACK;
	}
	if (sigaction(SIGALRM, &action, NULL) != 0)
		victim_die("sigaction");
}

static void check_mask(void)
{
	sigset_t mask;

	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	for (int number = 1; number < 32; number++)
		if (sigismember(&mask, number))
			victim_fail("signal %d became blocked", number);
}

/* Waits once; an interruption is correct only if the handler has run. */
static void wait_once(void)
{
	struct timespec nap = {.tv_nsec = WAIT_NS};
	uint64_t before = atomic_load(&handled);

	if (nanosleep(&nap, NULL) != 0 && atomic_load(&handled) == before)
		victim_interrupted();
}

int main(int argc, char **argv)
{
	struct churn churn = {.random = 4711};
	bool own_stack = false;
	long threads = 0;
	int option;

	while ((option = getopt(argc, argv, "at:")) != -1) {
		if (option == 'a')
			own_stack = true;
		else if (option == 't')
			threads = argument_number(optarg, 1, 32);
		else
			return 2;
	}
	victim_open();
	heap_spread();
	idle_threads_start(threads);
	set_up_handler(own_stack);
	signals_start();
	victim_ready();
	for (;;) {
		wait_once();
		churn_run(&churn, 20);
		check_mask();
		heap_check();
		if (atomic_load(&handled) > 0)
			victim_round();
	}
}
