/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which waits a thread may be borrowed from, by the call and its arguments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/process.h"
#include "proc/task.h"
#include "remote/checks/waits.h"
#include "wait_kind.h"

#define LOCK	"is waiting for a lock"
#define OURS	"is waiting for a lock, possibly the allocator's"
#define FILE_	"is reading a file"
#define UNKNOWN "is in a system call that must not be interrupted"

static uint32_t lock;

static void locks_are_not_waited_for(void **state)
{
	static const int others[] = {FUTEX_LOCK_PI,	13 /* FUTEX_LOCK_PI2 */,
				     FUTEX_TRYLOCK_PI,	FUTEX_WAIT_REQUEUE_PI,
				     FUTEX_CMP_REQUEUE, FUTEX_WAKE};

	(void)state;
	for (uint64_t value = 0; value < 4; value++) {
		if (value == 2)
			continue;
		expect(AT(SYS_futex, word(&lock), FUTEX_WAIT, value), FLMEM_WAIT_ENDLESS, 0, false);
		expect(AT(SYS_futex, word(&lock), FUTEX_WAIT_BITSET_PRIVATE, value),
		       FLMEM_WAIT_ENDLESS, 0, false);
	}
	expect_refused(AT(SYS_futex, word(&lock), FUTEX_WAIT, 2), OURS);
	expect_refused(AT(SYS_futex, word(&lock), FUTEX_WAIT_PRIVATE, 2), OURS);
	expect_refused(AT(SYS_futex, word(&lock), FUTEX_WAIT_BITSET, 2), OURS);
	expect_refused(
		AT(SYS_futex, word(&lock), FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 2),
		OURS);
	/* The kernel compares 32 bits. */
	expect_refused(AT(SYS_futex, word(&lock), FUTEX_WAIT, UINT64_C(0x100000002)), OURS);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(others); i++)
		expect_refused(AT(SYS_futex, word(&lock), (uint64_t)others[i], 0), LOCK);
}

static void timeouts_of_futexes_are_known(void **state)
{
	const struct timespec time = {.tv_sec = 3, .tv_nsec = 5000};

	(void)state;
	expect(AT(SYS_futex, word(&lock), FUTEX_WAIT, 0, word(&time)), FLMEM_WAIT_RELATIVE, 3000005,
	       false);
	expect(AT(SYS_futex, word(&lock), FUTEX_WAIT_BITSET, 0, word(&time)), FLMEM_WAIT_DEADLINE,
	       0, false);
	expect_refused(AT(SYS_futex, word(&lock), FUTEX_WAIT, 0, 8),
		       "is in a wait whose timeout cannot be read");
}

static void calls_that_are_not_listed_are_refused(void **state)
{
	/* 449 is futex_waitv, 455 futex_wait, 456 futex_requeue. */
	static const long numbers[] = {SYS_restart_syscall,
				       SYS_ioctl,
				       SYS_write,
				       SYS_io_getevents,
				       SYS_semop,
				       SYS_openat,
				       SYS_sched_yield,
				       SYS_connect,
				       SYS_recvmmsg,
				       SYS_vfork,
				       449,
				       455,
				       456,
				       -1};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(numbers); i++)
		expect_refused(AT(numbers[i], 0), UNKNOWN);
}

static void only_streams_are_read(void **state)
{
	static const long calls[] = {SYS_read,	 SYS_readv,   SYS_recvfrom,   SYS_recvmsg,
				     SYS_accept, SYS_accept4, SYS_epoll_wait, SYS_epoll_pwait};
	char path[] = "/tmp/flmem-file-XXXXXX";
	int fds[2];
	FLMEM_AUTO_CLOSE int file = mkstemp(path);
	FLMEM_AUTO_CLOSE int memory = memfd_create("test", MFD_CLOEXEC);
	FLMEM_AUTO_CLOSE int directory = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FLMEM_AUTO_CLOSE int counter = eventfd(0, EFD_CLOEXEC);
	FLMEM_AUTO_CLOSE int device = posix_openpt(O_RDONLY | O_NOCTTY | O_CLOEXEC);
	const int files[] = {file, memory, directory, 1 << 20};

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_true(file >= 0 && memory >= 0 && directory >= 0 && counter >= 0 && device >= 0);
	unlink(path);
	expect(AT(SYS_read, (uint64_t)fds[0]), FLMEM_WAIT_ENDLESS, 0, false);
	expect(AT(SYS_readv, (uint64_t)device), FLMEM_WAIT_ENDLESS, 0, false);
	expect(AT(SYS_read, (uint64_t)counter), FLMEM_WAIT_ENDLESS, 0, false);
	/* The kernel takes 32 bits of the descriptor. */
	expect(AT(SYS_read, (uint64_t)fds[0] | UINT64_C(1) << 32), FLMEM_WAIT_ENDLESS, 0, false);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(calls); i++)
		for (size_t j = 0; j < FLMEM_ARRAY_SIZE(files); j++)
			expect_refused(AT(calls[i], (uint64_t)files[j], 0, 0, (uint64_t)-1), FILE_);
	close(fds[0]);
	close(fds[1]);
}

