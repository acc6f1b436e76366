// SPDX-License-Identifier: Apache-2.0
/*
 * Prints how often its prctl() was called to let others trace it, and before main(): a program of
 * `flmem start --profile-ready`. "filtered": it executes itself below a seccomp filter that allows
 * all calls first.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int allowed, others;

__attribute__((visibility("default"))) int prctl(int option, ...)
{
	unsigned long args[4];
	va_list list;

	va_start(list, option);
	for (int i = 0; i < 4; i++)
		args[i] = va_arg(list, unsigned long);
	va_end(list);
	if (option == PR_SET_PTRACER && args[0] == PR_SET_PTRACER_ANY)
		allowed++;
	else if (option == PR_SET_PTRACER)
		others++;
	return (int)syscall(SYS_prctl, option, args[0], args[1], args[2], args[3]);
}

static void filter_itself(const char *program)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	const struct sock_fprog filter = {.len = 1, .filter = &all};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) == 0 &&
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) == 0)
		execl(program, program, "inside", (char *)NULL);
	perror("prepared");
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "filtered") == 0) {
		filter_itself(argv[0]);
		return 1;
	}
	printf("allowed %d, others %d\n", allowed, others);
	return 0;
}
