/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests waits that would end if they were made again: their arguments' objects have changed since.
 */
#include "wait_kind.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#define PAGE	  4096U
#define NO_MEMORY "is in a call whose arguments can no longer be read"
#define NO_CHILD  "waits for a child that the process no longer has"
#define OF_GROUP  "waits for children of a process group, which may be in another one now"
#define OF_KIND	  "waits for a child of a kind that it may no longer be (__WCLONE)"
#define REPLACED  "waits on a descriptor that was replaced since"
#define POLLED	  "polls a descriptor that was replaced since"
#define READ	  "is reading from a descriptor that was replaced since"
#define NO_REST	  "sleeps and cannot be given the rest of its time where it asks for it"

#define CLONES	 0x80000000U /* __WCLONE */
#define ANY_KIND 0x40000000U /* __WALL */
#define OF_MINE	 0x20000000U /* __WNOTHREAD */

static pid_t start_child(void)
{
	pid_t child = fork();

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_true(child > 0);
	return child;
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static void children_are_waited_for_where_there_are_any(void **state)
{
	pid_t child;

	(void)state;
	expect_refused(AT(SYS_wait4, (uint64_t)-1), NO_CHILD);
	expect_refused(AT(SYS_waitid, P_ALL, 0), NO_CHILD);
	child = start_child();
	expect(AT(SYS_wait4, (uint64_t)-1), FLMEM_WAIT_ENDLESS, 0, false);
	expect(AT(SYS_waitid, P_ALL, 0), FLMEM_WAIT_ENDLESS, 0, false);
	expect(AT(SYS_wait4, (uint64_t)child), FLMEM_WAIT_ENDLESS, 0, false);
	expect(AT(SYS_waitid, P_PID, (uint64_t)child), FLMEM_WAIT_ENDLESS, 0, false);
	expect(AT(SYS_wait4, (uint64_t)child, 0, OF_MINE), FLMEM_WAIT_ENDLESS, 0, false);
	/* A traced process that is not a child counts as one that is not a child any more. */
	expect_refused(AT(SYS_wait4, (uint64_t)getppid()), NO_CHILD);
	expect_refused(AT(SYS_waitid, P_PID, (uint64_t)getppid()), NO_CHILD);
	end_child(child);
	expect_refused(AT(SYS_wait4, (uint64_t)child), NO_CHILD);
}

static void children_that_may_have_changed_are_not_waited_for(void **state)
{
	static const char changed[] = "waits for a child by a descriptor that changed since";
	pid_t child = start_child();
	int descriptor = (int)syscall(SYS_pidfd_open, child, 0);

	(void)state;
	assert_true(descriptor >= 0);
	expect_refused(AT(SYS_wait4, 0), OF_GROUP);
	expect_refused(AT(SYS_wait4, (uint64_t)-2), OF_GROUP);
	expect_refused(AT(SYS_waitid, P_PGID, 0), OF_GROUP);
	expect_refused(AT(SYS_waitid, P_PGID, 7), OF_GROUP);
	expect_refused(AT(SYS_wait4, (uint64_t)child, 0, CLONES), OF_KIND);
	expect_refused(AT(SYS_waitid, P_ALL, 0, 0, WEXITED | CLONES), OF_KIND);
	expect(AT(SYS_wait4, (uint64_t)child, 0, CLONES | ANY_KIND), FLMEM_WAIT_ENDLESS, 0, false);
	expect(AT(SYS_waitid, 3 /* P_PIDFD */, (uint64_t)descriptor), FLMEM_WAIT_ENDLESS, 0, false);
	assert_int_equal(fcntl(descriptor, F_SETFL, O_NONBLOCK), 0);
	expect_refused(AT(SYS_waitid, 3, (uint64_t)descriptor), changed);
	close(descriptor);
	expect_refused(AT(SYS_waitid, 3, (uint64_t)descriptor), changed);
	end_child(child);
}

static void descriptors_of_children_are_of_children(void **state)
{
	static const char changed[] = "waits for a child by a descriptor that changed since";
	pid_t child = start_child(), other = start_child();
	FLMEM_AUTO_CLOSE int ours = (int)syscall(SYS_pidfd_open, child, 0);
	FLMEM_AUTO_CLOSE int parents = (int)syscall(SYS_pidfd_open, getppid(), 0);
	FLMEM_AUTO_CLOSE int bell = eventfd(0, EFD_CLOEXEC);

	(void)state;
	assert_true(ours >= 0 && parents >= 0 && bell >= 0);
	expect(AT(SYS_waitid, 3, (uint64_t)ours), FLMEM_WAIT_ENDLESS, 0, false);
	expect_refused(AT(SYS_waitid, 3, (uint64_t)bell), changed);
	expect_refused(AT(SYS_waitid, 3, (uint64_t)parents), NO_CHILD);
	end_child(child);
	expect_refused(AT(SYS_waitid, 3, (uint64_t)ours), changed);
	end_child(other);
}

/* A thread that makes a child, and stays. */
struct parent {
	_Atomic pid_t tid;
	_Atomic bool ends;
	pid_t child;
};

static void *be_parent(void *context)
{
	struct parent *parent = context;

	parent->child = start_child();
	atomic_store(&parent->tid, gettid());
	while (!atomic_load(&parent->ends))
		usleep(1000);
	return NULL;
}

static void children_are_those_of_any_thread(void **state)
{
	struct parent parent = {.tid = 0};
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, be_parent, &parent), 0);
	while (!atomic_load(&parent.tid))
		usleep(1000);
	expect(AT(SYS_wait4, (uint64_t)-1), FLMEM_WAIT_ENDLESS, 0, false);
	expect(AT(SYS_wait4, (uint64_t)parent.child), FLMEM_WAIT_ENDLESS, 0, false);
	expect_refused(AT(SYS_wait4, (uint64_t)-1, 0, OF_MINE), NO_CHILD);
	end_child(parent.child);
	atomic_store(&parent.ends, true);
	pthread_join(thread, NULL);
}

