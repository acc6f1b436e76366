/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests threads that look idle and must not be borrowed: each beside one that differs only in that.
 */
#include "borrowed.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

#include "remote/checks/candidates.h"
#include "remote/gadgets.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#endif

#define STACK_BYTES	((size_t)512 << 10)
#define DEEP_BYTES	((size_t)100 << 10)
#define FRAME		"is inside a signal handler"
#define STACK		"has no ordinary stack mapping"
#define ROOM		"has too little space left on its stack"
#define ALLOCATOR	"is inside the allocator"
#define FUTEX_VALUE	7
#define BACK_OFF_MS	80
#define PAGE_BYTES	4096U
#define JOIN_BYTES	256U /* length of join_one() */
#define STUB_CALL_BYTES 32U  /* length of a function that calls through a stub */
#define CALL_BYTES	16U  /* length of a function that only calls */
#define NOT_SUPPORTED	(-1)

struct page {
	_Atomic int tid; /* the thread in question, once it is about to wait */
	_Atomic uint32_t futex;
	void *stack; /* stack of that thread, when the C library did not make it */
	size_t stack_bytes;
	int file;
	uint64_t kept;
};

static struct page *page;
static int bell[2];
static const char *rejected = ""; /* why the last one was rejected; NULL: it may be borrowed */

#ifdef __x86_64__
static void announce(void)
{
	atomic_store(&page->tid, (int)syscall(SYS_gettid));
}

static void block(void)
{
	char byte;

	announce();
	(void)!read(bell[0], &byte, 1);
}

/* The child's state before it waits, and its action then. */
static void (*work)(void);

static void *be_worker(void *unused)
{
	(void)unused;
	work();
	return NULL;
}

static void be_threaded(void)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	if (page->stack)
		pthread_attr_setstack(&attributes, page->stack, page->stack_bytes);
	if (pthread_create(&thread, &attributes, be_worker, NULL) == 0)
		pthread_join(thread, NULL);
}

static void be_leader(void)
{
	work();
}

static void reject(const struct target *target, const struct flmem_guard *guard)
{
	struct flmem_gadgets gadgets;
	const struct flmem_candidate_needs needs = {.guard = guard,
						    .gadgets = &gadgets,
						    .only = atomic_load(&page->tid),
						    .deadline_us = UINT64_MAX};
	bool decided = false;

	expect_borrowed(flmem_gadgets_find(&target->view, &gadgets, NULL),
			&(struct flmem_error){0});
	for (int i = 0; i < 20000 && !decided; i++) {
		FLMEM_AUTO_CANDIDATES struct flmem_candidates found = {0};

		assert_int_equal(flmem_candidates_find(&target->view, &needs, &found), 0);
		assert_int_equal(found.threads, 1);
		rejected = found.rejected;
		decided = !found.running;
		if (!decided)
			usleep(1000);
	}
	assert_true(decided);
}

/* Runs `do_work` on the main thread or another one of a child, and examines that thread. */
static const char *examine(bool threaded, void (*do_work)(void), const struct flmem_guard *guard)
{
	const struct flmem_guard none = {0};
	struct target target;
	pid_t child;

	atomic_store(&page->tid, 0);
	work = do_work;
	child = child_start(threaded ? be_threaded : be_leader);
	assert_true(child > 0);
	await_true(atomic_load(&page->tid));
	if (page->tid != NOT_SUPPORTED) {
		target_open(child, &target);
		reject(&target, guard ? guard : &none);
		target_close(&target);
	}
	child_end(child);
	page->stack = NULL;
	return rejected;
}

static int open_page(void **state)
{
	(void)state;
	page = child_share(sizeof(*page));
	return !page || pipe(bell);
}

static int close_page(void **state)
{
	(void)state;
	close(bell[0]);
	close(bell[1]);
	return munmap(page, sizeof(*page));
}

static void ordinary_threads_may_be_borrowed(void **state)
{
	(void)state;
	assert_null(examine(false, block, NULL));
	assert_null(examine(true, block, NULL));
}

/* Cases of signal handlers. */

static void handle(int number)
{
	(void)number;
	block();
}

static void handle_deep_down(int number)
{
	volatile char room[DEEP_BYTES];

	room[0] = room[sizeof(room) - 1] = (char)number;
	block();
	room[0] = 0;
}

