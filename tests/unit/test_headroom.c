/* SPDX-License-Identifier: Apache-2.0 */
/* Tests what the limits of a process leave it to allocate. */
#include "borrowed.h"

#include <linux/capability.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/files/io.h"
#include "base/text/buf.h"
#include "proc/limits/headroom.h"

#define BYTES (UINT64_C(16) << 20)
#define LARGE (UINT64_C(1) << 40)

#define NOBODY	     65534
#define PAGES	     ((size_t)1 << 18)
#define LOCKED_BYTES ((size_t)64 << 10)

/* The host's committed memory below vm.overcommit_memory = 2; NULL: the real one. */
static const char *committed;

int __real_flmem_io_read_file_at(int dirfd, const char *path, size_t limit, struct flmem_buf *buf);
int __wrap_flmem_io_read_file_at(int dirfd, const char *path, size_t limit, struct flmem_buf *buf);
int __wrap_flmem_io_read_file_at(int dirfd, const char *path, size_t limit, struct flmem_buf *buf)
{
	const char *text = NULL;

	if (committed && strcmp(path, "/proc/sys/vm/overcommit_memory") == 0)
		text = "2\n";
	else if (committed && strcmp(path, "/proc/meminfo") == 0)
		text = committed;
	if (!text)
		return __real_flmem_io_read_file_at(dirfd, path, limit, buf);
	flmem_buf_puts(buf, text);
	return 0;
}

static pid_t child;
static _Atomic int *shared;
static struct target target;

static void be_idle(void)
{
	for (;;)
		pause();
}

static void start(void)
{
	child = child_start(be_idle);
	assert_true(child > 0);
	target_open(child, &target);
}

static void end(void)
{
	target_close(&target);
	child_end(child);
}

static void set_limit(enum __rlimit_resource which, rlim_t bytes)
{
	const struct rlimit limit = {bytes, RLIM_INFINITY};

	assert_int_equal(prlimit(child, which, &limit, NULL), 0);
}

static void expect_refusal(const char *text)
{
	struct flmem_error err = {0};

	assert_int_equal(flmem_headroom_check(&target.process, BYTES, &err), FLMEM_EUNSAFE);
	if (!strstr(err.message, text))
		fail_msg("%s", err.message);
}

static void a_limit_that_is_far_off_refuses_nothing(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	start();
	set_limit(RLIMIT_AS, LARGE << 5);
	set_limit(RLIMIT_DATA, LARGE << 5);
	if (flmem_headroom_check(&target.process, BYTES, &err) &&
	    !strstr(err.message, "vm.overcommit_memory"))
		fail_msg("%s", err.message);
	end();
}

static void a_full_address_space_is_refused(void **state)
{
	(void)state;
	start();
	set_limit(RLIMIT_AS, 1 << 20);
	expect_refusal("address space");
	end();
}

