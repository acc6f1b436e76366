/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that data which cannot be read of a thread may be anything; only a thread that has ended is
 * skipped.
 */
#include "own_child.h"

#include <sys/syscall.h>

#include "ops/profile/attached.h"
#include "proc/status.h"
#include "proc/task.h"
#include "remote/checks/fork_checks.h"
#include "remote/checks/handlers.h"
#include "remote/checks/libc_stack.h"
#include "remote/checks/libc_threads.h"
#include "remote/checks/thread_stack.h"
#include "remote/gadgets.h"
#include "remote/seccomp/seccomp.h"

/* Results of reading lists, states and waits; 0: the real results. */
static struct {
	int tasks, status, wait;
	unsigned statuses; /* number of states that are read before */
	uint64_t sp;
} unread;

static _Atomic bool *ready;

int __real_flmem_tasks_read(const struct flmem_process *process, struct flmem_tasks *ret_tasks);
int __wrap_flmem_tasks_read(const struct flmem_process *process, struct flmem_tasks *ret_tasks);
int __wrap_flmem_tasks_read(const struct flmem_process *process, struct flmem_tasks *ret_tasks)
{
	return unread.tasks ? unread.tasks : __real_flmem_tasks_read(process, ret_tasks);
}

int __real_flmem_status_read_thread(const struct flmem_process *process, pid_t tid,
				    struct flmem_status *ret_status);
int __wrap_flmem_status_read_thread(const struct flmem_process *process, pid_t tid,
				    struct flmem_status *ret_status);
int __wrap_flmem_status_read_thread(const struct flmem_process *process, pid_t tid,
				    struct flmem_status *ret_status)
{
	if (unread.status && !unread.statuses)
		return unread.status;
	unread.statuses -= unread.statuses > 0;
	return __real_flmem_status_read_thread(process, tid, ret_status);
}

int __real_flmem_task_read_wait(const struct flmem_process *process, pid_t tid,
				struct flmem_task_wait *ret_wait);
int __wrap_flmem_task_read_wait(const struct flmem_process *process, pid_t tid,
				struct flmem_task_wait *ret_wait);
int __wrap_flmem_task_read_wait(const struct flmem_process *process, pid_t tid,
				struct flmem_task_wait *ret_wait)
{
	int rc = unread.wait ? unread.wait : __real_flmem_task_read_wait(process, tid, ret_wait);

	if (!rc && unread.sp) /* however busy the machine is */
		rc = 1;
	if (rc == 1 && unread.sp)
		ret_wait->sp = unread.sp;
	return rc;
}

static void handle(int signal)
{
	(void)signal;
}

/* The signal is blocked as in a handler. */
static void be_blocked(void)
{
	sigset_t set;

	signal(SIGUSR1, handle);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	*ready = true;
	for (;;)
		pause();
}

static int open_target(void **state)
{
	static struct target target;

	unread.tasks = unread.status = unread.wait = 0;
	unread.sp = unread.statuses = 0;
	*ready = false;
	start_child(be_blocked);
	await_true(*ready && is_blocked_in(child, SYS_pause));
	target_open(child, &target);
	*state = &target;
	return 0;
}

static int close_target(void **state)
{
	target_close(*state);
	return end_child(state);
}

static void a_stack_without_a_mapping_may_be_that_of_a_handler(void **state)
{
	const struct target *target = *state;
	struct flmem_gadgets gadgets = {0};

	assert_int_equal(flmem_gadgets_find(&target->view, &gadgets, NULL), 0);
	assert_int_equal(flmem_handlers_find(&target->view, &gadgets, 0, UINT64_MAX), 0);
	unread.sp = 4096;
	assert_int_equal(flmem_handlers_find(&target->view, &gadgets, 0, UINT64_MAX), child);
}