static void raise_handled(void (*handler)(int), int flags)
{
	const struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
}

static void raise_one(void)
{
	raise_handled(handle, 0);
}

/* The main stack is mapped as far as it was used. */
__attribute__((noinline)) static void use_much_stack(void)
{
	volatile char room[DEEP_BYTES * 3];

	for (size_t i = 0; i < sizeof(room); i += PAGE_BYTES)
		room[i] = 1;
}

static void raise_deep(void)
{
	use_much_stack();
	raise_handled(handle_deep_down, 0);
}

static void raise_elsewhere(void)
{
	const stack_t other = {.ss_sp = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
			       .ss_size = STACK_BYTES};

	sigaltstack(&other, NULL);
	raise_handled(handle, SA_ONSTACK);
}

/* Skips where children are this program: AddressSanitizer lays out their stacks in its own way. */
static void skip_if_sanitised(void)
{
#if defined(__SANITIZE_ADDRESS__)
	print_message("SKIP: stacks look different under AddressSanitizer\n");
	skip();
#endif
}

static void handlers_are_seen(void **state)
{
	(void)state;
	skip_if_sanitised();
	assert_string_equal(examine(false, raise_one, NULL), FRAME);
	assert_string_equal(examine(true, raise_one, NULL), FRAME);
	assert_string_equal(examine(false, raise_deep, NULL), FRAME);
	assert_string_equal(examine(true, raise_deep, NULL), FRAME);
	assert_string_equal(examine(true, raise_elsewhere, NULL), FRAME);
	assert_string_equal(examine(false, raise_elsewhere, NULL), STACK);
}

/* Cases of stacks. */

static void use_stack(int flags, int fd)
{
	page->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
	page->stack_bytes = STACK_BYTES;
	assert_true(page->stack != MAP_FAILED);
}

static void switch_stack(void)
{
	static ucontext_t here, there;

	getcontext(&there);
	there.uc_stack.ss_sp = page->stack;
	there.uc_stack.ss_size = STACK_BYTES;
	there.uc_link = &here;
	makecontext(&there, block, 0);
	swapcontext(&here, &there);
}

/* Switches to a stack on the heap: above it are allocated blocks of the program. */
static void switch_to_heap(void)
{
	char *low = sbrk((intptr_t)STACK_BYTES * 2);

	page->stack = low + (-(uintptr_t)low & 63U);
	switch_stack();
}

/* The inode of a System V segment is its identifier; the first segment of a namespace has 0. */
static void start_on_first_segment(void)
{
	int id = unshare(CLONE_NEWIPC) ? -1 : shmget(IPC_PRIVATE, STACK_BYTES, 0600);

	if (id) {
		atomic_store(&page->tid, NOT_SUPPORTED);
		return;
	}
	page->stack = shmat(id, NULL, 0);
	page->stack_bytes = STACK_BYTES;
	work = block;
	be_threaded();
}

static void shared_stacks_without_inode_are_refused(void **state)
{
	(void)state;
	examine(false, start_on_first_segment, NULL);
	if (page->tid == NOT_SUPPORTED) {
		print_message("SKIP: no IPC namespace can be made by this user\n");
		skip();
	}
	assert_string_equal(rejected, STACK);
}

static void other_stacks_are_refused(void **state)
{
	FILE *file = tmpfile();

	(void)state;
	assert_non_null(file);
	assert_int_equal(ftruncate(fileno(file), (off_t)STACK_BYTES), 0);
	use_stack(MAP_PRIVATE | MAP_ANONYMOUS, -1);
	assert_null(examine(true, block, NULL));
	use_stack(MAP_SHARED | MAP_ANONYMOUS, -1);
	assert_string_equal(examine(true, block, NULL), STACK);
	use_stack(MAP_PRIVATE, fileno(file));
	assert_string_equal(examine(true, block, NULL), STACK);
	assert_string_equal(examine(true, switch_to_heap, NULL), STACK);
	use_stack(MAP_PRIVATE | MAP_ANONYMOUS, -1);
	assert_string_equal(examine(false, switch_stack, NULL), STACK);
	fclose(file);
}

static void block_above_guard(void)
{
	char here;
	uintptr_t at = (uintptr_t)&here & ~(uintptr_t)(PAGE_BYTES - 1);

	if (madvise((char *)(at - 4 * (uintptr_t)PAGE_BYTES), PAGE_BYTES, MADV_GUARD_INSTALL) != 0)
		atomic_store(&page->tid, NOT_SUPPORTED);
	else
		block();
}

