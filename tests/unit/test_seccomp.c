/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/audit.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "remote/seccomp.h"

/* Denies nanosleep with EPERM, kills for any other architecture, allows the rest. */
static const struct sock_filter no_nanosleep[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_nanosleep, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

static uint32_t verdict(const struct sock_filter *program, size_t length, int number)
{
	struct seccomp_data data = {.nr = number, .arch = AUDIT_ARCH_X86_64};

	return flmem_seccomp_run(program, length, &data);
}

static void a_filter_is_followed(void **state)
{
	struct seccomp_data other = {.nr = SYS_getpid, .arch = AUDIT_ARCH_I386};

	(void)state;
	assert_int_equal(verdict(no_nanosleep, FLMEM_ARRAY_SIZE(no_nanosleep), SYS_getpid),
			 SECCOMP_RET_ALLOW);
	assert_int_equal(verdict(no_nanosleep, FLMEM_ARRAY_SIZE(no_nanosleep), SYS_nanosleep),
			 SECCOMP_RET_ERRNO | 1);
	assert_int_equal(flmem_seccomp_run(no_nanosleep, FLMEM_ARRAY_SIZE(no_nanosleep), &other),
			 SECCOMP_RET_KILL_PROCESS);
}

/* Compares with the kernel: a child installs the filter and makes the call. */
static void the_kernel_agrees(void **state)
{
	struct sock_fprog program = {
		.len = FLMEM_ARRAY_SIZE(no_nanosleep),
		.filter = (struct sock_filter *)(uintptr_t)no_nanosleep,
	};
	int status;
	pid_t child = fork();

	(void)state;
	if (child == 0) {
		struct timespec {
			long seconds, ns;
		} time = {0, 0};

		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
			_exit(77);
		_exit(syscall(SYS_nanosleep, &time, NULL) == -1 ? 1 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("SKIP: this kernel does not let us install a seccomp filter\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 1);
}

static void arithmetic_and_memory_work(void **state)
{
	static const struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 5),
		BPF_STMT(BPF_ST, 3),
		BPF_STMT(BPF_LD | BPF_IMM, 7),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_MEM, 3),
		BPF_STMT(BPF_ALU | BPF_MUL | BPF_X, 0),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};

	(void)state;
	assert_int_equal(verdict(program, FLMEM_ARRAY_SIZE(program), 1), 42);
}

static void malformed_programs_count_as_killing(void **state)
{
	static const struct sock_filter rows[][1] = {
		{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 1000)},
		{BPF_STMT(BPF_LD | BPF_MEM, 16)},
		{BPF_STMT(BPF_ST, 99)},
		{BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0)},
		{BPF_STMT(BPF_JMP | BPF_JA, 0xffffffff)},
		{BPF_STMT(BPF_LD | BPF_W | BPF_IND, 0)},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		assert_int_equal(verdict(rows[i], 1, 0), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(verdict(rows[0], 0, 0), SECCOMP_RET_KILL_PROCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_filter_is_followed),
		cmocka_unit_test(the_kernel_agrees),
		cmocka_unit_test(arithmetic_and_memory_work),
		cmocka_unit_test(malformed_programs_count_as_killing),
	};

	return cmocka_run_group_tests_name("seccomp", tests, NULL, NULL);
}
