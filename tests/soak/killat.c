/* SPDX-License-Identifier: Apache-2.0 */
/*
 * killat STOP PROGRAM [ARGS]: kills PROGRAM with SIGKILL at one exact place: its STOP-th stop at a
 * system call, counted from its first ptrace() on, entry and exit being two stops. Prints
 * `killed NUMBER` with the number of that system call, or, when the program ends before,
 * `ended STATUS STOPS TOUCHES`: its exit status, the stops that there were, and how many of its
 * system calls could have changed another process. STOP 0 never kills.
 */
#include <errno.h>
#include <linux/ptrace.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* <sys/ptrace.h> and <linux/ptrace.h> exclude each other in older C libraries. */
long ptrace(int request, ...);

#define OPTIONS	    (PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)
#define SYSCALL_BIT 0x80

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "killat: %s: %s\n", what, strerror(errno));
	exit(2);
}

static pid_t start(char **argv)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		execv(argv[0], argv);
		_exit(127);
	}
	return pid;
}

/* Runs the program to its next stop; false when it has ended. */
static bool next_stop(pid_t pid, int deliver, int *ret_status)
{
	if (ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(intptr_t)deliver) != 0)
		die("PTRACE_SYSCALL");
	if (waitpid(pid, ret_status, __WALL) != pid)
		die("waitpid");
	return WIFSTOPPED(*ret_status);
}

static bool is_touch(uint64_t number)
{
	return number == SYS_ptrace || number == SYS_process_vm_writev ||
	       number == SYS_process_madvise || number == SYS_kill || number == SYS_tgkill ||
	       number == SYS_pidfd_send_signal;
}

struct count {
	long stops;
	long touches;
	uint64_t number; /* of the system call */
};

/* True when the stop is at a system call that counts. */
static bool count_stop(pid_t pid, struct count *count)
{
	struct ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) <= 0)
		die("PTRACE_GET_SYSCALL_INFO");
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
		count->number = info.entry.nr;
		count->touches += is_touch(info.entry.nr);
	}
	if (!count->stops && count->number != SYS_ptrace)
		return false;
	count->stops++;
	return true;
}

static void run(pid_t pid, long kill_at)
{
	struct count count = {0};
	int deliver = 0;
	int status;

	while (next_stop(pid, deliver, &status)) {
		int signal_number = WSTOPSIG(status);

		deliver = 0;
		if (signal_number != (SIGTRAP | SYSCALL_BIT)) {
			deliver = signal_number == SIGTRAP ? 0 : signal_number;
			continue;
		}
		if (!count_stop(pid, &count) || count.stops != kill_at)
			continue;
		kill(pid, SIGKILL);
		while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status))
			continue;
		printf("killed %llu\n", (unsigned long long)count.number);
		return;
	}
	printf("ended %d %ld %ld\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1, count.stops,
	       count.touches);
}

int main(int argc, char **argv)
{
	char *end = NULL;
	long kill_at = argc > 2 ? strtol(argv[1], &end, 10) : -1;
	int status;

	if (kill_at < 0 || *end) {
		fprintf(stderr, "usage: killat STOP PROGRAM [ARGS]\n");
		return 2;
	}

	pid_t pid = start(argv + 2);

	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		die("the program did not start");
	if (ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)OPTIONS) != 0)
		die("PTRACE_SETOPTIONS");
	run(pid, kill_at);
	return 0;
}