static void reads_that_would_not_wait_again_are_refused(void **state)
{
	static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full"};
	static const long calls[] = {SYS_read, SYS_readv, SYS_recvfrom, SYS_accept4};
	int fds[2];

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(devices); i++) {
		FLMEM_AUTO_CLOSE int device = open(devices[i], O_RDONLY | O_CLOEXEC);

		expect_refused(AT(SYS_read, (uint64_t)device),
			       "is reading from a descriptor that was replaced since");
	}
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(calls); i++)
		expect_refused(AT(calls[i], (uint64_t)fds[0]),
			       "is reading from a descriptor that no longer waits (O_NONBLOCK)");
	expect_refused(AT(SYS_epoll_wait, (uint64_t)fds[0], 0, 0, (uint64_t)-1),
		       "waits on a descriptor that was replaced since");
	close(fds[0]);
	close(fds[1]);
}

/* A thread with a descriptor table of its own, which waits for a pipe. */
struct apart {
	int fds[2];
	_Atomic pid_t tid; /* -1: it has no table of its own */
};

static void *poll_with_own_table(void *context)
{
	struct apart *apart = context;
	struct pollfd input = {.fd = apart->fds[0], .events = POLLIN};

	atomic_store(&apart->tid, unshare(CLONE_FILES) ? -1 : gettid());
	poll(&input, 1, -1);
	return NULL;
}

static void the_descriptors_are_those_of_the_thread(void **state)
{
	FLMEM_AUTO_CLOSE int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const struct flmem_task_wait *reads;
	struct apart apart = {.tid = 0};
	const char *reason = NULL;
	pthread_t thread;
	int same_file;

	(void)state;
	assert_int_equal(pipe(apart.fds), 0);
	assert_int_equal(pthread_create(&thread, NULL, poll_with_own_table, &apart), 0);
	while (!atomic_load(&apart.tid))
		usleep(1000);
	assert_true(apart.tid > 0);
	same_file = dup(apart.fds[0]);
	assert_int_equal(dup2(null, apart.fds[0]), apart.fds[0]);
	reads = AT(SYS_read, (uint64_t)apart.fds[0]);
	expect_refused(reads, "is reading from a descriptor that was replaced since");
	assert_true(flmem_wait_classify(&self, apart.tid, reads, &kind, &reason));
	assert_int_equal(fcntl(same_file, F_SETFL, O_NONBLOCK), 0);
	assert_false(flmem_wait_classify(&self, apart.tid, reads, &kind, &reason));
	assert_non_null(strstr(reason, "(O_NONBLOCK)"));
	assert_int_equal(write(apart.fds[1], ".", 1), 1);
	pthread_join(thread, NULL);
	close(same_file);
	close(apart.fds[0]);
	close(apart.fds[1]);
}

static void no_more_is_polled_than_the_limit_allows(void **state)
{
	struct rlimit limit, lower;
	struct pollfd rows[65];

	memset(rows, 0xff, sizeof(rows));
	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	lower = (struct rlimit){.rlim_cur = 64, .rlim_max = limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &lower), 0);
	expect(AT(SYS_poll, word(rows), 64, (uint64_t)-1), FLMEM_WAIT_ENDLESS, 0, false);
	expect_refused(AT(SYS_poll, word(rows), 65, (uint64_t)-1),
		       "polls more descriptors than its limit (ulimit -n) now allows");
	expect_refused(AT(SYS_ppoll, word(rows), 65, 0),
		       "polls more descriptors than its limit (ulimit -n) now allows");
	expect(AT(SYS_select, 65, 0, 0, 0, 0), FLMEM_WAIT_ENDLESS, 0, false);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* A futex that is made again on such a word gives EFAULT, for which glibc ends the program. */
