/* SPDX-License-Identifier: Apache-2.0 */
/* Tests seccomp states of threads, and filters, whose reading is truncated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "capabilities.h"
#include "child_require.h"
#include "proc/process.h"
#include "proc/status.h"
#include "proc/task.h"
#include "remote/seccomp/seccomp.h"

static const struct flmem_syscall_table code_table = {.maker = "a test", .runs_program_code = true};

#define LOAD_NUMBER	  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define LOAD_LOW(n)	  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16 + 8 * (n))
#define IF_EQUAL(k, y, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, y, n)
#define RETURN(k)	  BPF_STMT(BPF_RET | BPF_K, k)
#define ALLOW		  SECCOMP_RET_ALLOW
#define KILL		  SECCOMP_RET_KILL_PROCESS

static const struct sock_filter allow[] = {RETURN(ALLOW)};

/* The filter program of the next child. */
static const struct sock_filter *code = allow;
static size_t code_length = 1;

/* The state of a thread as it is read, and the error of the request for a filter; 0: as it is. */
static struct {
	pid_t tid;
	int status;
	unsigned long index;
	int filter;
	bool is_longer; /* the filter is longer than it was at first */
} unread;

int __real_flmem_status_read_thread(const struct flmem_process *process, pid_t tid,
				    struct flmem_status *ret_status);
int __wrap_flmem_status_read_thread(const struct flmem_process *process, pid_t tid,
				    struct flmem_status *ret_status);
int __wrap_flmem_status_read_thread(const struct flmem_process *process, pid_t tid,
				    struct flmem_status *ret_status)
{
	return unread.status && tid == unread.tid
		       ? unread.status
		       : __real_flmem_status_read_thread(process, tid, ret_status);
}

long __real_ptrace(int request, ...);
long __wrap_ptrace(int request, ...);
long __wrap_ptrace(int request, ...)
{
	va_list words;
	pid_t tid;
	void *address, *data;

	va_start(words, request);
	tid = va_arg(words, pid_t);
	address = va_arg(words, void *);
	data = va_arg(words, void *);
	va_end(words);
	if (request != PTRACE_SECCOMP_GET_FILTER)
		return __real_ptrace(request, tid, address, data);
	if (unread.filter && (uintptr_t)address == unread.index) {
		errno = unread.filter;
		return -1;
	}
	return __real_ptrace(request, tid, address, data) + (unread.is_longer && data);
}

