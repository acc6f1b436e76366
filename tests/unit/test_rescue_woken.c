/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests a thread that is woken for a released lock just before it is stopped. The wake belongs to
 * this thread: whoever takes it out of its wait then leaves everybody else waiting for a free lock.
 */
#include "borrowed.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proc/task.h"
#include "remote/arch.h"
#include "remote/call_return.h"
#include "remote/checks/candidates.h"
#include "remote/errno_place.h"
#include "remote/rescue.h"

#ifdef __x86_64__
static struct page {
	_Atomic uint32_t word, other;
	_Atomic uint64_t taken;
	uint64_t cookie, end[2];
} * page;

static bool release_before_stop;
/* The process that goes to the other lock before the stop. */
static const struct flmem_process *moves_on;

static void release_lock(void)
{
	atomic_store(&page->word, 0);
	syscall(SYS_futex, &page->word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static bool waits_for(const struct flmem_process *process, const _Atomic uint32_t *word)
{
	struct flmem_task_wait wait;

	return !is_runnable(process->pid) &&
	       flmem_task_read_wait(process, process->pid, &wait) == 1 &&
	       wait.number == SYS_futex && wait.args[0] == (uintptr_t)word;
}

/* Releases the lock just before the request that stops the thread. */
static long answer_rescue_woken(enum __ptrace_request request, long tid, long address, long data)
{
	if (request == PTRACE_INTERRUPT && release_before_stop)
		release_lock();
	if (request == PTRACE_INTERRUPT && moves_on) {
		release_lock();
		await_true(waits_for(moves_on, &page->other));
	}
	return ptrace_in_kernel(request, tid, address, data);
}

REPLACE_PTRACE(answer_rescue_woken)

/* The child blocks the signals as in its calls. */
static void be_child(void)
{
	const uint64_t mask = ~(UINT64_C(1) << 32);

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
	while (atomic_load(&page->word))
		syscall(SYS_futex, &page->word, FUTEX_WAIT, 2, NULL, NULL, 0);
	while (atomic_load(&page->other))
		syscall(SYS_futex, &page->other, FUTEX_WAIT, 2, NULL, NULL, 0);
	atomic_fetch_add(&page->taken, 1);
	for (;;)
		pause();
}

/* Puts both on one processor, where the woken child cannot run before this thread sleeps. */
static bool keep_processor_from(pid_t child)
{
	const struct sched_param first = {.sched_priority = 1};
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET((size_t)sched_getcpu(), &here);
	return !sched_setaffinity(0, sizeof(here), &here) &&
	       !sched_setaffinity(child, sizeof(here), &here) &&
	       !sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first);
}

static void a_woken_thread_is_left_to_take_the_lock(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	const struct flmem_guard guard = {.words = {(uintptr_t)&page->word}, .word_count = 1};
	const struct flmem_rescue_mark mark = {.cookie_at = (uintptr_t)&page->cookie,
					       .end_at = (uintptr_t)page->end};
	struct flmem_thread_state *own = calloc(1, sizeof(*own));
	pid_t child;

	(void)state;
	page->word = 2;
	page->taken = 0;
	child = child_start(be_child);
	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	await_true(waits_for(&process, &page->word));
	if (!thread_read_state(child, child, own) || !keep_processor_from(child)) {
		print_message("SKIP: needs a real-time class, and a child that may be traced\n");
		child_end(child);
		skip();
	}
	await_true(waits_for(&process, &page->word));
	own->signal_mask = 0;
	release_before_stop = true;
	assert_false(flmem_rescue_abandon(
		child, &guard, &(const struct flmem_call_return){.process = &process, .own = own},
		&mark, &(const struct flmem_errno_value){0}));
	release_before_stop = false;
	sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
	/* The lock was released; otherwise the test tests nothing. */
	assert_int_equal(page->word, 0);
	await_true(page->taken == 1);
	free(own);
	child_end(child);
}

static void a_thread_that_waits_for_another_lock_by_now_is_left_alone(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	const struct flmem_guard guard = {.words = {(uintptr_t)&page->word}, .word_count = 1};
	const struct flmem_rescue_mark mark = {.cookie_at = (uintptr_t)&page->cookie,
					       .end_at = (uintptr_t)page->end};
	struct flmem_thread_state *own = calloc(1, sizeof(*own));
	pid_t child;

	(void)state;
	page->word = page->other = 2;
	child = child_start(be_child);
	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	await_true(waits_for(&process, &page->word));
	if (!thread_read_state(child, child, own)) {
		print_message("SKIP: needs a child that may be traced\n");
		child_end(child);
		skip();
	}
	await_true(waits_for(&process, &page->word));
	own->signal_mask = 0;
	moves_on = &process;
	assert_false(flmem_rescue_abandon(
		child, &guard, &(const struct flmem_call_return){.process = &process, .own = own},
		&mark, &(const struct flmem_errno_value){0}));
	moves_on = NULL;
	await_true(waits_for(&process, &page->other));
	page->other = 0;
	free(own);
	child_end(child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_waits_for_another_lock_by_now_is_left_alone),
		cmocka_unit_test(a_woken_thread_is_left_to_take_the_lock),
	};

#ifdef __SANITIZE_ADDRESS__
	puts("SKIP: AddressSanitizer has a ptrace() of its own");
	return 77;
#endif
	page = child_share(sizeof(*page));
	if (!page)
		return 1;
	return cmocka_run_group_tests_name("rescue_woken", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