static void words_that_cannot_be_read_are_not_waited_for(void **state)
{
	static const char gone[] = "waits for a word that can no longer be read";
	FLMEM_AUTO_CLOSE int file = memfd_create("test", MFD_CLOEXEC);
	uint32_t *page;

	(void)state;
	assert_int_equal(ftruncate(file, 4096), 0);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	*page = 1;
	expect(AT(SYS_futex, word(page), FUTEX_WAIT, 0), FLMEM_WAIT_ENDLESS, 0, false);
	assert_int_equal(ftruncate(file, 0), 0);
	expect_refused(AT(SYS_futex, word(page), FUTEX_WAIT, 0), gone);
	assert_int_equal(ftruncate(file, 4096), 0);
	assert_int_equal(mprotect(page, 4096, PROT_NONE), 0);
	expect_refused(AT(SYS_futex, word(page), FUTEX_WAIT_BITSET_PRIVATE, 0), gone);
	munmap(page, 4096);
	expect_refused(AT(SYS_futex, word(page), FUTEX_WAIT, 0), gone);
}

/* The number of the standard input is 0. */
static void the_first_descriptor_counts(const char *closed)
{
	struct pollfd row = {.fd = 0, .events = POLLIN};
	int kept = dup(0);

	assert_true(kept > 0);
	close(0);
	expect_refused(AT(SYS_poll, word(&row), 1, (uint64_t)-1), closed);
	assert_int_equal(dup2(kept, 0), 0);
	close(kept);
}

static void closed_descriptors_are_not_polled(void **state)
{
	static const char closed[] = "polls a descriptor that was closed since";
	struct pollfd rows[66];
	fd_set set;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	memset(rows, 0xff, sizeof(rows));
	rows[65].fd = fds[0];
	FD_ZERO(&set);
	FD_SET(fds[0], &set);
	for (unsigned gone = 0; gone < 2; gone++) {
		const struct flmem_task_wait waits[] = {
			*AT(SYS_poll, word(rows), 66, (uint64_t)-1),
			*AT(SYS_ppoll, word(rows), 66, 0),
			*AT(SYS_select, (uint64_t)fds[0] + 1, word(&set), 0, 0, 0),
			*AT(SYS_pselect6, (uint64_t)fds[0] + 1, 0, 0, word(&set), 0),
		};

		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(waits); i++)
			if (gone)
				expect_refused(&waits[i], closed);
			else
				expect(&waits[i], FLMEM_WAIT_ENDLESS, 0, false);
		close(fds[0]);
	}
	close(fds[1]);
	the_first_descriptor_counts(closed);
	expect_refused(AT(SYS_poll, 64, 1, (uint64_t)-1),
		       "polls by a list that can no longer be read");
	expect_refused(AT(SYS_select, 9, 64, 0, 0, 0),
		       "polls by a list that can no longer be read");
}

/* The terminal of its own session, whose first process reads it. */
struct session {
	int master, terminal;
	pid_t first;
};

/*
 * Runs as the first process, which owns the terminal; another process is in the foreground, or
 * none.
 */
static void be_first(const char *name, bool background, int ready)
{
	const int terminal = setsid() < 0 ? -1 : open(name, O_RDWR);
	pid_t other = background ? fork() : -1;

	if (other == 0)
		for (;;)
			pause();
	if (terminal < 0 || (background && (setpgid(other, other) || tcsetpgrp(terminal, other))) ||
	    write(ready, &terminal, sizeof(terminal)) != sizeof(terminal))
		_exit(2);
	for (;;)
		pause();
}

static struct session open_session(bool background)
{
	struct session session = {.master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
	const char *name;
	int fds[2];

