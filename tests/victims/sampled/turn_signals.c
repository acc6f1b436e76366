/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals of a thread that creates the file of its profile: it sends itself one where the sampler
 * asks for the largest size of files. Ends with 0 if that waited until malloc() had returned, its
 * signal mask is as before, and no signal was blocked that would have ended the program instead.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK ((size_t)4 << 20) /* a thread requests a profile after a MiB */

enum fault {
	NONE,
	NOT_ASKED = 3,
	INTERRUPTED,
	FAULTS_BLOCKED,
	LOST,
	MASK_CHANGED
};

static const int faults[] = {SIGSYS, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
static volatile sig_atomic_t handled;
static enum fault found = NOT_ASKED;
static int is_child;
static void *volatile sink;

static void handle(int number)
{
	(void)number;
	handled++;
}

static enum fault check_turn(void)
{
	sigset_t mask;

	/* A signal that is not blocked is handled before this returns. */
	raise(SIGUSR1);
	if (handled)
		return INTERRUPTED;
	sigprocmask(SIG_BLOCK, NULL, &mask);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (sigismember(&mask, faults[i]))
			return FAULTS_BLOCKED;
	return NONE;
}

/* Replaces the C library's function, also for the sampler. */
__attribute__((visibility("default"))) int getrlimit(__rlimit_resource_t resource,
						     struct rlimit *limits)
{
	if (is_child && found == NOT_ASKED)
		found = check_turn();
	return (int)syscall(SYS_prlimit64, 0, (int)resource, NULL, limits);
}

static enum fault run_child(void)
{
	sigset_t before, after;

	is_child = 1;
	sigprocmask(SIG_BLOCK, NULL, &before);
	sink = malloc(BLOCK);
	sigprocmask(SIG_BLOCK, NULL, &after);
	if (found != NONE)
		return found;
	if (handled != 1)
		return LOST;
	for (int i = 1; i <= SIGRTMAX; i++)
		if (sigismember(&before, i) != sigismember(&after, i))
			return MASK_CHANGED;
	return NONE;
}

int main(void)
{
	struct sigaction action = {.sa_handler = handle};
	int status;
	pid_t child;

	sink = malloc(1);
	sigaction(SIGUSR1, &action, NULL);
	child = fork();
	if (child == 0)
		exit((int)run_child());
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return 2;
	return WEXITSTATUS(status);
}
