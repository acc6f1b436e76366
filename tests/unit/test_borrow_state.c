/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the processor state that the calls of a chain find: the borrowed thread's vector state. */
#include "borrowed.h"

#include <asm/prctl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

struct page {
	_Atomic uint32_t in_call; /* MXCSR at the called function */
	_Atomic uint64_t key_in_call;
	_Atomic uint64_t rounds, faults;
};

static struct page *page;
static pid_t child;
static int bell[2];

#ifdef __x86_64__
#include <xmmintrin.h>

#define OWN_MXCSR (0x1f80U | _MM_ROUND_TOWARD_ZERO | _MM_FLUSH_ZERO_ON)

static bool has_keys(void)
{
	unsigned int a = 7, b = 0, c = 0, d = 0;

	__asm__("cpuid" : "+a"(a), "+b"(b), "+c"(c), "+d"(d));
	return c >> 4 & 1U; /* OSPKE: rdpkru works (Intel SDM, CPUID leaf 7) */
}

static uint32_t read_keys(void)
{
	uint32_t rights, unused;

	__asm__ volatile(".byte 0x0f,0x01,0xee" : "=a"(rights), "=d"(unused) : "c"(0));
	return rights;
}

/* Called by the chain in the child; the test is the same program, so the address is the child's. */
__attribute__((noinline)) static void note_state(void)
{
	atomic_store(&page->in_call, _mm_getcsr());
	if (has_keys())
		atomic_store(&page->key_in_call, read_keys());
}

static void be_child(void)
{
	char byte;

	_mm_setcsr(OWN_MXCSR);
	if (has_keys())
		__asm__ volatile(".byte 0x0f,0x01,0xef" : : "a"(0), "c"(0), "d"(0));
	for (;;) {
		if (read(bell[0], &byte, 1) != 1 || _mm_getcsr() != OWN_MXCSR)
			atomic_fetch_add(&page->faults, 1);
		atomic_fetch_add(&page->rounds, 1);
	}
}

/*
 * Runs with another thread pointer, as a program that hosts other programs does while these run:
 * the C library does not find its control block there.
 */
static void be_host(void)
{
	static _Alignas(64) char data[4 * 4096];
	char *block = data + sizeof(data) / 2;

	/* With the C library's stack protector. */
	memcpy(block, __builtin_thread_pointer(), sizeof(data) / 4);
	memset(block, 0, sizeof(void *));
	if (syscall(SYS_arch_prctl, ARCH_SET_FS, block))
		_exit(2);
	be_child();
}

static int start_host(void **state)
{
	(void)state;
	return pipe(bell) || child_open(be_host, sizeof(*page), &page, &child);
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
	return child_close(child, page, sizeof(*page));
}

static void calls_have_the_state_of_the_thread(void **state)
{
	const struct flmem_borrow_options options = {.timeout_us = 20000000, .repeatable = true};
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};
	struct flmem_error err = {0};
	struct target target;

	(void)state;
	atomic_store(&page->key_in_call, 1);
	target_open(child, &target);
	flmem_chain_add(&chain, "note_state", (uint64_t)(uintptr_t)&note_state);
	expect_borrowed(flmem_borrow_run(&target.view, &chain, &options, &result, &err), &err);
	target_close(&target);
	assert_true(result.complete);
	assert_int_equal(page->in_call, OWN_MXCSR);
	if (has_keys())
		assert_int_equal(page->key_in_call, 0); /* all access, as the child has set it */
	else
		print_message("SKIP: this processor has no protection keys\n");
	assert_int_equal(write(bell[1], "x", 1), 1);
	await_true(page->rounds == 1);
	assert_int_equal(page->faults, 0);
}

static void a_thread_pointer_of_the_program_is_left_alone(void **state)
{
	const struct flmem_borrow_options options = {.timeout_us = 500000, .single_pass = true};
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};
	struct flmem_error err = {0};
	struct target target;

	(void)state;
	await_true(is_blocked_in(child, SYS_read));
	target_open(child, &target);
	flmem_chain_add(&chain, "note_state", (uint64_t)(uintptr_t)&note_state);
	assert_int_equal(flmem_borrow_run(&target.view, &chain, &options, &result, &err),
			 FLMEM_EUNSAFE);
	target_close(&target);
	assert_non_null(strstr(err.message, "thread-local data"));
	assert_int_equal(page->in_call, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(calls_have_the_state_of_the_thread, start_child,
						end_child),
		cmocka_unit_test_setup_teardown(a_thread_pointer_of_the_program_is_left_alone,
						start_host, end_child),
	};

	return cmocka_run_group_tests_name("borrow_state", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