static void *wait_in_thread(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static bool add_filter(void)
{
	struct sock_fprog program = {(unsigned short)code_length,
				     (struct sock_filter *)(uintptr_t)code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

enum threads {
	ALONE,
	BESIDE_UNFILTERED,
	BESIDE_LESS_FILTERED,
};

/* Starts a child under one filter; a second thread may have one less. */
static pid_t start_filtered(enum threads threads)
{
	char ready = 0;
	int ends[2];
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ready = (threads != BESIDE_LESS_FILTERED || add_filter()) &&
			!(threads && pthread_create(&thread, NULL, wait_in_thread, NULL)) &&
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

/* Checks as if the kernel had shown this state of the thread, which has one filter. */
static int check_stopped(const struct flmem_status *shown, const struct flmem_seccomp_calls *calls,
			 struct flmem_error *err)
{
	pid_t child = start_filtered(ALONE);
	int rc;

	*err = (struct flmem_error){0};
	assert_int_equal(ptrace(PTRACE_SEIZE, child, NULL, NULL), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, child, NULL, NULL), 0);
	assert_int_equal(waitpid(child, NULL, __WALL), child);
	rc = flmem_seccomp_check_thread(child, child, shown, calls, err);
	end_filtered(child);
	return rc;
}

static const struct flmem_syscall_list no_calls;

static int check_shown(uint64_t mode, struct flmem_u64 filters, struct flmem_error *err)
{
	const struct flmem_status shown = {.seccomp_mode = FLMEM_KNOWN(mode),
					   .seccomp_filters = filters,
					   .cap_effective = FLMEM_KNOWN(0)};
	const struct flmem_seccomp_calls calls = {.list = &no_calls, .repeated = {.number = -1}};

	return check_stopped(&shown, &calls, err);
}

/* Checks a thread under this filter. */
static int check_code(const struct sock_filter *rows, size_t count,
		      const struct flmem_seccomp_calls *calls, struct flmem_error *err)
{
	const struct flmem_status shown = {.seccomp_mode = FLMEM_KNOWN(SECCOMP_MODE_FILTER),
					   .seccomp_filters = FLMEM_KNOWN(1),
					   .cap_effective = FLMEM_KNOWN(0)};
	int rc;

	code = rows;
	code_length = count;
	rc = check_stopped(&shown, calls, err);
	code = allow;
	code_length = 1;
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
	assert_int_equal(check_shown(SECCOMP_MODE_FILTER, FLMEM_KNOWN(1), &err), 0);
	assert_int_equal(check_shown(SECCOMP_MODE_FILTER, FLMEM_KNOWN(2), &err),
			 FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "cannot be read"));
}

/* Where the kernel does not show the number of filters, only ENOENT after the first ends them. */
static void no_error_but_one_ends_the_filters(void **state)
{
	static const struct {
		unsigned long index;
		int error, rc;
	} rows[] = {
		{0, 0, 0},
		{0, ENOENT, FLMEM_EUNSUPPORTED},
		{0, EIO, FLMEM_EUNSUPPORTED},
		{1, EIO, FLMEM_EUNSUPPORTED},
		{0, EACCES, FLMEM_EPERM},
		{1, EACCES, FLMEM_EPERM},
	};
	struct flmem_error err;

	(void)state;
	require_filters_shown();
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		unread.index = rows[i].index;
		unread.filter = rows[i].error;
		assert_int_equal(check_shown(SECCOMP_MODE_FILTER, FLMEM_UNKNOWN("a test"), &err),
				 rows[i].rc);
		unread.filter = 0;
	}
	unread.is_longer = true;
	assert_int_equal(check_shown(SECCOMP_MODE_FILTER, FLMEM_KNOWN(1), &err),
			 FLMEM_EUNSUPPORTED);
	unread.is_longer = false;
}

static void the_longest_filter_is_read(void **state)
{
	static struct sock_filter longest[BPF_MAXINSNS];
	const struct flmem_seccomp_calls calls = {.list = &no_calls, .repeated = {.number = -1}};
	struct flmem_error err;

	(void)state;
	require_filters_shown();
	for (size_t i = 0; i < BPF_MAXINSNS; i++)
		longest[i] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_IMM, 0);
	longest[BPF_MAXINSNS - 1] = allow[0];
	assert_int_equal(check_code(longest, BPF_MAXINSNS, &calls, &err), 0);
}

/* The filter stores words, which takes longest, and is evaluated for each call of the table. */
static void filters_that_take_long_are_refused(void **state)
{
	static struct sock_filter longest[BPF_MAXINSNS] = {BPF_STMT(BPF_ST, 0)};
	static struct flmem_syscall rows[20];
	static const struct flmem_syscall_table table = {
		.maker = "a test", .rows = rows, .count = FLMEM_ARRAY_SIZE(rows)};
	struct flmem_syscall_list list = {0};
	struct flmem_seccomp_calls calls = {.list = &list, .repeated = {.number = -1}};
	struct flmem_error err;

	(void)state;
	require_filters_shown();
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		rows[i].number = SYS_getpid;
	for (size_t i = 1; i < BPF_MAXINSNS; i++)
		longest[i] = (struct sock_filter)IF_EQUAL((unsigned)i, 0, 0);
	longest[BPF_MAXINSNS - 1] = allow[0];
	flmem_syscall_list_add(&list, &table);
	assert_int_equal(check_code(longest, BPF_MAXINSNS, &calls, &err), FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "stopped for long"));
	calls.assume = true;
	assert_int_equal(check_code(longest, BPF_MAXINSNS, &calls, &err), 0);
}

/* Fills the longest filter up behind its first four instructions; what passes them is allowed. */
static void fill_longest(struct sock_filter *longest)
{
	for (size_t i = 4; i < BPF_MAXINSNS; i++)
		longest[i] = (struct sock_filter)IF_EQUAL(4096 + (unsigned)i, 0, 0);
	longest[BPF_MAXINSNS - 1] = allow[0];
}