static void pages_that_cannot_be_read_end_a_stack(void **state)
{
	(void)state;
	skip_if_sanitised();
	use_stack(MAP_PRIVATE | MAP_ANONYMOUS, -1);
	/* The beginning of the stack: the mapping below does not belong to it. */
	page->stack_bytes = 32768;
	assert_string_equal(examine(true, block, NULL), ROOM);
	use_stack(MAP_PRIVATE | MAP_ANONYMOUS, -1);
	examine(true, block_above_guard, NULL);
	if (page->tid == NOT_SUPPORTED) {
		print_message("SKIP: this kernel has no guard pages inside of mappings\n");
		skip();
	}
	assert_string_equal(rejected, ROOM);
}

/* Cases of allocators. */

static void wait_for_word(void)
{
	atomic_store(&page->futex, FUTEX_VALUE);
	announce();
	for (;;)
		syscall(SYS_futex, &page->futex, FUTEX_WAIT, FUTEX_VALUE, NULL, NULL, 0);
}

static void locks_of_allocators_are_seen(void **state)
{
	uint64_t word = (uint64_t)(uintptr_t)&page->futex;
	struct flmem_guard guard = {0};

	(void)state;
	flmem_guard_add_locks(&guard, word + 4, word + 64);
	assert_null(examine(true, wait_for_word, &guard));
	flmem_guard_add_locks(&guard, word - 8, word + 4);
	assert_string_equal(examine(true, wait_for_word, &guard), ALLOCATOR);
}

__attribute__((noinline)) static void sleep_for(long milliseconds)
{
	const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};

	announce();
	for (;;)
		syscall(SYS_nanosleep, &time, NULL);
}

static void back_off(void)
{
	sleep_for(BACK_OFF_MS);
}

static void sleep_longer(void)
{
	sleep_for(9000);
}

static void sleep_too_long(void)
{
	sleep_for(11000);
}

static void code_of_allocators_is_seen(void **state)
{
	/*
	 * The child has this program's code at the same place: the loop above plays the allocator.
	 */
	uint64_t code = (uint64_t)(uintptr_t)sleep_for;
	uint64_t library = (uint64_t)(uintptr_t)syscall;
	struct flmem_guard guard = {0}, whole = {0};

	(void)state;
	assert_null(examine(true, back_off, &guard));
	flmem_guard_add_code(&guard, code, code + 512);
	assert_string_equal(examine(true, back_off, &guard), ALLOCATOR);
	assert_string_equal(examine(true, sleep_longer, &guard), ALLOCATOR);
	flmem_guard_add_code(&whole, library, library + 64);
	assert_string_equal(examine(true, sleep_longer, &whole), ALLOCATOR);
	assert_string_equal(examine(true, sleep_too_long, NULL),
			    "is in a long relative sleep, whose timeout would restart");
}

static void *wait_for_ever(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/* Joins a thread as jemalloc does when it switches its background thread off. */
__attribute__((noinline)) static void join_one(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, wait_for_ever, NULL) == 0) {
		announce();
		pthread_join(thread, NULL);
	}
	__asm__ volatile("");
}

static void block_deep_down(void)
{
	volatile char room[PAGE_BYTES * 2];

	room[0] = room[sizeof(room) - 1] = 1;
	block();
	room[0] = 0;
}

/* Calls a function of the program, as an allocator does. */
__attribute__((noinline)) static void call_hook(void)
{
	void (*volatile hook)(void) = block_deep_down;

	hook();
	__asm__ volatile("");
}

static uint64_t left_over;
static void (*wait_on_words)(void);

__attribute__((noinline)) static void note_caller(void)
{
	left_over = (uint64_t)(uintptr_t)__builtin_return_address(0);
}

/* Makes a call that stays in the allocator. */
__attribute__((noinline)) static void call_inside(void)
{
	note_caller();
	__asm__ volatile("");
}

/* Makes a call through a stub. */
__attribute__((noinline)) static void call_stub(void)
{
	getppid();
	__asm__ volatile("");
}

__attribute__((noinline)) static void wait_with_words(void)
{
	volatile uint64_t words[16];

	for (size_t i = 0; i < 16; i += 2) {
		words[i] = left_over;
		words[i + 1] = (uint64_t)(uintptr_t)call_inside;
	}
	wait_on_words();
	page->kept = words[0];
}

