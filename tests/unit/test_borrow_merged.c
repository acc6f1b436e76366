/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A coroutine in the mapping of its thread's own stack, below that one's guard page, as glibc 2.42
 * and later make it: the mappings do not show where either ends.
 */
#include "borrowed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#endif

#define ARENA_BYTES ((size_t)1 << 20)
#define STACK_BYTES ((size_t)32 << 10) /* stack of the coroutine, at the upper end of the arena */
#define BELOW_BYTES (ARENA_BYTES - STACK_BYTES)
#define GUARD_BYTES 4096U
#define PATTERN	    0xa5
#define TIMEOUT_US  500000U

struct page {
	_Atomic bool ready;
	_Atomic uint64_t calls;
	_Atomic pid_t coroutine, plain; /* the threads; 0: this kernel has no such guard pages */
	_Atomic uintptr_t arena;
};

static struct page *page;
static pid_t child;

#ifdef __x86_64__
__attribute__((noinline, no_sanitize("address", "undefined"))) static void note_call(void)
{
	atomic_fetch_add(&page->calls, 1);
}

static void wait_here(void)
{
	for (;;)
		pause();
}

/* Clears the beginning of the thread's stack, which glibc notes and other C libraries do not. */
static void forget_own_stack(unsigned char *arena)
{
	uintptr_t *const end = (uintptr_t *)(void *)(arena + 2 * ARENA_BYTES);

	for (uintptr_t *word = (uintptr_t *)pthread_self(); word < end; word++)
		if (*word == (uintptr_t)arena + ARENA_BYTES)
			*word = 0;
}

/* Runs on a stack below the thread's own, which follows the arena and the guard page. */
static void *run_below_own_stack(void *data)
{
	unsigned char *arena = data;
	ucontext_t own, coroutine;

	forget_own_stack(arena);
	if (madvise(arena + ARENA_BYTES, GUARD_BYTES, MADV_GUARD_INSTALL) || getcontext(&coroutine))
		return NULL;
	coroutine.uc_stack.ss_sp = arena + BELOW_BYTES;
	coroutine.uc_stack.ss_size = STACK_BYTES;
	coroutine.uc_link = NULL;
	makecontext(&coroutine, wait_here, 0);
	atomic_store(&page->coroutine, (pid_t)syscall(SYS_gettid));
	swapcontext(&own, &coroutine);
	return NULL;
}

static void *run_on_own_stack(void *data)
{
	unsigned char *arena = data;

	if (madvise(arena + ARENA_BYTES, GUARD_BYTES, MADV_GUARD_INSTALL) == 0)
		atomic_store(&page->plain, (pid_t)syscall(SYS_gettid));
	wait_here();
	return NULL;
}

static unsigned char *start_thread(void *(*run)(void *data))
{
	unsigned char *arena = mmap(NULL, 2 * ARENA_BYTES, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attributes;
	pthread_t thread;

	if (arena == MAP_FAILED)
		_exit(2);
	memset(arena, PATTERN, BELOW_BYTES);
	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, arena + ARENA_BYTES, ARENA_BYTES);
	if (pthread_create(&thread, &attributes, run, arena))
		_exit(2);
	return arena;
}

static void be_child(void)
{
	atomic_store(&page->arena, (uintptr_t)start_thread(run_below_own_stack));
	start_thread(run_on_own_stack);
	atomic_store(&page->ready, true);
	wait_here();
}

static int start_child(void **state)
{
	(void)state;
	return child_open(be_child, sizeof(*page), &page, &child);
}

static int end_child(void **state)
{
	(void)state;
	return child_close(child, page, sizeof(*page));
}

static int borrow(const struct target *target, pid_t thread, struct flmem_error *err)
{
	const struct flmem_borrow_options options = {
		.only = thread, .single_pass = true, .timeout_us = TIMEOUT_US};
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};

	flmem_chain_add(&chain, "call", (uint64_t)(uintptr_t)&note_call);
	return flmem_borrow_run(&target->view, &chain, &options, &result, err);
}

static void expect_pattern(const struct target *target)
{
	static unsigned char seen[BELOW_BYTES];

	assert_int_equal(
		flmem_process_read_memory(&target->process, page->arena, seen, sizeof(seen)), 0);
	for (size_t i = 0; i < sizeof(seen); i++)
		assert_int_equal(seen[i], PATTERN);
}

static void a_coroutine_below_the_stack_of_its_thread_is_left_alone(void **state)
{
	struct flmem_error err = {0};
	struct target target;

	(void)state;
#ifdef __SANITIZE_ADDRESS__
	print_message("SKIP: stacks look different under AddressSanitizer\n");
	skip();
#endif
	await_true(page->ready);
	if (madvise(child_share(GUARD_BYTES), GUARD_BYTES, MADV_GUARD_INSTALL)) {
		print_message("SKIP: this kernel has no guard pages inside of mappings\n");
		skip();
	}
	await_true(page->coroutine && is_blocked_in(page->coroutine, SYS_pause));
	await_true(page->plain && is_blocked_in(page->plain, SYS_pause));
	target_open(child, &target);
	/* The thread that runs on its own stack must be borrowed, or the test shows nothing. */
	expect_borrowed(borrow(&target, page->plain, &err), &err);
	assert_int_equal(page->calls, 1);
	assert_int_equal(borrow(&target, page->coroutine, &err), FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "runs on a stack that the program allocated"));
	assert_int_equal(page->calls, 1);
	expect_pattern(&target);
	target_close(&target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_coroutine_below_the_stack_of_its_thread_is_left_alone, start_child,
			end_child),
	};

	return cmocka_run_group_tests_name("borrow_merged", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