	assert_true(session.master >= 0 && grantpt(session.master) == 0 &&
		    unlockpt(session.master) == 0);
	name = ptsname(session.master);
	assert_non_null(name);
	assert_int_equal(pipe(fds), 0);
	session.first = fork();
	assert_true(session.first >= 0);
	if (!session.first)
		be_first(name, background, fds[1]);
	close(fds[1]);
	assert_int_equal(read(fds[0], &session.terminal, sizeof(int)), sizeof(int));
	close(fds[0]);
	return session;
}

/* Hangs the terminal up, which ends the process in its foreground. */
static void close_session(const struct session *session)
{
	kill(session->first, SIGKILL);
	waitpid(session->first, NULL, 0);
	close(session->master);
}

static void a_terminal_is_read_in_the_foreground_only(void **state)
{
	(void)state;
	for (unsigned background = 0; background < 2; background++) {
		const struct session session = open_session(background);
		const struct flmem_task_wait *reads = AT(SYS_read, (uint64_t)session.terminal);
		FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
		const char *reason = NULL;

		assert_int_equal(flmem_process_open(session.first, &process, NULL), 0);
		assert_int_equal(
			flmem_wait_classify(&process, session.first, reads, &kind, &reason),
			!background);
		if (background)
			assert_string_equal(reason, "is reading a terminal in the background");
		close_session(&session);
	}
}

static void sockets_may_have_a_timeout(void **state)
{
	static const long calls[] = {SYS_read,	  SYS_readv,  SYS_recvfrom,
				     SYS_recvmsg, SYS_accept, SYS_accept4};
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(calls); i++)
		expect(AT(calls[i], (uint64_t)fds[0]), FLMEM_WAIT_UNSURE, 0, true);
	expect(AT(SYS_recvfrom, (uint64_t)fds[0], 0, 9, MSG_PEEK), FLMEM_WAIT_UNSURE, 0, true);
	expect_refused(AT(SYS_recvfrom, (uint64_t)fds[0], 0, 9, MSG_WAITALL),
		       "is reading until its buffer is full");
	expect_refused(AT(SYS_recvmsg, (uint64_t)fds[0], 0, MSG_WAITALL),
		       "is reading until its buffer is full");
	close(fds[0]);
	close(fds[1]);
}

static void timeouts_of_polls_are_known(void **state)
{
	const struct timespec time = {.tv_sec = 2};
	FLMEM_AUTO_CLOSE int epoll = epoll_create1(EPOLL_CLOEXEC);
	uint64_t fd = (uint64_t)epoll;

	(void)state;
	expect(AT(SYS_poll, 0, 0, UINT32_MAX), FLMEM_WAIT_ENDLESS, 0, false);
	expect(AT(SYS_poll, 0, 0, 7), FLMEM_WAIT_RELATIVE, 7000, false);
	expect(AT(SYS_epoll_wait, fd, 0, 1, UINT32_MAX), FLMEM_WAIT_ENDLESS, 0, false);
	expect(AT(SYS_epoll_pwait, fd, 0, 1, 7), FLMEM_WAIT_RELATIVE, 7000, false);
	expect(AT(SYS_epoll_pwait2, fd, 0, 1, word(&time)), FLMEM_WAIT_RELATIVE, 2000000, false);
	expect(AT(SYS_epoll_pwait2, fd, 0, 1, 0), FLMEM_WAIT_ENDLESS, 0, false);
	/* The kernel updates these times where it can, and gives EINTR where it cannot. */
	expect(AT(SYS_ppoll, 0, 0, word(&time)), FLMEM_WAIT_DEADLINE, 0, true);
	expect(AT(SYS_ppoll, 0, 0, 0), FLMEM_WAIT_ENDLESS, 0, false);
	expect(AT(SYS_select, 0, 0, 0, 0, word(&time)), FLMEM_WAIT_DEADLINE, 0, true);
	expect(AT(SYS_pselect6, 0, 0, 0, 0, word(&time)), FLMEM_WAIT_DEADLINE, 0, true);
	expect(AT(SYS_pselect6, 0, 0, 0, 0, 0), FLMEM_WAIT_ENDLESS, 0, false);
}

