/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safe_fork: forks all the time; parent and child check their blocks.
 *	-v	vfork instead: the parent waits inside the call while the child sleeps
 *	-t N	threads beside, which churn; so fork finds allocator locks in use
 */
#include "safe_common.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_MS	  20
#define CHILD_STACK_BYTES 65536

static void *churn_for_ever(void *unused)
{
	struct churn churn = {.random = (uint32_t)syscall(SYS_gettid)};

	(void)unused;
	thread_started();
	for (;;) {
		churn_run(&churn, 200);
		usleep(1000);
	}
	return NULL;
}

/* The child may allocate: the C library makes its heap usable again inside fork(). */
static _Noreturn void be_child(struct churn *churn)
{
	churn_run(churn, 50);
	heap_check();
	_exit(0);
}

static pid_t fork_child(struct churn *churn)
{
	pid_t child = fork();

	if (child == 0)
		be_child(churn);
	return child;
}

static int nap_in_child(void *unused)
{
	(void)unused;
	usleep(CHILD_MS * 1000);
	return 0;
}

/* Creates a child as posix_spawn() does: it shares the memory, and the parent waits for its end. */
static pid_t vfork_child(void)
{
	static _Alignas(16) char stack[CHILD_STACK_BYTES];

	return clone(nap_in_child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
}

static void reap(pid_t child)
{
	int status = 0;

	if (child < 0)
		victim_die("fork");
	if (waitpid(child, &status, 0) != child)
		victim_fail("waitpid failed with errno %d", errno);
	else if (status != 0)
		victim_fail("a child ended with status 0x%x", (unsigned)status);
}

int main(int argc, char **argv)
{
	struct churn churn = {.random = 31337};
	bool use_vfork = false;
	long threads = 0;
	int option;

	while ((option = getopt(argc, argv, "vt:")) != -1) {
		if (option == 'v')
			use_vfork = true;
		else if (option == 't')
			threads = argument_number(optarg, 1, 32);
		else
			return 2;
	}
	victim_open();
	heap_spread();
	threads_start(threads, churn_for_ever, NULL);
	victim_ready();
	for (;;) {
		reap(use_vfork ? vfork_child() : fork_child(&churn));
		churn_run(&churn, 50);
		heap_check();
		victim_round();
	}
}
