/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safe_strict [filter]: waits in read() on standard input under seccomp, in strict mode or with a
 * filter that allows no more: any other system call, as an allocator's release of memory makes
 * them, kills the process. Each byte read counts as a round.
 */
#include "safe_common.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void allow_only_strict_calls(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		victim_die("seccomp filter");
}

int main(int argc, char **argv)
{
	char byte;

	(void)argv;
	victim_open();
	heap_spread();
	victim_ready();
	if (argc > 1)
		allow_only_strict_calls();
	else if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
		victim_die("seccomp");
	while (read(STDIN_FILENO, &byte, 1) == 1)
		victim_round();
	syscall(SYS_exit, 0);
}
