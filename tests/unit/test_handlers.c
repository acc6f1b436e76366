/* SPDX-License-Identifier: Apache-2.0 */
/* Tests a process with a thread inside a signal handler, in each way in which that is possible. */
#include "borrowed.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "proc/task.h"
#include "remote/checks/handlers.h"
#include "remote/gadgets.h"

#define ALTERNATE_BYTES 65536
#define FRAME_WORDS	64
#define FRAMES_MAX	100
#define ROOM_BYTES	16384
#define PAGE_BYTES	4096U
#define LOOKS_OCCUPIED	10U
#define SETXID		33 /* glibc's own signal, for setuid() in all threads */

struct page {
	_Atomic int tid; /* the thread in question, once it stays at its place */
	_Atomic uint32_t never, looked;
	_Atomic uint32_t opened; /* the mappings have been read */
};

static struct page *page;

#ifdef __x86_64__
static void (*at_signal)(void); /* the action of the handler */
static void (*work)(void);	/* the action of the thread */
static int action_flags;
static bool starts_late;   /* the thread is newer than the mappings that were read */
static bool first_blocks;  /* the signal is blocked in the first thread */
static uint64_t *frame_at; /* the frame of the running handler: its return address */

static void announce(void)
{
	atomic_store(&page->tid, (int)syscall(SYS_gettid));
}

/* Binds to the first processor that this process may use. */
static void bind_to_first_processor(void)
{
	cpu_set_t processors, one;
	size_t first = 0;

	CPU_ZERO(&one);
	sched_getaffinity(0, sizeof(processors), &processors);
	while (!CPU_ISSET(first, &processors))
		first++;
	CPU_SET(first, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static void wait_by_semaphore(void)
{
	announce();
	for (;;)
		syscall(SYS_futex, &page->never, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void wait_by_sigsuspend(void)
{
	sigset_t none;

	sigemptyset(&none);
	announce();
	for (;;)
		sigsuspend(&none);
}

static void spin(void)
{
	announce();
	for (;;)
		;
}

/* Computes, and waits when flmem has checked once and found it computing. */
static void spin_and_wait(void)
{
	announce();
	while (!atomic_load(&page->looked))
		;
	wait_by_semaphore();
}

/* Does so on the processor that the test occupies. */
static void spin_and_wait_beside_the_test(void)
{
	bind_to_first_processor();
	spin_and_wait();
}

static void return_at_once(void)
{
}

/* The return address is directly below the context (struct rt_sigframe of the kernel). */
static void handle(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	frame_at = (uint64_t *)context - 1;
	at_signal();
}

/* Waits over words in the form of a frame that no kernel wrote: they return to no restorer. */
static void wait_without_restorer(void)
{
	*frame_at = (uint64_t)(uintptr_t)wait_by_semaphore;
	wait_by_semaphore();
}

static void be_signalled(void)
{
	pthread_kill(pthread_self(), SIGUSR1);
	announce();
	for (;;)
		pause();
}

static void be_signalled_on_another_stack(void)
{
	static char stack[ALTERNATE_BYTES];
	const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};

	sigaltstack(&alternate, NULL);
	be_signalled();
}

/* The handler's stack is above, in the frame of a function that continues below it. */
static void be_signalled_on_a_stack_above(void)
{
	char stack[ALTERNATE_BYTES];
	const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};

	sigaltstack(&alternate, NULL);
	be_signalled();
}

/* Waits for its child as vfork() does, which takes no signal, while one is pending. */
static void be_pending(void)
{
	pid_t parent = getpid(), thread = gettid();

	if (syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		syscall(SYS_tgkill, parent, thread, SIGUSR1);
		atomic_store(&page->tid, thread);
		for (;;)
			pause();
	}
}

/* Does so with a signal for the whole process, which its first thread does not take. */
static void be_pending_as_process(void)
{
	pid_t process = getpid(), thread = gettid();
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &one, NULL);
	if (syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		syscall(SYS_kill, process, SIGUSR1);
		atomic_store(&page->tid, thread);
		for (;;)
			pause();
	}
}

__attribute__((noinline)) static void leave_a_frame(void)
{
	pthread_kill(pthread_self(), SIGUSR1);
}

/* Its array covers the frame without changing it. */
__attribute__((noinline)) static void wait_below(void)
{
	volatile unsigned char room[ROOM_BYTES];

	room[ROOM_BYTES - 1] = room[0] = 1;
	announce();
	for (;;)
		syscall(SYS_futex, &page->never, FUTEX_WAIT, 0, NULL, NULL, 0);
}

/* Another signal is blocked all the time, in the frame as well. */
static void return_and_wait_below(void)
{
	sigset_t other;

	sigemptyset(&other);
	sigaddset(&other, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &other, NULL);
	leave_a_frame();
	wait_below();
}

static void block_and(void (*then)(void))
{
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &one, NULL);
	then();
}