static rlim_t address_space(void)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	assert_int_equal(flmem_io_read_file_at(target.process.dirfd, "statm", 4096, &text), 0);
	return strtoull(text.data, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* glibc keeps the arena and the stack of a thread, which the program would lack. */
static void what_a_thread_reserves_is_left_to_the_program(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	start();
	set_limit(RLIMIT_AS, address_space() + ((rlim_t)255 << 20));
	expect_refusal("its address space (ulimit -v) leaves less than 256 MiB");
	set_limit(RLIMIT_AS, address_space() + ((rlim_t)257 << 20));
	if (flmem_headroom_check(&target.process, BYTES, &err) &&
	    !strstr(err.message, "vm.overcommit_memory"))
		fail_msg("%s", err.message);
	end();
}

/* glibc gives a thread a stack as large as the limit of the first one's. */
static void a_large_stack_is_left_to_the_program(void **state)
{
	const rlim_t stack = (rlim_t)1 << 30, usual = (rlim_t)8 << 20;
	struct flmem_error err = {0};

	(void)state;
	start();
	set_limit(RLIMIT_STACK, stack);
	set_limit(RLIMIT_AS, address_space() + stack - usual + ((rlim_t)255 << 20));
	assert_int_equal(flmem_headroom_check_thread(&target.process, BYTES, &err), FLMEM_EUNSAFE);
	if (!strstr(err.message, "its address space (ulimit -v) leaves less than 1272 MiB"))
		fail_msg("%s", err.message);
	set_limit(RLIMIT_AS, address_space() + stack - usual + ((rlim_t)257 << 20));
	if (flmem_headroom_check_thread(&target.process, BYTES, &err) &&
	    !strstr(err.message, "vm.overcommit_memory"))
		fail_msg("%s", err.message);
	/* The stack is then 2 MiB. */
	set_limit(RLIMIT_STACK, RLIM_INFINITY);
	set_limit(RLIMIT_AS, address_space() + ((rlim_t)257 << 20));
	if (flmem_headroom_check_thread(&target.process, BYTES, &err) &&
	    !strstr(err.message, "vm.overcommit_memory"))
		fail_msg("%s", err.message);
	end();
}

static void full_data_is_refused(void **state)
{
	(void)state;
	start();
	set_limit(RLIMIT_DATA, 1 << 20);
	expect_refusal("its data");
	end();
}

/* Gives every other page other rights, so that each page is a mapping. */
static void be_fragmented(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, PAGES * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool full = false;

	for (size_t i = 0; pages != MAP_FAILED && i < PAGES && !full; i += 2)
		full = mprotect(pages + i * page, page, PROT_NONE) != 0;
	atomic_store(shared, full ? 1 : -1);
	for (;;)
		pause();
}

static void many_mappings_are_refused(void **state)
{
	bool full;

	(void)state;
	shared = child_share(sizeof(*shared));
	assert_non_null(shared);
	child = child_start(be_fragmented);
	assert_true(child > 0);
	await_true(atomic_load(shared));
	full = atomic_load(shared) > 0;
	if (full) {
		target_open(child, &target);
		expect_refusal("nearly as many mappings as the kernel allows (vm.max_map_count)");
		target_close(&target);
	}
	child_end(child);
	assert_int_equal(munmap(shared, sizeof(*shared)), 0);
	if (!full) {
		print_message("SKIP: a process may have more than %zu mappings here\n", PAGES);
		skip();
	}
}

static void be_locked(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	atomic_store(shared, page != MAP_FAILED && syscall(SYS_mlock, page, 4096) == 0 ? 1 : -1);
	be_idle();
}

/* A call of mlockall() cannot be seen. */
static void a_large_stack_that_may_be_locked_is_refused(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	shared = child_share(sizeof(*shared));
	assert_non_null(shared);
	child = child_start(be_locked);
	assert_true(child > 0);
	await_true(atomic_load(shared));
	target_open(child, &target);
	if (atomic_load(shared) > 0) {
		set_limit(RLIMIT_STACK, (rlim_t)65 << 20);
		assert_int_equal(flmem_headroom_check_thread(&target.process, BYTES, &err),
				 FLMEM_EUNSAFE);
		if (!strstr(err.message, "locks memory, and the stack of a new thread would have "
					 "65 MiB"))
			fail_msg("%s", err.message);
		set_limit(RLIMIT_STACK, (rlim_t)64 << 20);
		/* Another limit may refuse it, which is low without privileges. */
		if (flmem_headroom_check_thread(&target.process, BYTES, &err) &&
		    strstr(err.message, "the stack of a new thread"))
			fail_msg("%s", err.message);
	} else {
		print_message("SKIP: no memory may be locked here\n");
	}
	end();
	assert_int_equal(munmap(shared, sizeof(*shared)), 0);
}

static bool locks;

/* Runs below a low limit, without the capability that lifts it. */
static void be_limited(void)
{
	const struct rlimit limit = {LOCKED_BYTES * 2, LOCKED_BYTES * 2};
	bool ready = prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0) == 0 || geteuid() != 0;

	if (geteuid() == 0)
		ready = ready && setgid(NOBODY) == 0 && setuid(NOBODY) == 0;
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ready = ready && setrlimit(RLIMIT_MEMLOCK, &limit) == 0;
	if (locks)
		ready = ready && syscall(SYS_mlockall, MCL_FUTURE) == 0 &&
			mmap(NULL, LOCKED_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
	atomic_store(shared, ready ? 1 : -1);
	for (;;)
		pause();
}

/* Returns the code of flmem_headroom_check(); 1 where this user may not set that up. */
static int check_limited(bool locked, struct flmem_error *err)
{
	int rc = 1;

	locks = locked;
	atomic_store(shared, 0);
	child = child_start(be_limited);
	assert_true(child > 0);
	await_true(atomic_load(shared));
	if (atomic_load(shared) > 0) {
		target_open(child, &target);
		rc = flmem_headroom_check(&target.process, BYTES, err);
		target_close(&target);
	}
	child_end(child);
	return rc;
}

/* After mlockall() the kernel refuses a new mapping above the limit. */
static void full_locked_memory_is_refused(void **state)
{
	struct flmem_error err = {0};
	int rc;

	(void)state;
	shared = child_share(sizeof(*shared));
	assert_non_null(shared);
	rc = check_limited(true, &err);
	if (rc == 1) {
		print_message("SKIP: no memory may be locked here\n");
		skip();
	}
	assert_int_equal(rc, FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "its locked memory (ulimit -l)"));
	assert_int_equal(check_limited(false, NULL), 0);
	assert_int_equal(munmap(shared, sizeof(*shared)), 0);
}