static void block_on_old_words(void)
{
	call_inside();
	wait_on_words = block;
	wait_with_words();
}

static void sleep_on_old_words(void)
{
	call_inside();
	wait_on_words = back_off;
	wait_with_words();
}

/* Blocks with the return address of the call in call_stub(). */
static void block_on_stub(void)
{
	const unsigned char *code = (const unsigned char *)(uintptr_t)call_stub;

	for (size_t i = 0; i < STUB_CALL_BYTES && *code != 0xe8; i++)
		code++;
	left_over = (uint64_t)(uintptr_t)code + 5;
	wait_on_words = block;
	wait_with_words();
}

static void wait_privately(void)
{
	atomic_store(&page->futex, FUTEX_VALUE);
	announce();
	for (;;)
		syscall(SYS_futex, &page->futex, FUTEX_WAIT_PRIVATE, FUTEX_VALUE, NULL, NULL, 0);
}

static const char *examine_with(void (*function)(void), void (*code)(void), uint64_t size)
{
	uint64_t start = (uint64_t)(uintptr_t)code;
	struct flmem_guard guard = {0};

	flmem_guard_add_code(&guard, start, start + size);
	return examine(true, function, &guard);
}

static void frames_of_allocators_are_seen_in_any_wait(void **state)
{
	struct flmem_guard guard = {.may_join_threads = true}, own = {0};
	const uint64_t stub = (uint64_t)(uintptr_t)call_stub;

	(void)state;
	skip_if_sanitised();
	assert_string_equal(examine_with(join_one, join_one, JOIN_BYTES), ALLOCATOR);
	assert_string_equal(examine_with(call_hook, call_hook, 2 * CALL_BYTES), ALLOCATOR);
	assert_null(examine_with(block_on_old_words, call_inside, CALL_BYTES));
	assert_string_equal(examine_with(sleep_on_old_words, call_inside, CALL_BYTES), ALLOCATOR);
	assert_string_equal(examine_with(block_on_stub, call_stub, STUB_CALL_BYTES), ALLOCATOR);
	/* The guard of a library that calls its own function through a stub. */
	flmem_guard_add_code(&own, stub, stub + STUB_CALL_BYTES);
	flmem_guard_add_code(&own, (uint64_t)(uintptr_t)getppid, (uint64_t)(uintptr_t)getppid + 1);
	assert_null(examine(true, block_on_stub, &own));
	/* The code of an allocator that is built in is unknown. */
	assert_null(examine(true, join_one, NULL));
	assert_null(examine(true, wait_privately, &guard));
	assert_string_equal(examine(true, join_one, &guard),
			    "waits for another thread to end, possibly inside the allocator");
}

static void be_background_thread(void)
{
	prctl(PR_SET_NAME, "jemalloc_bg_thd");
	block();
}

static void threads_of_allocators_are_seen(void **state)
{
	(void)state;
	assert_string_equal(examine(true, be_background_thread, NULL),
			    "is a thread of the allocator");
}

static void be_last(void)
{
	const struct sched_param none = {0};

	sched_setscheduler(0, SCHED_IDLE, &none);
	block();
}

/* With a lock that the others wait for, it would get a processor after all of them. */
static void threads_of_low_priority_are_refused(void **state)
{
	(void)state;
	assert_string_equal(examine(true, be_last, NULL),
			    "has a lower priority than another thread, which could wait for it");
	/* No other thread waits for it. */
	assert_null(examine(false, be_last, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ordinary_threads_may_be_borrowed),
		cmocka_unit_test(handlers_are_seen),
		cmocka_unit_test(other_stacks_are_refused),
		cmocka_unit_test(shared_stacks_without_inode_are_refused),
		cmocka_unit_test(pages_that_cannot_be_read_end_a_stack),
		cmocka_unit_test(locks_of_allocators_are_seen),
		cmocka_unit_test(code_of_allocators_is_seen),
		cmocka_unit_test(frames_of_allocators_are_seen_in_any_wait),
		cmocka_unit_test(threads_of_allocators_are_seen),
		cmocka_unit_test(threads_of_low_priority_are_refused),
	};

	return cmocka_run_group_tests_name("candidates", tests, open_page, close_page);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