static void sockets_are_waited_for_by_their_calls_alone(void **state)
{
	static const long calls[] = {SYS_recvfrom, SYS_recvmsg, SYS_accept, SYS_accept4};
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(calls); i++)
		expect_refused(AT(calls[i], (uint64_t)fds[0]), REPLACED);
	close(fds[0]);
	close(fds[1]);
}

/* The descriptors are such that a poll() cannot wait for them. */
static void what_is_always_ready_is_not_polled(void **state)
{
	static const char *const paths[] = {"/dev/null", "/dev/zero", "/dev/urandom", "/",
					    "/proc/self/exe"};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(paths); i++) {
		FLMEM_AUTO_CLOSE int ready = open(paths[i], O_RDONLY | O_CLOEXEC);
		struct pollfd row = {.fd = ready, .events = POLLIN};
		const uint64_t count = (uint64_t)ready + 1;
		fd_set set;

		assert_true(ready >= 0);
		FD_ZERO(&set);
		FD_SET(ready, &set);
		expect_refused(AT(SYS_poll, word(&row), 1, (uint64_t)-1), POLLED);
		expect_refused(AT(SYS_ppoll, word(&row), 1), POLLED);
		expect_refused(AT(SYS_select, count, word(&set)), POLLED);
		expect_refused(AT(SYS_pselect6, count, 0, word(&set)), POLLED);
		/* A poll() for errors alone may wait. */
		row.events = POLLPRI;
		expect(AT(SYS_poll, word(&row), 1, (uint64_t)-1), FLMEM_WAIT_ENDLESS, 0, false);
		expect(AT(SYS_select, count, 0, 0, word(&set)), FLMEM_WAIT_ENDLESS, 0, false);
		row.fd = -1;
		row.events = POLLIN;
		expect(AT(SYS_poll, word(&row), 1, (uint64_t)-1), FLMEM_WAIT_ENDLESS, 0, false);
	}
}

static void what_cannot_be_read_is_not_waited_for(void **state)
{
	FLMEM_AUTO_CLOSE int epoll = epoll_create1(EPOLL_CLOEXEC);
	FLMEM_AUTO_CLOSE int of_process = (int)syscall(SYS_pidfd_open, getpid(), 0);
	FLMEM_AUTO_CLOSE int path = open("/dev/tty", O_PATH | O_CLOEXEC);
	FLMEM_AUTO_CLOSE int random = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	int fds[2];

	(void)state;
	assert_true(epoll >= 0 && of_process >= 0 && path >= 0 && random >= 0);
	assert_int_equal(pipe(fds), 0);
	expect(AT(SYS_read, (uint64_t)fds[0]), FLMEM_WAIT_ENDLESS, 0, false);
	expect_refused(AT(SYS_read, (uint64_t)fds[1]), READ);
	expect_refused(AT(SYS_read, (uint64_t)path), READ);
	expect_refused(AT(SYS_read, (uint64_t)random), READ);
	expect_refused(AT(SYS_read, (uint64_t)epoll), READ);
	expect_refused(AT(SYS_read, (uint64_t)of_process), READ);
	close(fds[0]);
	close(fds[1]);
}