/* Tests vm.overcommit_memory = 2; 16 MiB are requested. */
static void a_host_that_never_overcommits_is_asked(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	start();
	committed = "MemTotal: 1 kB\nCommitLimit:      65536 kB\nCommitted_AS:     49153 kB\n";
	expect_refusal("this host (vm.overcommit_memory is 2)");
	committed = "MemTotal: 1 kB\nCommitLimit:      65536 kB\nCommitted_AS:     65537 kB\n";
	expect_refusal("this host (vm.overcommit_memory is 2)");
	committed = "MemTotal:         65536 kB\n";
	expect_refusal("this host (vm.overcommit_memory is 2)");
	committed = "MemTotal: 1 kB\nCommitLimit:      65536 kB\nCommitted_AS:     49152 kB\n";
	if (flmem_headroom_check(&target.process, BYTES, &err))
		fail_msg("%s", err.message);
	committed = NULL;
	end();
}

/* The next bytes do not fit below the limit, given the used memory. */
static void a_limit_that_is_near_is_refused(void **state)
{
	struct rlimit none;

	(void)state;
	start();
	assert_int_equal(prlimit(child, RLIMIT_AS, NULL, &none), 0);
	for (uint64_t limit = BYTES; limit < LARGE << 5; limit *= 2) {
		set_limit(RLIMIT_AS, limit);
		if (!flmem_headroom_check(&target.process, BYTES, NULL)) {
			assert_int_equal(flmem_headroom_check(&target.process, limit, NULL),
					 FLMEM_EUNSAFE);
			break;
		}
	}
	end();
}

/* A user that no other test has. */
#define USER  (200000U + (unsigned)getpid())
#define SPARE 16U

static rlim_t tasks;
static unsigned user;

/* There may be one more process of the user than is counted; 2: the kernel lets it fork. */
static void be_of_user(void)
{
	const struct rlimit limit = {tasks, tasks};
	bool ready = !user || (setgid(user) == 0 && setuid(user) == 0);
	pid_t forked;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ready = ready && setrlimit(RLIMIT_NPROC, &limit) == 0;
	forked = ready ? fork() : -1;
	if (forked == 0)
		_exit(0);
	if (forked > 0)
		waitpid(forked, NULL, 0);
	atomic_store(shared, !ready ? -1 : forked > 0 ? 2 : 1);
	for (;;)
		pause();
}

/* Returns the code of flmem_headroom_check_tasks(); skips the test where no user may be chosen. */
static int check_tasks_of(unsigned who, rlim_t most, bool *ret_forks, struct flmem_error *err)
{
	int rc = 0, said;

	user = who;
	tasks = most;
	shared = child_share(sizeof(*shared));
	assert_non_null(shared);
	child = child_start(be_of_user);
	assert_true(child > 0);
	await_true(atomic_load(shared));
	said = atomic_load(shared);
	if (said > 0) {
		target_open(child, &target);
		rc = flmem_headroom_check_tasks(&target.process, err);
		target_close(&target);
	}
	child_end(child);
	assert_int_equal(munmap(shared, sizeof(*shared)), 0);
	if (said < 0) {
		print_message("SKIP: needs root\n");
		skip();
	}
	*ret_forks = said == 2;
	return rc;
}

static void the_last_places_of_a_user_are_left(void **state)
{
	struct flmem_error err = {0};
	bool forks;

	(void)state;
	assert_int_equal(check_tasks_of(USER, 1, &forks, &err), FLMEM_EUNSAFE);
	assert_false(forks);
	assert_non_null(strstr(err.message, "may start 0 more threads (ulimit -u)"));
	assert_int_equal(check_tasks_of(USER, 1 + SPARE, &forks, &err), FLMEM_EUNSAFE);
	assert_true(forks);
	assert_non_null(strstr(err.message, "may start 16 more threads (ulimit -u)"));
	assert_int_equal(check_tasks_of(USER, 2 + SPARE, &forks, &err), 0);
}

/* The limit does not apply to root of the first user namespace. */
static void root_has_as_many_places_as_the_kernel_says(void **state)
{
	struct flmem_error err = {0};
	bool forks;
	int rc;

	(void)state;
	if (geteuid() != 0)
		skip();
	rc = check_tasks_of(0, 1, &forks, &err);
	assert_int_equal(rc, forks ? 0 : FLMEM_EUNSAFE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_limit_that_is_far_off_refuses_nothing),
		cmocka_unit_test(a_full_address_space_is_refused),
		cmocka_unit_test(what_a_thread_reserves_is_left_to_the_program),
		cmocka_unit_test(a_large_stack_is_left_to_the_program),
		cmocka_unit_test(a_large_stack_that_may_be_locked_is_refused),
		cmocka_unit_test(full_data_is_refused),
		cmocka_unit_test(many_mappings_are_refused),
		cmocka_unit_test(full_locked_memory_is_refused),
		cmocka_unit_test(a_limit_that_is_near_is_refused),
		cmocka_unit_test(a_host_that_never_overcommits_is_asked),
		cmocka_unit_test(the_last_places_of_a_user_are_left),
		cmocka_unit_test(root_has_as_many_places_as_the_kernel_says),
	};

	return cmocka_run_group_tests_name("headroom", tests, NULL, NULL);
}