/* Of what is assumed nothing may be known to be wrong. */
static void a_long_filter_that_kills_is_refused(void **state)
{
	static struct sock_filter longest[BPF_MAXINSNS] = {
		LOAD_NUMBER,
		IF_EQUAL(SYS_getppid, 0, 1),
		RETURN(KILL),
		BPF_STMT(BPF_ST, 0),
	};
	static struct flmem_syscall rows[20];
	static const struct flmem_syscall_table table = {
		.maker = "a test", .rows = rows, .count = FLMEM_ARRAY_SIZE(rows)};
	struct flmem_syscall_list list = {0};
	const struct flmem_seccomp_calls calls = {
		.list = &list, .repeated = {.number = -1}, .assume = true};
	struct flmem_error err;

	(void)state;
	require_filters_shown();
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		rows[i].number = i + 1 < FLMEM_ARRAY_SIZE(rows) ? SYS_getpid : SYS_getppid;
	fill_longest(longest);
	flmem_syscall_list_add(&list, &table);
	assert_int_equal(check_code(longest, BPF_MAXINSNS, &calls, &err), FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "would kill the process for system call "));
}

/* Each number is evaluated for itself if all of them together cannot be decided. */
static void numbers_that_take_long_are_refused(void **state)
{
	static struct sock_filter longest[BPF_MAXINSNS] = {
		LOAD_NUMBER,
		BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, 1),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 0x3fffffff, 0, 1),
		RETURN(KILL),
	};
	struct flmem_syscall_list list = {0};
	const struct flmem_seccomp_calls calls = {.list = &list, .repeated = {.number = -1}};
	struct flmem_error err;

	(void)state;
	require_filters_shown();
	fill_longest(longest);
	flmem_syscall_list_add(&list, &code_table);
	assert_int_equal(check_code(longest, BPF_MAXINSNS, &calls, &err), FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "stopped for long"));
}

static void a_call_that_is_only_noted_is_allowed(void **state)
{
	static const struct sock_filter log[] = {RETURN(SECCOMP_RET_LOG)};
	const struct flmem_seccomp_calls calls = {.list = &no_calls, .repeated = {.number = -1}};
	struct flmem_error err;

	(void)state;
	require_filters_shown();
	assert_int_equal(check_code(log, 1, &calls, &err), 0);
}

/* On x86-64 the first call is read(). */
static void the_first_call_of_all_counts(void **state)
{
	static const struct sock_filter no_first[] = {
		LOAD_NUMBER,
		IF_EQUAL(0, 0, 1),
		RETURN(KILL),
		RETURN(ALLOW),
	};
	struct flmem_syscall_list list = {0};
	struct flmem_seccomp_calls calls = {.list = &list, .repeated = {.number = -1}};
	struct flmem_error err;

	(void)state;
	require_filters_shown();
	assert_int_equal(check_code(no_first, FLMEM_ARRAY_SIZE(no_first), &calls, &err), 0);
	calls.repeated.number = 0;
	assert_int_equal(check_code(no_first, FLMEM_ARRAY_SIZE(no_first), &calls, &err),
			 FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "which the thread itself makes"));
	calls.repeated.number = -1;
	flmem_syscall_list_add(&list, &code_table);
	assert_int_equal(check_code(no_first, FLMEM_ARRAY_SIZE(no_first), &calls, &err),
			 FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "system call 0(...), which a test may make"));
}

/* The filter forbids other arguments of the call than those of the table that names it. */
static void a_call_of_the_program_has_the_name_of_a_table(void **state)
{
	static const struct sock_filter no_seven[] = {
		LOAD_NUMBER,  IF_EQUAL(SYS_madvise, 0, 3),
		LOAD_LOW(2),  IF_EQUAL(7, 0, 1),
		RETURN(KILL), RETURN(ALLOW),
	};
	static const struct flmem_syscall rows[] = {
		{SYS_close, "close", FLMEM_FAILURE_REFUSED, {{0}}},
		{SYS_madvise, "madvise", FLMEM_FAILURE_REFUSED, {{0}, {0}, FLMEM_ARG_IS(4)}},
	};
	static const struct flmem_syscall_table table = {"a table", rows, 2, false};
	struct flmem_syscall_list list = {0};
	const struct flmem_seccomp_calls calls = {.list = &list, .repeated = {.number = -1}};
	struct flmem_error err;

	(void)state;
	require_filters_shown();
	flmem_syscall_list_add(&list, &table);
	assert_int_equal(check_code(no_seven, FLMEM_ARRAY_SIZE(no_seven), &calls, &err), 0);
	flmem_syscall_list_add(&list, &code_table);
	assert_int_equal(check_code(no_seven, FLMEM_ARRAY_SIZE(no_seven), &calls, &err),
			 FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "could kill the process for madvise(...)"));
}

