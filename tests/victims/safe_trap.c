/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safe_trap: a signal handler that caught its thread inside the allocator and then blocks in
 * read(). From outside the thread looks idle, but a call into the allocator on it would find a lock
 * that is held, or a half-changed heap. A byte on standard input lets the handler return.
 *	-a	the handler has its own stack	-t N	threads beside, which wait
 */
#include "safe_common.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define ALT_STACK_BYTES 65536

static volatile sig_atomic_t inside;
static volatile sig_atomic_t caught;
static uintptr_t allocator_low;
static uintptr_t allocator_high;

/* Finds the mapping that holds the malloc that this program calls. */
static void find_allocator(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uintptr_t address = (uintptr_t)malloc;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		char *end;
		uintptr_t low = strtoul(line, &end, 16);
		uintptr_t high = *end == '-' ? strtoul(end + 1, NULL, 16) : 0;

		if (address >= low && address < high) {
			allocator_low = low;
			allocator_high = high;
		}
	}
	if (maps)
		fclose(maps);
	if (!allocator_low)
		victim_die("no mapping holds malloc");
}

static uintptr_t place_of(const ucontext_t *at)
{
#ifdef __aarch64__
	return at->uc_mcontext.pc;
#else
	return (uintptr_t)at->uc_mcontext.gregs[REG_RIP];
#endif
}

static void block_inside(int number, siginfo_t *info, void *context)
{
	const uintptr_t pc = place_of(context);
	char byte;

	(void)number;
	(void)info;
	if (!inside || caught || pc < allocator_low || pc >= allocator_high)
		return;
	caught = 1;
	victim_ready();
	while (read(STDIN_FILENO, &byte, 1) < 0)
		victim_fail("the read in the handler gave errno %d", errno);
}

static void set_up_handler(bool own_stack)
{
	struct sigaction action = {.sa_sigaction = block_inside, .sa_flags = SA_SIGINFO};

	if (own_stack) {
		stack_t stack = {.ss_sp = malloc(ALT_STACK_BYTES), .ss_size = ALT_STACK_BYTES};

		if (!stack.ss_sp || sigaltstack(&stack, NULL) != 0)
			victim_die("sigaltstack");
		action.sa_flags |= SA_ONSTACK;
	}
	if (sigaction(SIGALRM, &action, NULL) != 0)
		victim_die("sigaction");
}

int main(int argc, char **argv)
{
	struct churn churn = {.random = 815};
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
	find_allocator();
	heap_spread();
	idle_threads_start(threads);
	set_up_handler(own_stack);
	signals_start();
	for (;;) {
		inside = 1;
		/*
		 * The block is larger than any per-thread cache, so that the allocator's locks are
		 * taken.
		 */
		void *large = malloc(random_next(&churn.random) % 30000 + 2000);

		free(large);
		inside = 0;
		churn_run(&churn, 1);
		if (!caught)
			continue;
		heap_check();
		victim_round();
	}
}