static void a_thread_that_cannot_be_read_may_be_inside_fork(void **state)
{
	const struct target *target = *state;
	struct flmem_guard guard = {0};

	assert_true(flmem_forks_function(&target->view, &guard.fork));
	assert_true(guard.fork.start < guard.fork.end);
	assert_int_equal(flmem_forks_check(&target->process, &guard, NULL), 0);
	unread.tasks = -EMFILE;
	assert_int_equal(flmem_forks_check(&target->process, &guard, NULL), FLMEM_EFAILED);
	unread.tasks = 0;
	unread.wait = -EMFILE;
	assert_int_equal(flmem_forks_check(&target->process, &guard, NULL), FLMEM_EUNSAFE);
	unread.wait = -ESRCH;
	assert_int_equal(flmem_forks_check(&target->process, &guard, NULL), 0);
	unread.wait = 0;
	unread.sp = 4096;
	assert_int_equal(flmem_forks_check(&target->process, &guard, NULL), FLMEM_EUNSAFE);
}

static void threads_that_cannot_be_listed_may_be_several(void **state)
{
	const struct target *target = *state;
	uint64_t address;

	if (!flmem_modules_lookup(&target->modules, "__libc_single_threaded", &address)) {
		print_message("SKIP: needs glibc 2.32\n");
		return;
	}
	assert_int_equal(flmem_libc_threads_check(&target->view, NULL), 0);
	unread.tasks = -EMFILE;
	assert_int_equal(flmem_libc_threads_check(&target->view, NULL), FLMEM_EUNSAFE);
}

static void a_state_that_cannot_be_read_may_have_filters(void **state)
{
	const struct flmem_seccomp_calls calls = {.assume = true};
	const struct target *target = *state;

	assert_int_equal(flmem_seccomp_check_outside(&target->process, child, &calls, NULL), 0);
	assert_int_equal(flmem_attached_threads_check(&target->process, NULL), 0);
	unread.status = -EMFILE;
	assert_int_equal(flmem_seccomp_check_outside(&target->process, child, &calls, NULL),
			 FLMEM_EFAILED);
	assert_int_equal(flmem_attached_threads_check(&target->process, NULL), FLMEM_EFAILED);
	unread.statuses = 1;
	assert_int_equal(flmem_attached_threads_check(&target->process, NULL), FLMEM_EFAILED);
	unread.status = -ESRCH;
	unread.statuses = 1; /* another thread than the first one */
	assert_int_equal(flmem_attached_threads_check(&target->process, NULL), 0);
	assert_int_equal(flmem_seccomp_check_outside(&target->process, child, &calls, NULL), 0);
}

/* Guard pages that the mappings do not show are next to the block (glibc 2.42). */
static void the_begin_of_a_stack_is_read_between_guard_pages(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process self = FLMEM_PROCESS_INIT;
	const size_t page = 4096, length = 8 * page;
	char *bytes =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint64_t start = (uint64_t)(uintptr_t)bytes, block = start + 4 * page + 1024;
	const struct flmem_map stack = {.start = start, .end = start + length};
	const uint64_t note[] = {start + page, 4 * page, page};

	(void)state;
	assert_ptr_not_equal(bytes, MAP_FAILED);
	assert_int_equal(flmem_process_open(getpid(), &self, NULL), 0);
	memcpy(bytes + 4 * page + 2048, note, sizeof(note));
	assert_true(flmem_libc_stack_start(&self, &stack, block) == start + 2 * page);
	assert_int_equal(mprotect(bytes + 5 * page, page, PROT_NONE), 0);
	assert_true(flmem_libc_stack_start(&self, &stack, block) == start + 2 * page);
	assert_int_equal(mprotect(bytes + 3 * page, page, PROT_NONE), 0);
	assert_true(flmem_libc_stack_start(&self, &stack, block) == start + 2 * page);
	assert_int_equal(mprotect(bytes + 4 * page, page, PROT_NONE), 0);
	assert_true(flmem_libc_stack_start(&self, &stack, block) == UINT64_MAX);
	munmap(bytes, length);
}

static int open_page(void **state)
{
	(void)state;
	return share_page(&ready, sizeof(*ready));
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, open_target, close_target)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_stack_without_a_mapping_may_be_that_of_a_handler),
		TEST(a_thread_that_cannot_be_read_may_be_inside_fork),
		TEST(threads_that_cannot_be_listed_may_be_several),
		TEST(a_state_that_cannot_be_read_may_have_filters),
		cmocka_unit_test(the_begin_of_a_stack_is_read_between_guard_pages),
	};

	return cmocka_run_group_tests_name("unread", tests, open_page, NULL);
}