/* What is unknown of all calls together may be known of each. */
static void calls_of_the_program_are_checked_one_by_one(void **state)
{
	static const struct sock_filter joined[] = {
		LOAD_NUMBER,
		IF_EQUAL(5, 0, 2),
		BPF_STMT(BPF_LD | BPF_IMM, 1),
		BPF_STMT(BPF_JMP | BPF_JA, 1),
		BPF_STMT(BPF_LD | BPF_IMM, 0),
		BPF_STMT(BPF_ST, 0),
		LOAD_NUMBER,
		IF_EQUAL(5, 2, 0),
		BPF_STMT(BPF_LD | BPF_MEM, 0),
		IF_EQUAL(1, 1, 0),
		RETURN(ALLOW),
		RETURN(KILL),
	};
	struct flmem_syscall_list list = {0};
	const struct flmem_seccomp_calls calls = {.list = &list, .repeated = {.number = -1}};
	struct flmem_error err;

	(void)state;
	require_filters_shown();
	flmem_syscall_list_add(&list, &code_table);
	assert_int_equal(check_code(joined, FLMEM_ARRAY_SIZE(joined), &calls, &err), 0);
}

/* ENOSYS makes the C library try another call; one of two possible errors may be that one. */
static void an_error_that_is_not_known_is_not_fine(void **state)
{
	static const struct sock_filter either[] = {
		LOAD_NUMBER,
		IF_EQUAL(SYS_clone3, 1, 0),
		RETURN(ALLOW),
		LOAD_LOW(0),
		IF_EQUAL(1, 0, 1),
		RETURN(SECCOMP_RET_ERRNO | EPERM),
		RETURN(SECCOMP_RET_ERRNO | ENOSYS),
	};
	static const struct flmem_syscall row = {
		SYS_clone3, "clone3", FLMEM_FAILURE_ENOSYS_FINE, {{0}}};
	static const struct flmem_syscall known = {
		SYS_clone3, "clone3", FLMEM_FAILURE_ENOSYS_FINE, {FLMEM_ARG_IS(2)}};
	static const struct flmem_syscall_table tables[] = {{"a table", &row, 1, false},
							    {"a table", &known, 1, false}};
	struct flmem_syscall_list list = {.tables = {&tables[0]}, .count = 1};
	const struct flmem_seccomp_calls calls = {.list = &list, .repeated = {.number = -1}};
	struct flmem_error err;

	(void)state;
	require_filters_shown();
	assert_int_equal(check_code(either, FLMEM_ARRAY_SIZE(either), &calls, &err),
			 FLMEM_EUNSUPPORTED);
	list.tables[0] = &tables[1];
	assert_int_equal(check_code(either, FLMEM_ARRAY_SIZE(either), &calls, &err), 0);
}

static void strict_mode_is_refused_at_the_stop(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(check_shown(SECCOMP_MODE_STRICT, FLMEM_KNOWN(0), &err),
			 FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "strict mode"));
}

static int check_from_outside(pid_t child, const struct flmem_seccomp_calls *calls,
			      struct flmem_error *err)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;

	*err = (struct flmem_error){0};
	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	return flmem_seccomp_check_outside(&process, child, calls, err);
}

static int check_threads(enum threads threads, const struct flmem_seccomp_calls *calls,
			 struct flmem_error *err)
{
	pid_t child = start_filtered(threads);
	int rc = check_from_outside(child, calls, err);

	end_filtered(child);
	return rc;
}

