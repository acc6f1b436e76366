/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that a dry run reports what the filters of the thread forbid, whether or not it stops the
 * thread.
 */
#include "own_child.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include "remote/seccomp/syscalls.h"

#define TIMEOUT_US 20000000U
#define POLL_MS	   9000 /* less than the longest delay that is accepted */

struct page {
	_Atomic bool ready;
	int rc;
	struct flmem_borrow_result result;
	struct flmem_error err;
};

static struct page *page;

static const struct sock_filter allow_all[] = {
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

static const struct sock_filter no_madvise[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

#ifdef __x86_64__
static bool install(const struct sock_filter *rows, size_t count)
{
	const struct sock_fprog program = {(unsigned short)count, (struct sock_filter *)rows};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void be_waiting(void)
{
	if (!install(no_madvise, FLMEM_ARRAY_SIZE(no_madvise)))
		_exit(2);
	atomic_store(&page->ready, true);
	for (;;)
		pause();
}

/* Polls with a timeout that a stop would start again: a dry run does not stop this thread. */
static void be_polling(void)
{
	struct epoll_event event;
	int epoll = epoll_create1(0);

	if (!install(allow_all, 1))
		_exit(2);
	atomic_store(&page->ready, true);
	for (;;)
		(void)!syscall(SYS_epoll_pwait, epoll, &event, 1, POLL_MS, NULL, 8);
}

static void start(void (*be_child)(void), long number)
{
	memset(page, 0, sizeof(*page));
	start_child(be_child);
	await_true(atomic_load(&page->ready) && is_blocked_in(child, number));
}

static int share(void **state)
{
	(void)state;
	return share_page(&page, sizeof(*page));
}

static const struct flmem_syscall madvise_row = FLMEM_CALL_PLAIN(madvise);
static const struct flmem_syscall_table madvise_table = {"a test", &madvise_row, 1, false};
static const struct flmem_syscall_list list = {.tables = {&madvise_table}, .count = 1};
static const struct flmem_borrow_options options = {.timeout_us = TIMEOUT_US, .syscalls = &list};

static int look(const struct flmem_view *view)
{
	return flmem_borrow_precheck(view, &options, &page->err);
}

static int dry_run_call(const struct flmem_view *view)
{
	return flmem_borrow_dry_run(view, &options, &page->result, &page->err);
}

static void ask(int (*ask_for)(const struct flmem_view *))
{
	struct target target;

	target_open(child, &target);
	page->rc = ask_for(&target.view);
	target_close(&target);
}

/* Queries from a process that has a filter itself: the kernel shows it no filters. */
static void ask_under_a_filter(int (*ask_for)(const struct flmem_view *))
{
	struct target target;
	pid_t asking;

	target_open(child, &target);
	asking = fork();
	if (asking == 0) {
		page->rc = install(allow_all, 1) ? ask_for(&target.view) : FLMEM_EFAILED;
		_exit(0);
	}
	assert_true(asking > 0);
	assert_int_equal(waitpid(asking, NULL, 0), asking);
	target_close(&target);
}

static void expect_unreadable(void)
{
	if (page->rc != FLMEM_EPERM || !strstr(page->err.message, "seccomp"))
		expect_borrowed(page->rc, &page->err);
	assert_int_equal(page->rc, FLMEM_EPERM);
	assert_non_null(strstr(page->err.message, "flmem itself runs under a seccomp filter"));
}

static void a_check_from_outside_reports_filters_that_cannot_be_read(void **state)
{
	(void)state;
	start(be_waiting, SYS_pause);
	ask_under_a_filter(look);
	expect_unreadable();
}

static void so_does_a_dry_run_that_stops_no_thread(void **state)
{
	(void)state;
	start(be_polling, SYS_epoll_pwait);
	ask_under_a_filter(dry_run_call);
	expect_unreadable();
	assert_int_equal(page->result.tid, 0);
}

static void a_dry_run_evaluates_the_filters_that_it_can_read(void **state)
{
	(void)state;
	start(be_waiting, SYS_pause);
	ask(dry_run_call);
	if (page->rc == FLMEM_EPERM)
		expect_borrowed(page->rc, &page->err);
	assert_int_equal(page->rc, FLMEM_EUNSUPPORTED);
	assert_non_null(strstr(page->err.message, "would kill the process for madvise"));
	await_true(is_blocked_in(child, SYS_pause));
	assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_check_from_outside_reports_filters_that_cannot_be_read,
					  end_child),
		cmocka_unit_test_teardown(so_does_a_dry_run_that_stops_no_thread, end_child),
		cmocka_unit_test_teardown(a_dry_run_evaluates_the_filters_that_it_can_read,
					  end_child),
	};

	return cmocka_run_group_tests_name("seccomp_dry", tests, share, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