static void timeouts_of_other_waits_are_known(void **state)
{
	struct timespec time = {.tv_sec = 2}, rest;

	(void)state;
	expect(AT(SYS_nanosleep, word(&time), 0), FLMEM_WAIT_RELATIVE, 2000000, false);
	expect(AT(SYS_nanosleep, word(&time), word(&rest)), FLMEM_WAIT_RELATIVE, 2000000, false);
	expect(AT(SYS_nanosleep, word(&time), word(&time)), FLMEM_WAIT_DEADLINE, 0, false);
	expect(AT(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, word(&time), 0), FLMEM_WAIT_RELATIVE,
	       2000000, false);
	expect(AT(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, word(&time), word(&time)),
	       FLMEM_WAIT_DEADLINE, 0, false);
	expect(AT(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, word(&time), 0),
	       FLMEM_WAIT_DEADLINE, 0, false);
	expect(AT(SYS_rt_sigtimedwait, 0, 0, word(&time)), FLMEM_WAIT_RELATIVE, 2000000, false);
	expect(AT(SYS_semtimedop, 0, 0, 1, word(&time)), FLMEM_WAIT_RELATIVE, 2000000, false);
	expect(AT(SYS_semtimedop, 0, 0, 1, 0), FLMEM_WAIT_ENDLESS, 0, false);
	time.tv_sec = -1;
	expect(AT(SYS_rt_sigtimedwait, 0, 0, word(&time)), FLMEM_WAIT_RELATIVE, UINT64_MAX, false);
}

static bool stop_restarts(const struct flmem_task_wait *at)
{
	const char *reason = refusal(at);

	if (reason)
		fail_msg("system call %ld %s", at->number, reason);
	return kind.stop_restarts;
}

/* For other calls the kernel resumes the rest; waits without a timeout have none to restart. */
static void timeouts_that_a_stop_restarts_are_known(void **state)
{
	const struct timespec time = {.tv_sec = 2};
	FLMEM_AUTO_CLOSE int epoll = epoll_create1(EPOLL_CLOEXEC);
	uint64_t fd = (uint64_t)epoll;

	(void)state;
	assert_false(stop_restarts(AT(SYS_epoll_pwait, fd, 0, 1, UINT32_MAX)));
	assert_true(stop_restarts(AT(SYS_epoll_pwait, fd, 0, 1, 7)));
	assert_true(stop_restarts(AT(SYS_epoll_wait, fd, 0, 1, 7)));
	assert_false(stop_restarts(AT(SYS_epoll_pwait2, fd, 0, 1, 0)));
	assert_true(stop_restarts(AT(SYS_epoll_pwait2, fd, 0, 1, word(&time))));
	assert_false(stop_restarts(AT(SYS_rt_sigtimedwait, 0, 0, 0)));
	assert_true(stop_restarts(AT(SYS_rt_sigtimedwait, 0, 0, word(&time))));
	assert_false(stop_restarts(AT(SYS_semtimedop, 0, 0, 1, 0)));
	assert_true(stop_restarts(AT(SYS_semtimedop, 0, 0, 1, word(&time))));
	assert_false(stop_restarts(AT(SYS_poll, 0, 0, 7)));
	assert_false(stop_restarts(AT(SYS_ppoll, 0, 0, word(&time))));
	assert_false(stop_restarts(AT(SYS_nanosleep, word(&time), 0)));
	assert_false(stop_restarts(AT(SYS_futex, word(&lock), FUTEX_WAIT, 0, word(&time))));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(locks_are_not_waited_for),
		cmocka_unit_test(timeouts_of_futexes_are_known),
		cmocka_unit_test(calls_that_are_not_listed_are_refused),
		cmocka_unit_test(only_streams_are_read),
		cmocka_unit_test(reads_that_would_not_wait_again_are_refused),
		cmocka_unit_test(the_descriptors_are_those_of_the_thread),
		cmocka_unit_test(no_more_is_polled_than_the_limit_allows),
		cmocka_unit_test(words_that_cannot_be_read_are_not_waited_for),
		cmocka_unit_test(closed_descriptors_are_not_polled),
		cmocka_unit_test(a_terminal_is_read_in_the_foreground_only),
		cmocka_unit_test(sockets_may_have_a_timeout),
		cmocka_unit_test(timeouts_of_polls_are_known),
		cmocka_unit_test(timeouts_of_other_waits_are_known),
		cmocka_unit_test(timeouts_that_a_stop_restarts_are_known),
	};

	return cmocka_run_group_tests_name("wait_kinds", tests, open_self, close_self);
}
