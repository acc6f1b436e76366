/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

/*
 * fork() in the handler of a signal that interrupts a sample: forked_inside gettid|openat. A filter
 * sends the signal at a system call that the sampler makes. The child allocates in the handler, and
 * returns from it into the sample. Ends with 0 if all children did.
 *
 *	gettid	of the first sample of a thread: parent and child go on after each other
 *	openat	of the timeline: the child goes on when its parent has taken more moments
 */

#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "unseen_filter.h"

#define MOMENTS	      8
#define INSIDE_OFFSET 20 /* offset of the count in flmem_sampler_state */

static int trapped, is_child, traps, gate[2];
static long answer;
static pid_t child;
static void *volatile sink;

static void wait_for(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child || status)
		_exit(3);
}

static void allocate(size_t size)
{
	for (int i = 0; i < 3; i++)
		sink = malloc(size);
}

/* Returns how many calls are inside the sampler. */
static uint32_t read_inside(void)
{
	const char *state = dlsym(RTLD_DEFAULT, "flmem_sampler_state");
	uint32_t inside = 0;

	if (state)
		memcpy(&inside, state + INSIDE_OFFSET, sizeof(inside));
	return inside;
}

/* The interrupted call is inside the sampler. */
static void run_in_child(void)
{
	char byte;

	is_child = 1;
	if (read_inside() != 1)
		_exit(4);
	if (trapped == SYS_openat) {
		close(gate[1]);
		if (read(gate[0], &byte, 1) != 0)
			_exit(3);
	} else {
		allocate(5000);
	}
}

static void fork_inside(int signal, siginfo_t *info, void *context)
{
	ucontext_t *interrupted = context;
	(void)signal;
	(void)info;
	traps++;
	if (!is_child && (trapped == SYS_gettid || traps == 1)) {
		child = fork();
		if (child == 0)
			run_in_child();
		else if (trapped == SYS_gettid)
			wait_for(child);
	}
#ifdef __x86_64__
	interrupted->uc_mcontext.gregs[REG_RAX] = answer;
#else
	interrupted->uc_mcontext.regs[0] = (unsigned long long)answer;
#endif
}

static void trap(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)trapped, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) != 0 || set_filter_unseen(&program) != 0)
		_exit(3);
}

/* After the return from the handler no call is inside the sampler. */
static void end_child(void)
{
	allocate(6000);
	exit(read_inside() ? 5 : 0);
}

static void *run(void *context)
{
	answer = trapped == SYS_gettid ? syscall(SYS_gettid) : -ENOENT;
	trap();
	do {
		sink = malloc(4000);
		if (is_child)
			end_child();
		usleep(1000);
	} while (trapped == SYS_openat && traps < MOMENTS);
	/* Do this outside of a sample, whose own moment would cover what the child has done. */
	if (trapped == SYS_openat) {
		close(gate[1]);
		wait_for(child);
	}
	return context;
}

int main(int argc, char **argv)
{
	struct sigaction action = {
		.sa_sigaction = fork_inside,
		.sa_flags = SA_SIGINFO | SA_NODEFER,
	};
	pthread_t thread;

	trapped = argc > 1 && strcmp(argv[1], "openat") == 0 ? SYS_openat : SYS_gettid;
	if (pipe(gate) || sigaction(SIGSYS, &action, NULL) ||
	    pthread_create(&thread, NULL, run, NULL))
		return 3;
	pthread_join(thread, NULL);
	return traps ? 0 : 3;
}
