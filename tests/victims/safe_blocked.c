/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safe_blocked CASE [tiles]: one thread that waits in one kind of system call, over and over, and
 * checks after each that nothing happened to it meanwhile. With `tiles` it also holds data in AMX
 * registers (status 77: there are none). `safe_blocked list KIND` prints the cases of a kind.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "safe_cases.h"
#include "safe_common.h"

#define WAKE_EVERY_US	30000
#define ERRNO_KEPT	1234
#define ALT_STACK_BYTES 65536

static struct site *site;
static stack_t alt_stack;
static sigset_t mask;

static const struct wait_case *find_case(const char *name)
{
	for (const struct wait_table *table = wait_tables; table->kind; table++)
		for (const struct wait_case *wait = table->rows; wait->name; wait++)
			if (strcmp(wait->name, name) == 0)
				return wait;
	errno = EINVAL;
	victim_die(name);
}

static void count_signal(int number)
{
	(void)number;
	atomic_fetch_add(&site->handled, 1);
}

static void (*close_case)(struct site *site);

/* Also ends a helper that waits in a call which nobody ends any more. */
static void end_helper(int number)
{
	(void)number;
	if (close_case)
		close_case(site);
	_exit(0);
}

/* Ends the victim's waits while the victim lives, then removes objects that would outlive it. */
static void start_helper(const struct wait_case *wait)
{
	if (!wait->wake && !wait->close)
		return;

	const char *slower = getenv("WAKE_EVERY_US"); /* for systems in which flmem is slow, too */
	const useconds_t every_us =
		slower ? (useconds_t)argument_number(slower, 1, 10000000) : WAKE_EVERY_US;

	close_case = wait->close;
	pid_t helper = fork();

	if (helper < 0)
		victim_die("fork");
	if (helper > 0)
		return;
	signal(SIGTERM,
	       SIG_IGN); /* a signal to the whole group would leave System V objects behind */
	signal(SIGRTMIN, end_helper);
	prctl(PR_SET_PDEATHSIG, SIGRTMIN);
	while (getppid() == site->victim) {
		usleep(every_us);
		if (wait->wake)
			wait->wake(site);
	}
	end_helper(0);
}

static void set_up_signals(const struct wait_case *wait)
{
	struct sigaction action = {.sa_handler = count_signal};

	alt_stack = (stack_t){.ss_sp = malloc(ALT_STACK_BYTES), .ss_size = ALT_STACK_BYTES};
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	if (strcmp(wait->name, "sigsuspend") == 0)
		sigaddset(&mask, SIGUSR1);
	if (!alt_stack.ss_sp || sigaltstack(&alt_stack, NULL) != 0 ||
	    sigaction(SIGUSR1, &action, NULL) != 0 || sigprocmask(SIG_SETMASK, &mask, NULL) != 0)
		victim_die("signals");
}

static void check_thread(void)
{
	stack_t stack_now;
	sigset_t mask_now;

	if (errno != ERRNO_KEPT)
		victim_fail("errno became %d", errno);
	sigaltstack(NULL, &stack_now);
	if (stack_now.ss_sp != alt_stack.ss_sp || stack_now.ss_size != alt_stack.ss_size ||
	    stack_now.ss_flags != 0)
		victim_fail("the alternate signal stack changed");
	sigemptyset(&mask_now);
	sigprocmask(SIG_BLOCK, NULL, &mask_now);
	for (int number = 1; number < 32; number++)
		if (sigismember(&mask_now, number) != sigismember(&mask, number))
			victim_fail("signal %d changed in the signal mask", number);
}

/*
 * Returns the time in the kernel's ticks, which count the timeout of a socket. Where ticks come
 * late, as in an emulated system, it ends before the time that the clock shows.
 */
static int64_t ticks_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void wait_once(const struct wait_case *wait, struct probe *probe, uint32_t seed)
{
	/* Deadlines are measured from these times. */
	int64_t before = clock_ms(), ticks_before = ticks_ms();

	wait->arm(site, probe);
	errno = ERRNO_KEPT;

	int64_t result = probe_call(probe, seed);
	int64_t took = clock_ms() - before, ticked = ticks_ms() - ticks_before;
	bool early = false;

	check_thread();
	if (wait->right(site, result))
		early = wait->timed && took < CASE_LIMIT_MS && ticked < CASE_LIMIT_MS;
	else if (result == -EINTR)
		victim_interrupted();
	else
		victim_fail("%s gave %lld", wait->name, (long long)result);
	if (early)
		victim_fail("%s ended after %lld of %d ms", wait->name, (long long)took,
			    CASE_LIMIT_MS);
}

static int list_cases(const char *kind)
{
	for (const struct wait_table *table = wait_tables; table->kind; table++)
		for (const struct wait_case *wait = table->rows; wait->name; wait++)
			if (strcmp(table->kind, kind) == 0)
				puts(wait->name);
	return 0;
}

int main(int argc, char **argv)
{
	struct probe probe;
	uint32_t seed = 1;

	if (argc == 3 && strcmp(argv[1], "list") == 0)
		return list_cases(argv[2]);

	const struct wait_case *wait = find_case(argc > 1 ? argv[1] : "");

	probe_init(&probe);
	if (argc > 2 && !probe_use_tiles(&probe))
		return 77;
	victim_open();
	site = mmap(NULL, sizeof(*site), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (site == MAP_FAILED)
		victim_die("mmap");
	site->victim = getpid();
	heap_spread();
	wait->open(site);
	set_up_signals(wait);
	start_helper(wait);
	victim_ready();
	for (;;) {
		wait_once(wait, &probe, random_next(&seed));
		heap_check();
		victim_round();
	}
}