static void block_and_wait(void)
{
	block_and(wait_by_semaphore);
}

static void block_and_spin(void)
{
	block_and(spin);
}

/* Blocks signals as calls of flmem do, whose frames have the form of those of a handler. */
static void block_as_flmem(void)
{
	const int unblocked[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV};
	uint64_t mask = ~(UINT64_C(1) << (SETXID - 1));

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(unblocked); i++)
		mask &= ~(UINT64_C(1) << (unblocked[i] - 1));
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
}

/* Waits as for Python's lock. */
static void block_as_flmem_and_wait_for_a_while(void)
{
	const struct timespec while_the_test_runs = {.tv_sec = 1000};

	block_as_flmem();
	announce();
	for (;;)
		syscall(SYS_futex, &page->never, FUTEX_WAIT, 0, &while_the_test_runs, NULL, 0);
}

/* Waits as a thread that must not enter a Python that is finalising. */
static void block_as_flmem_and_wait_on_own_stack(void)
{
	_Atomic int never = 0;

	block_as_flmem();
	announce();
	for (;;)
		syscall(SYS_futex, &never, FUTEX_WAIT, 0, NULL, NULL, 0);
}

/* Waits as in its calls. */
static void block_as_flmem_and_wait(void)
{
	block_as_flmem();
	wait_by_semaphore();
}

static void *be_thread(void *unused)
{
	work();
	return unused;
}