/* Returns the first number of a descriptor that is free, so that all below it are taken. */
static int first_free(void)
{
	int next = dup(STDIN_FILENO);

	assert_true(next >= 0);
	close(next);
	return next;
}

static void connections_are_accepted_below_the_limit(void **state)
{
	static const char full[] =
		"waits for a connection for which its limit (ulimit -n) may not leave a descriptor";
	FLMEM_AUTO_CLOSE int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const uint64_t socket = (uint64_t)listener;
	struct rlimit limit, lower;

	(void)state;
	assert_true(listener >= 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	expect(AT(SYS_accept, socket), FLMEM_WAIT_UNSURE, 0, true);
	lower = (struct rlimit){(rlim_t)first_free() + 10, limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &lower), 0);
	expect_refused(AT(SYS_accept, socket), full);
	expect_refused(AT(SYS_accept4, socket), full);
	/* flmem, which is the same process here, cannot open a file either. */
	lower.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &lower), 0);
	expect_refused(AT(SYS_accept, socket), "waits on a descriptor that cannot be examined");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	lower.rlim_cur = (rlim_t)first_free() + 200;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &lower), 0);
	expect(AT(SYS_accept4, socket), FLMEM_WAIT_UNSURE, 0, true);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Makes a page that is filled with `bytes`, and is unreadable after that. */
static char *hide_page(const void *bytes, size_t length)
{
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(page, MAP_FAILED);
	if (bytes)
		memcpy(page, bytes, length);
	assert_int_equal(mprotect(page, PAGE, PROT_NONE), 0);
	return page;
}

static void arguments_that_cannot_be_read_are_refused(void **state)
{
	FLMEM_AUTO_CLOSE int epoll = epoll_create1(EPOLL_CLOEXEC);
	const uint64_t hidden = word(hide_page(NULL, 0)), set = (uint64_t)epoll;
	uint64_t mask[] = {hidden, 8};
	struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)hidden, .msg_iovlen = 1};
	uint32_t lock = 0;
	int fds[2];
	uint64_t end;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	end = (uint64_t)fds[0];
	expect_refused(AT(SYS_futex, word(&lock), FUTEX_WAIT_BITSET, 0, hidden), NO_MEMORY);
	expect_refused(AT(SYS_nanosleep, hidden, hidden), NO_MEMORY);
	expect_refused(AT(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, hidden), NO_MEMORY);
	expect_refused(AT(SYS_readv, end, hidden, 1), NO_MEMORY);
	expect_refused(AT(SYS_recvmsg, end, hidden), NO_MEMORY);
	expect_refused(AT(SYS_recvmsg, end, word(&message)), NO_MEMORY);
	expect_refused(AT(SYS_rt_sigsuspend, hidden, 8), NO_MEMORY);
	expect_refused(AT(SYS_rt_sigtimedwait, hidden, 0, 0, 8), NO_MEMORY);
	expect_refused(AT(SYS_semtimedop, 0, hidden, 1), NO_MEMORY);
	expect_refused(AT(SYS_ppoll, 0, 0, hidden), NO_MEMORY);
	expect_refused(AT(SYS_ppoll, 0, 0, 0, hidden, 8), NO_MEMORY);
	expect_refused(AT(SYS_pselect6, 0, 0, 0, 0, hidden), NO_MEMORY);
	expect_refused(AT(SYS_pselect6, 0, 0, 0, 0, 0, hidden), NO_MEMORY);
	expect_refused(AT(SYS_pselect6, 0, 0, 0, 0, 0, word(mask)), NO_MEMORY);
	expect_refused(AT(SYS_select, 0, 0, 0, 0, hidden), NO_MEMORY);
	expect_refused(AT(SYS_epoll_pwait, set, 0, 1, (uint64_t)-1, hidden, 8), NO_MEMORY);
	expect_refused(AT(SYS_epoll_pwait2, set, 0, 1, 0, hidden, 8), NO_MEMORY);
	/* The address is the end of what can be mapped, and the length is more than there is. */
	expect_refused(AT(SYS_readv, end, UINT64_MAX - 8, 1), NO_MEMORY);
	expect_refused(AT(SYS_semtimedop, 0, UINT64_MAX - 8, UINT64_MAX), NO_MEMORY);
	munmap((void *)(uintptr_t)hidden, PAGE);
	close(fds[0]);
	close(fds[1]);
}

