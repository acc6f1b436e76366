/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "proc/host_facts.h"
#include "proc/interfaces.h"

static bool has_children(void)
{
	return waitpid(-1, NULL, WNOHANG | __WALL) != -1 || errno != ECHILD;
}

static void nothing_is_left_behind(void **state)
{
	struct flmem_interface_result results[FLMEM_INTERFACE_COUNT];

	(void)state;
	assert_int_equal(flmem_interfaces_probe(results, NULL), 0);
	assert_false(has_children());
	/* Every kernel that flmem runs on has these two. */
	assert_int_equal(results[FLMEM_INTERFACE_PTRACE].error == ENOSYS, 0);
	assert_int_equal(results[FLMEM_INTERFACE_PROCESS_VM_READV].error == ENOSYS, 0);
}

static void works_where_children_are_not_waited_for(void **state)
{
	struct flmem_interface_result results[FLMEM_INTERFACE_COUNT];
	struct sigaction ignore = {.sa_handler = SIG_IGN}, before;

	(void)state;
	sigaction(SIGCHLD, &ignore, &before);
	assert_int_equal(flmem_interfaces_probe(results, NULL), 0);
	sigaction(SIGCHLD, &before, NULL);
	assert_int_equal(results[FLMEM_INTERFACE_PIDFD].killed, 0);
}

/* Sets a filter that gives `action` to one system call and allows the rest. */
static void forbid(long number, uint32_t action)
{
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {.len = FLMEM_ARRAY_SIZE(program), .filter = program};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &filter))
		_exit(90);
}

/* Runs the probe below a filter in a child; returns the result of `judge`. */
static int judge_below_filter(long number, uint32_t action,
			      int (*judge)(const struct flmem_interface_result *))
{
	pid_t child = fork();
	int status;

	if (!child) {
		struct flmem_interface_result results[FLMEM_INTERFACE_COUNT];

		forbid(number, action);
		_exit(flmem_interfaces_probe(results, NULL) ? 91 : judge(results));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int ptrace_only(const struct flmem_interface_result *results)
{
	const struct flmem_interface_result *ptrace = &results[FLMEM_INTERFACE_PTRACE];

	if (results[FLMEM_INTERFACE_OPENAT2].killed)
		return 80;
	return ptrace->killed ? 1 : ptrace->error == EPERM ? 2 : 3;
}

static void a_filter_that_kills_is_survived_and_named(void **state)
{
	(void)state;
	assert_int_equal(judge_below_filter(SYS_ptrace, SECCOMP_RET_KILL_PROCESS, ptrace_only), 1);
}

static void a_filter_that_refuses_is_seen(void **state)
{
	(void)state;
	assert_int_equal(judge_below_filter(SYS_ptrace, SECCOMP_RET_ERRNO | EPERM, ptrace_only), 2);
}

static int pidfd_missing(const struct flmem_interface_result *results)
{
	return results[FLMEM_INTERFACE_PIDFD].error == ENOSYS ? 1 : 2;
}

static void an_old_kernel_is_seen(void **state)
{
	(void)state;
	assert_int_equal(
		judge_below_filter(SYS_pidfd_open, SECCOMP_RET_ERRNO | ENOSYS, pidfd_missing), 1);
}

static void others_need_the_capability(void **state)
{
	struct flmem_host_facts facts;
	int rc = flmem_interfaces_other_user();

	(void)state;
	assert_int_equal(flmem_host_facts_read(&facts, NULL), 0);
	if (rc == -ESRCH) {
		print_message("SKIP: no process of another user here\n");
		skip();
	}
	if (!facts.may_trace_any)
		assert_true(rc == -EACCES || rc == -EPERM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_left_behind),
		cmocka_unit_test(works_where_children_are_not_waited_for),
		cmocka_unit_test(a_filter_that_kills_is_survived_and_named),
		cmocka_unit_test(a_filter_that_refuses_is_seen),
		cmocka_unit_test(an_old_kernel_is_seen),
		cmocka_unit_test(others_need_the_capability),
	};

	return cmocka_run_group_tests_name("interfaces", tests, NULL, NULL);
}