static void be_child(void)
{
	struct sigaction action = {.sa_sigaction = handle, .sa_flags = action_flags | SA_SIGINFO};
	pthread_t thread;
	sigset_t one;

	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	if (first_blocks)
		pthread_sigmask(SIG_BLOCK, &one, NULL);
	while (starts_late && !atomic_load(&page->opened))
		usleep(1000);
	if (pthread_create(&thread, NULL, be_thread, NULL))
		_exit(1);
	for (;;)
		syscall(SYS_futex, &page->never, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static bool is_asleep(const struct target *target, pid_t tid)
{
	struct flmem_task_wait wait;

	return flmem_task_read_wait(&target->process, tid, &wait) == 1;
}

static const struct target *looked_at;
static cpu_set_t processors_before;
static unsigned looks_left; /* flmem's checks while the test occupies the processor */

/* Occupies the processor; false where this process may not have a real-time priority. */
static bool occupy_first_processor(void)
{
	const struct sched_param lowest = {.sched_priority = 1};

	sched_getaffinity(0, sizeof(processors_before), &processors_before);
	bind_to_first_processor();
	return sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest) == 0;
}

static void leave_processor(void)
{
	const struct sched_param usual = {0};

	looks_left = 0;
	sched_setscheduler(0, SCHED_OTHER, &usual);
	sched_setaffinity(0, sizeof(processors_before), &processors_before);
}

static void occupy_for(const struct timespec *time)
{
	uint64_t end = flmem_clock_us() + (uint64_t)time->tv_nsec / 1000U;

	while (flmem_clock_us() < end)
		;
}

/*
 * Replaces flmem's pause between two checks of a computing thread. On a busy machine the thread
 * gets no processor for longer than flmem checks, so the next check is made when it waits.
 */
int nanosleep(const struct timespec *time, struct timespec *rest);
int nanosleep(const struct timespec *time, struct timespec *rest)
{
	if (looks_left) {
		occupy_for(time);
		if (--looks_left)
			return 0;
		leave_processor();
	}
	atomic_store(&page->looked, 1);
	if (at_signal == spin_and_wait || at_signal == spin_and_wait_beside_the_test)
		await_true(is_asleep(looked_at, page->tid));
	return (int)syscall(SYS_nanosleep, time, rest);
}

/* Returns the finding for a child whose second thread does `do_work`, then sleeps or not. */
static bool is_found(void (*do_work)(void), void (*do_at_signal)(void), bool sleeps)
{
	struct flmem_gadgets gadgets;
	struct target target;
	pid_t child, found;

	atomic_store(&page->tid, 0);
	atomic_store(&page->looked, 0);
	atomic_store(&page->opened, 0);
	work = do_work;
	at_signal = do_at_signal;
	child = child_start(be_child);
	assert_true(child > 0);
	if (!starts_late)
		await_true(page->tid);
	target_open(child, &target);
	atomic_store(&page->opened, 1);
	await_true(page->tid);
	expect_borrowed(flmem_gadgets_find(&target.view, &gadgets, NULL), &(struct flmem_error){0});
	await_true(is_asleep(&target, child) && (!sleeps || is_asleep(&target, page->tid)));
	looked_at = &target;
	if (at_signal == spin_and_wait_beside_the_test && occupy_first_processor())
		looks_left = LOOKS_OCCUPIED;
	found = flmem_handlers_find(&target.view, &gadgets, 0, UINT64_MAX);
	assert_true(!found || found == page->tid);
	target_close(&target);
	child_end(child);
	return found;
}

static void a_thread_that_waits_in_its_handler_is_found(void **state)
{
	(void)state;
	assert_true(is_found(be_signalled, wait_by_semaphore, true));
	assert_true(is_found(be_signalled, wait_by_sigsuspend, true));
	action_flags = SA_NODEFER;
	assert_true(is_found(be_signalled, wait_by_sigsuspend, true));
	action_flags = SA_ONSTACK;
	assert_true(is_found(be_signalled_on_another_stack, wait_by_semaphore, true));
	assert_true(is_found(be_signalled_on_a_stack_above, wait_by_semaphore, true));
	action_flags = 0;
}

static void a_stack_that_is_newer_than_the_mappings_is_searched(void **state)
{
	(void)state;
	starts_late = true;
	assert_true(is_found(be_signalled, wait_by_semaphore, true));
	starts_late = false;
}

static void words_like_a_frame_need_a_restorer(void **state)
{
	(void)state;
	assert_false(is_found(be_signalled, wait_without_restorer, true));
}

/* A handler that will wait does so soon; one that blocks its signals computes on. */
static void a_handler_that_computes_for_a_moment_is_found(void **state)
{
	(void)state;
	assert_true(is_found(be_signalled, spin_and_wait, false));
	assert_false(is_found(block_and_spin, return_at_once, false));
}

/* Simulates a busy machine. */
static void a_handler_without_a_processor_is_found(void **state)
{
	(void)state;
	if (!occupy_first_processor()) {
		print_message("SKIP: needs the right to a real-time priority\n");
		skip();
	}
	leave_processor();
	assert_true(is_found(be_signalled, spin_and_wait_beside_the_test, false));
}

/* Cleans up, also after a test that failed. */
static int leave(void **state)
{
	(void)state;
	if (looks_left)
		leave_processor();
	return 0;
}

static void a_thread_whose_handler_is_about_to_run_is_found(void **state)
{
	(void)state;
	assert_true(is_found(be_pending, return_at_once, true));
	first_blocks = true;
	assert_true(is_found(be_pending_as_process, return_at_once, true));
	first_blocks = false;
}

/* Threads of other libraries block all signals for their whole life. */
static void one_that_blocks_its_signals_and_waits_is_in_none(void **state)
{
	(void)state;
	assert_false(is_found(block_and_wait, return_at_once, true));
}

static void frames_of_handlers_that_returned_do_not_count(void **state)
{
	(void)state;
	assert_false(is_found(return_and_wait_below, return_at_once, true));
}

static void one_in_calls_of_flmem_is_in_none(void **state)
{
	(void)state;
	assert_false(is_found(be_signalled, block_as_flmem_and_wait_for_a_while, true));
	assert_false(is_found(be_signalled, block_as_flmem_and_wait_on_own_stack, true));
}

static void one_in_calls_of_flmem_that_waits_for_a_lock_is_found(void **state)
{
	(void)state;
	assert_true(is_found(block_as_flmem_and_wait, return_at_once, true));
}

static void one_whose_handler_has_returned_is_in_none(void **state)
{
	(void)state;
	assert_false(is_found(be_signalled, return_at_once, true));
	assert_false(is_found(spin, return_at_once, false));
}

/* Three pages, the middle one as a guard between two stacks: these are read separately. */
static void a_gap_ends_a_stack(void **state)
{
	struct flmem_process self = FLMEM_PROCESS_INIT;
	unsigned char *pages = mmap(NULL, 3 * PAGE_BYTES, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct flmem_maps none = {0};
	struct flmem_handler_search search = {
		.process = &self, .maps = &none, .blocked = UINT64_MAX};
	uint64_t first = (uintptr_t)pages, end = first + 3 * PAGE_BYTES;

	(void)state;
	assert_ptr_not_equal(pages, MAP_FAILED);
	memset(pages, 0x5a, 3 * PAGE_BYTES);
	assert_int_equal(mprotect(pages + PAGE_BYTES, PAGE_BYTES, PROT_NONE), 0);
	assert_int_equal(flmem_process_open(getpid(), &self, NULL), 0);
	assert_false(flmem_handlers_on_stack(&search, first + 64, end));
	assert_false(flmem_handlers_on_stack(&search, first + 2 * PAGE_BYTES, end));
	assert_true(flmem_handlers_on_stack(&search, first + PAGE_BYTES, end));
	flmem_process_close(&self);
	munmap(pages, 3 * PAGE_BYTES);
}

/* Puts frames as the kernel writes them, which return to one address after the other. */
static void put_frames(uint64_t *words, size_t count, uint64_t returns_to, uint64_t step)
{
	memset(words, 0, FRAMES_MAX * FRAME_WORDS * sizeof(*words));
	for (size_t i = 0; i < count; i++, words += FRAME_WORDS, returns_to += step) {
		words[0] = returns_to;
		words[1] = 7;	    /* uc_flags */
		words[21] = 0x1000; /* rsp */
		words[22] = 0x1000; /* rip */
		words[24] = 0x33;   /* cs of 64-bit code */
	}
}

/* The search reads code only at mapped code, and of a limited number of addresses. */
static void a_hostile_stack_is_read_within_limits(void **state)
{
	static uint64_t words[FRAMES_MAX * FRAME_WORDS];
	struct flmem_process self = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	uint64_t code = (uintptr_t)put_frames, start = (uintptr_t)words;
	struct flmem_handler_search search = {
		.process = &self, .maps = &maps, .blocked = UINT64_MAX};

	(void)state;
	assert_int_equal(flmem_process_open(getpid(), &self, NULL), 0);
	assert_int_equal(flmem_maps_read(&self, &maps, NULL), 0);
	put_frames(words, FRAMES_MAX, start, sizeof(*words));
	assert_false(flmem_handlers_on_stack(&search, start, start + sizeof(words)));
	assert_int_equal(search.known_count, 0);
	put_frames(words, FLMEM_RESTORERS_MAX, code, 1);
	assert_false(flmem_handlers_on_stack(&search, start, start + sizeof(words)));
	assert_int_equal(search.known_count, FLMEM_RESTORERS_MAX);
	assert_false(flmem_handlers_on_stack(&search, start, start + sizeof(words)));
	put_frames(words, FLMEM_RESTORERS_MAX + 1, code, 1);
	assert_true(flmem_handlers_on_stack(&search, start, start + sizeof(words)));
	flmem_process_close(&self);
}

static void a_search_ends_at_its_deadline(void **state)
{
	struct flmem_gadgets gadgets;
	struct target target;
	pid_t child;

	(void)state;
	atomic_store(&page->tid, 0);
	work = block_and_wait;
	child = child_start(be_child);
	assert_true(child > 0);
	await_true(page->tid);
	target_open(child, &target);
	expect_borrowed(flmem_gadgets_find(&target.view, &gadgets, NULL), &(struct flmem_error){0});
	assert_int_equal(flmem_handlers_find(&target.view, &gadgets, 0, UINT64_MAX), 0);
	assert_int_equal(flmem_handlers_find(&target.view, &gadgets, 0, 0), FLMEM_HANDLERS_LATE);
	target_close(&target);
	child_end(child);
}

static int share(void **state)
{
	(void)state;
	page = child_share(sizeof(*page));
	return !page;
}

static int unshare_page(void **state)
{
	(void)state;
	return munmap(page, sizeof(*page));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_waits_in_its_handler_is_found),
		cmocka_unit_test(a_stack_that_is_newer_than_the_mappings_is_searched),
		cmocka_unit_test(words_like_a_frame_need_a_restorer),
		cmocka_unit_test(a_handler_that_computes_for_a_moment_is_found),
		cmocka_unit_test_teardown(a_handler_without_a_processor_is_found, leave),
		cmocka_unit_test(frames_of_handlers_that_returned_do_not_count),
		cmocka_unit_test(a_thread_whose_handler_is_about_to_run_is_found),
		cmocka_unit_test(one_that_blocks_its_signals_and_waits_is_in_none),
		cmocka_unit_test(one_in_calls_of_flmem_is_in_none),
		cmocka_unit_test(one_in_calls_of_flmem_that_waits_for_a_lock_is_found),
		cmocka_unit_test(a_gap_ends_a_stack),
		cmocka_unit_test(a_hostile_stack_is_read_within_limits),
		cmocka_unit_test(a_search_ends_at_its_deadline),
		cmocka_unit_test(one_whose_handler_has_returned_is_in_none),
	};

	return cmocka_run_group_tests_name("handlers", tests, share, unshare_page);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