static void code_of_the_program_needs_the_same_filters_in_all_threads(void **state)
{
	const struct flmem_seccomp_calls any = {.repeated = {.number = -1}};
	const struct flmem_seccomp_calls none = {.list = &no_calls, .repeated = {.number = -1}};
	struct flmem_syscall_list list = {0};
	const struct flmem_seccomp_calls calls = {.list = &list, .repeated = {.number = -1}};
	struct flmem_error err;

	(void)state;
	require_filters_shown();
	flmem_syscall_list_add(&list, &code_table);
	assert_int_equal(check_threads(ALONE, &calls, &err), 0);
	assert_int_equal(check_threads(BESIDE_UNFILTERED, &calls, &err), FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(err.message, "different seccomp filters"));
	assert_int_equal(check_threads(BESIDE_LESS_FILTERED, &calls, &err), FLMEM_EUNSUPPORTED);
	/* Without a list the calls may be those of such code. */
	assert_int_equal(check_threads(BESIDE_UNFILTERED, &any, &err), FLMEM_EUNSUPPORTED);
	assert_int_equal(check_threads(BESIDE_UNFILTERED, &none, &err), 0);
}

static pid_t other_thread(pid_t child)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};

	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	assert_int_equal(flmem_tasks_read(&process, &tasks), 0);
	assert_int_equal(tasks.count, 2);
	return tasks.ids[tasks.ids[0] == child];
}

/* A state of the thread or of another one cannot be read. A thread that has ended harms nobody. */
static void a_state_that_cannot_be_read_is_refused(void **state)
{
	struct flmem_syscall_list list = {0};
	const struct flmem_seccomp_calls calls = {.list = &list, .repeated = {.number = -1}};
	struct flmem_error err;
	pid_t child;

	(void)state;
	require_filters_shown();
	flmem_syscall_list_add(&list, &code_table);
	child = start_filtered(BESIDE_UNFILTERED);
	unread.tid = child;
	unread.status = -EACCES;
	assert_int_not_equal(check_from_outside(child, &calls, &err), 0);
	assert_non_null(strstr(err.message, "read the filters of a thread"));
	unread.status = -ESRCH;
	assert_int_equal(check_from_outside(child, &calls, &err), 0);
	unread.tid = other_thread(child);
	assert_int_equal(check_from_outside(child, &calls, &err), 0);
	unread.status = -EACCES;
	assert_int_equal(check_from_outside(child, &calls, &err), FLMEM_EUNSUPPORTED);
	unread.status = 0;
	end_filtered(child);
}

/* The process keeps this capability alone: root without any other one may read filters. */
static void the_capability_that_shows_filters_is_named(void **state)
{
	const struct flmem_seccomp_calls calls = {.list = &no_calls, .repeated = {.number = -1}};
	pid_t child, asking;
	int status;

	(void)state;
	require_filters_shown();
	child = start_filtered(ALONE);
	asking = fork();
	if (asking == 0) {
		struct flmem_error err = {0};

		REQUIRE(capability_drop(CAP_SYS_ADMIN));
		REQUIRE(check_from_outside(child, &calls, &err) == FLMEM_EPERM);
		REQUIRE(strstr(err.message, "flmem lacks CAP_SYS_ADMIN"));
		_exit(0);
	}
	assert_int_equal(waitpid(asking, &status, 0), asking);
	assert_int_equal(status, 0);
	end_filtered(child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(filters_that_are_not_all_read_are_refused),
		cmocka_unit_test(no_error_but_one_ends_the_filters),
		cmocka_unit_test(the_longest_filter_is_read),
		cmocka_unit_test(filters_that_take_long_are_refused),
		cmocka_unit_test(a_long_filter_that_kills_is_refused),
		cmocka_unit_test(numbers_that_take_long_are_refused),
		cmocka_unit_test(a_call_that_is_only_noted_is_allowed),
		cmocka_unit_test(the_first_call_of_all_counts),
		cmocka_unit_test(a_call_of_the_program_has_the_name_of_a_table),
		cmocka_unit_test(calls_of_the_program_are_checked_one_by_one),
		cmocka_unit_test(an_error_that_is_not_known_is_not_fine),
		cmocka_unit_test(strict_mode_is_refused_at_the_stop),
		cmocka_unit_test(code_of_the_program_needs_the_same_filters_in_all_threads),
		cmocka_unit_test(a_state_that_cannot_be_read_is_refused),
		cmocka_unit_test(the_capability_that_shows_filters_is_named),
	};

	return cmocka_run_group_tests_name("seccomp_thread", tests, NULL, NULL);
}