static void arguments_that_can_be_read_are_accepted(void **state)
{
	FLMEM_AUTO_CLOSE int epoll = epoll_create1(EPOLL_CLOEXEC);
	const struct sembuf operations[700] = {{0}}; /* an array that covers several pages */
	const struct timespec time = {.tv_sec = 2};
	sigset_t signals;
	uint64_t mask[] = {word(&signals), 8}, none[] = {0, 8};
	struct iovec lists[2] = {{0}};
	struct msghdr message = {.msg_iov = lists, .msg_iovlen = 2};
	int fds[2];
	uint64_t end;

	(void)state;
	sigemptyset(&signals);
	assert_int_equal(pipe(fds), 0);
	expect(AT(SYS_readv, (uint64_t)fds[0], word(lists), 2), FLMEM_WAIT_ENDLESS, 0, false);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	end = (uint64_t)fds[0];
	expect(AT(SYS_recvmsg, end, word(&message)), FLMEM_WAIT_UNSURE, 0, true);
	expect(AT(SYS_rt_sigsuspend, word(&signals), 8), FLMEM_WAIT_ENDLESS, 0, false);
	expect(AT(SYS_semtimedop, 0, word(operations), 700), FLMEM_WAIT_ENDLESS, 0, false);
	expect(AT(SYS_ppoll, 0, 0, word(&time), word(&signals), 8), FLMEM_WAIT_DEADLINE, 0, true);
	expect(AT(SYS_pselect6, 0, 0, 0, 0, 0, word(mask)), FLMEM_WAIT_ENDLESS, 0, false);
	expect(AT(SYS_pselect6, 0, 0, 0, 0, 0, word(none)), FLMEM_WAIT_ENDLESS, 0, false);
	expect(AT(SYS_epoll_pwait, (uint64_t)epoll, 0, 1, (uint64_t)-1, word(&signals), 8),
	       FLMEM_WAIT_ENDLESS, 0, false);
	close(fds[0]);
	close(fds[1]);
}

/* The kernel writes the rest of an interrupted sleep, and gives EFAULT if it cannot. */
static void sleeps_can_be_given_the_rest_of_their_time(void **state)
{
	static const struct timespec fixed = {.tv_sec = 2};
	struct timespec rest;

	(void)state;
	expect_refused(AT(SYS_nanosleep, word(&fixed), word(&fixed)), NO_REST);
	expect_refused(AT(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, word(&fixed), word(&fixed)),
		       NO_REST);
	expect_refused(AT(SYS_nanosleep, word(&fixed), 1 << 20), NO_REST);
	expect(AT(SYS_nanosleep, word(&fixed), word(&rest)), FLMEM_WAIT_RELATIVE, 2000000, false);
	expect(AT(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, word(&fixed), word(&fixed)),
	       FLMEM_WAIT_DEADLINE, 0, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(children_are_waited_for_where_there_are_any),
		cmocka_unit_test(children_that_may_have_changed_are_not_waited_for),
		cmocka_unit_test(descriptors_of_children_are_of_children),
		cmocka_unit_test(children_are_those_of_any_thread),
		cmocka_unit_test(sockets_are_waited_for_by_their_calls_alone),
		cmocka_unit_test(what_is_always_ready_is_not_polled),
		cmocka_unit_test(what_cannot_be_read_is_not_waited_for),
		cmocka_unit_test(connections_are_accepted_below_the_limit),
		cmocka_unit_test(arguments_that_cannot_be_read_are_refused),
		cmocka_unit_test(arguments_that_can_be_read_are_accepted),
		cmocka_unit_test(sleeps_can_be_given_the_rest_of_their_time),
	};

	return cmocka_run_group_tests_name("wait_changes", tests, open_self, close_self);
}
