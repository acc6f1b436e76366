/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another process supplies memory of the target (userfaultfd, as after a lazy restore). flmem must
 * not wait for such a page while it holds a thread. The test supplies the page that has the
 * thread-local data of the borrowed thread, and checks if that is traced meanwhile.
 */
#include "borrowed.h"

#if defined(__x86_64__) || defined(__aarch64__)
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "proc/status.h"

#define PAGE 4096U

struct page {
	unsigned char copy[PAGE];
	_Atomic uintptr_t place; /* of the page that is supplied */
	_Atomic int faults;	 /* descriptor in the child, plus 1; -1 if there is none */
	_Atomic bool drop, dropped, closed, called, over;
	_Atomic unsigned supplied, held;
};

static struct page *page;
static pid_t child;
static int bell[2], faults = -1;

__attribute__((noinline, no_sanitize("address", "undefined"))) static void called(void)
{
	atomic_store(&page->called, true);
}

static void open_faults(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {
		.range = {page->place, PAGE},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	const int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range))
		atomic_store(&page->faults, -1);
	else
		atomic_store(&page->faults, fd + 1);
}

/* Drops the page, which nothing uses until the first thread wakes up. */
static void *drop_page(void *unused)
{
	open_faults();
	while (!page->drop)
		usleep(1000);
	close(page->faults - 1);
	memcpy(page->copy, (const void *)page->place, PAGE);
	if (madvise((void *)page->place, PAGE, MADV_DONTNEED) == 0)
		atomic_store(&page->dropped, true);
	for (;;)
		usleep(1000);
	return unused;
}

/*
 * Waits for the test, with a timeout where such a wait is borrowed: a thread that misses a page is
 * stopped again, although that timeout starts again.
 */
#ifdef __x86_64__
#define WAIT SYS_epoll_wait

static void wait_for_bell(void)
{
	const int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = {.events = EPOLLIN};

	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, bell[0], &event))
		_exit(1);
	while (syscall(WAIT, epoll, &event, 1, 9000) != 1)
		continue;
}
#else
#define WAIT SYS_read

static void wait_for_bell(void)
{
	char byte;

	while (read(bell[0], &byte, 1) != 1)
		continue;
}
#endif

static void be_child(void)
{
	pthread_t thread;

	atomic_store(&page->place, (uintptr_t)&errno & ~(uintptr_t)(PAGE - 1));
	if (pthread_create(&thread, NULL, drop_page, NULL))
		_exit(1);
	wait_for_bell();
	atomic_store(&page->over, true);
	for (;;)
		pause();
}

static void supply_page(void)
{
	struct uffdio_copy copy = {.dst = page->place, .src = (uintptr_t)page->copy, .len = PAGE};
	struct flmem_status status;
	struct uffd_msg message;

	if (read(faults, &message, sizeof(message)) != (ssize_t)sizeof(message))
		return;
	if (flmem_status_read_number(child, &status) || flmem_u64_or(status.tracer, 1))
		page->held++;
	if (ioctl(faults, UFFDIO_COPY, &copy) == 0)
		page->supplied++;
}

static void *supply_pages(void *unused)
{
	struct pollfd poller = {.fd = faults, .events = POLLIN};

	while (!page->closed)
		if (poll(&poller, 1, 10) == 1)
			supply_page();
	return unused;
}

static int start_child(void **state)
{
	(void)state;
	return pipe(bell) || child_open(be_child, sizeof(*page), &page, &child);
}

static int end_child(void **state)
{
	(void)state;
	pipe_close(bell);
	if (faults >= 0)
		close(faults);
	return child_close(child, page, sizeof(*page));
}

/* Takes over the descriptor, so that the child has none. */
static void take_faults(void)
{
	const int pidfd = (int)syscall(SYS_pidfd_open, child, 0);

	await_true(page->faults);
	if (page->faults > 0 && pidfd >= 0)
		faults = (int)syscall(SYS_pidfd_getfd, pidfd, page->faults - 1, 0);
	close(pidfd);
	if (faults < 0) {
		print_message("SKIP: userfaultfd is not permitted here\n");
		skip();
	}
	fcntl(faults, F_SETFL, O_NONBLOCK);
}

static void no_page_is_waited_for_in_a_hold(void **state)
{
	struct flmem_borrow_options options = {.timeout_us = 20000000, .single_pass = true};
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};
	struct flmem_error err = {0};
	struct target target;
	pthread_t supplier;
	int rc;

	(void)state;
	take_faults();
	await_true(is_blocked_in(child, WAIT));
	target_open(child, &target);
	atomic_store(&page->drop, true);
	await_true(page->dropped);
	assert_int_equal(pthread_create(&supplier, NULL, supply_pages, NULL), 0);
	options.only = child;
	flmem_chain_add(&chain, "call", (uint64_t)(uintptr_t)&called);
	rc = flmem_borrow_run(&target.view, &chain, &options, &result, &err);
	atomic_store(&page->closed, true);
	pthread_join(supplier, NULL);
	expect_borrowed(rc, &err);
	assert_true(page->called);
	assert_int_equal(page->supplied, 1);
	assert_int_equal(page->held, 0);
	assert_int_equal(write(bell[1], "x", 1), 1);
	await_true(page->over);
	target_close(&target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_page_is_waited_for_in_a_hold, start_child,
						end_child),
	};

	return cmocka_run_group_tests_name("borrow_resident", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
