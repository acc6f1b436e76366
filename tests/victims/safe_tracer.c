/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safe_tracer PROGRAM ARGS: starts PROGRAM and traces it to its end, as strace does: each system
 * call of all its threads and their ends wait for this process. Ends with its exit status.
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPTIONS \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL)
#define SYSCALL_STOP (SIGTRAP | 0x80)

/* Returns the signal to pass on from this stop. */
static int signal_of(int status)
{
	int number = WSTOPSIG(status);

	return status >> 16 || number == SYSCALL_STOP || number == SIGTRAP || number == SIGSTOP
		       ? 0
		       : number;
}

static int follow(pid_t program)
{
	for (;;) {
		int status;
		pid_t tid = waitpid(-1, &status, __WALL);

		if (tid < 0)
			return 2;
		if (WIFSTOPPED(status))
			ptrace(PTRACE_SYSCALL, tid, NULL, (void *)(intptr_t)signal_of(status));
		else if (tid == program)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	}
}

int main(int argc, char **argv)
{
	pid_t program = fork();
	int status;

	if (program == 0 && argc > 1) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		execvp(argv[1], argv + 1);
		return 127;
	}
	if (program < 0 || waitpid(program, &status, __WALL) != program || !WIFSTOPPED(status) ||
	    ptrace(PTRACE_SETOPTIONS, program, NULL, (void *)(intptr_t)OPTIONS) != 0 ||
	    ptrace(PTRACE_SYSCALL, program, NULL, NULL) != 0) {
		perror("safe_tracer");
		return 2;
	}
	return follow(program);
}
