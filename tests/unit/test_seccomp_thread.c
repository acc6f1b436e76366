/* SPDX-License-Identifier: Apache-2.0 */
/* Seccomp states of threads that are refused whatever their filters allow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/process.h"
#include "proc/status.h"
#include "remote/seccomp/seccomp.h"

static const struct flmem_syscall_table code_table = {.maker = "a test", .runs_program_code = true};

static void *wait_in_thread(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static bool add_filter(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {1, &allow};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Under one filter; with `threads`, a second thread that has none. */
static pid_t start_filtered(bool threads)
{
	char ready = 0;
	int ends[2];
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ready = !(threads && pthread_create(&thread, NULL, wait_in_thread, NULL)) &&
			add_filter();
		if (write(ends[1], &ready, 1) != 1)
			_exit(1);
		wait_in_thread(NULL);
	}
	assert_int_equal(read(ends[0], &ready, 1), 1);
	close(ends[0]);
	close(ends[1]);
	assert_true(ready);
	return child;
}

static void end_filtered(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* As if the kernel had shown this state of the thread, which has one filter. */
static int check_shown(uint64_t mode, uint64_t filters, struct flmem_error *err)
{
	const struct flmem_status shown = {.seccomp_mode = FLMEM_KNOWN(mode),
					   .seccomp_filters = FLMEM_KNOWN(filters),
					   .cap_effective = FLMEM_KNOWN(0)};
	struct flmem_syscall_list list = {0};
	const struct flmem_seccomp_calls calls = {.list = &list, .repeated = {.number = -1}};
	pid_t child = start_filtered(false);
	int rc;

	assert_int_equal(ptrace(PTRACE_SEIZE, child, NULL, NULL), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, child, NULL, NULL), 0);
	assert_int_equal(waitpid(child, NULL, __WALL), child);
	rc = flmem_seccomp_check_thread(child, child, &shown, &calls, err);
	end_filtered(child);
	return rc;
}

static void require_filters_shown(void)
{
	if (geteuid() != 0 || prctl(PR_GET_SECCOMP) != 0) {
		print_message("SKIP: only root without a filter of its own is shown filters\n");
		skip();
	}
}

static void filters_that_are_not_all_read_are_refused(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	require_filters_shown();
	assert_int_equal(check_shown(SECCOMP_MODE_FILTER, 1, &err), 0);
	assert_int_equal(check_shown(SECCOMP_MODE_FILTER, 2, &err), FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "cannot be read"));
}

static void strict_mode_is_refused_at_the_stop(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(check_shown(SECCOMP_MODE_STRICT, 0, &err), FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "strict mode"));
}

static int check_code(bool threads, struct flmem_error *err)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	struct flmem_syscall_list list = {0};
	const struct flmem_seccomp_calls calls = {.list = &list, .repeated = {.number = -1}};
	pid_t child = start_filtered(threads);
	int rc;

	flmem_syscall_list_add(&list, &code_table);
	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	rc = flmem_seccomp_check_outside(&process, child, &calls, err);
	end_filtered(child);
	return rc;
}

static void code_of_the_program_needs_the_same_filters_in_all_threads(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	require_filters_shown();
	assert_int_equal(check_code(false, &err), 0);
	assert_int_equal(check_code(true, &err), FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "different seccomp filters"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(filters_that_are_not_all_read_are_refused),
		cmocka_unit_test(strict_mode_is_refused_at_the_stop),
		cmocka_unit_test(code_of_the_program_needs_the_same_filters_in_all_threads),
	};

	return cmocka_run_group_tests_name("seccomp_thread", tests, NULL, NULL);
}
