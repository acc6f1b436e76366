/* SPDX-License-Identifier: Apache-2.0 */
#include "borrowed.h"

#include <stdio.h>
#include <ucontext.h>

#define TIMES	     300
#define TIMES_FAULTY 20
#define PAGE	     4096U

/* Reports of the child about itself. */
struct page {
	volatile uint64_t rounds, faults;
};

static struct page *page;
static pid_t child;

#ifdef __x86_64__
/*
 * Keeps values in all free integer registers, in vector registers, in the flags and below the stack
 * pointer over some thousand instructions; returns 0 when one of them has changed.
 */
__attribute__((noinline)) static int keeps_its_state(void)
{
	uint64_t same = 1;

	__asm__ volatile("movabsq $0x1122334455667788, %%rax\n"
			 "movq %%rax, -8(%%rsp)\n"
			 "movq %%rax, -120(%%rsp)\n"
			 "movq %%rax, %%r8\n"
			 "movq %%rax, %%r11\n"
			 "movq %%rax, %%r15\n"
			 "movq %%rax, %%xmm0\n"
			 "movq %%rax, %%xmm15\n"
			 "movl $3000, %%ecx\n"
			 "std\n"
			 "1: decl %%ecx\n"
			 "jnz 1b\n"
			 "pushfq\n"
			 "popq %%rdx\n"
			 "cld\n"
			 "btl $10, %%edx\n"
			 "jnc 2f\n"
			 "cmpq %%rax, -120(%%rsp)\n"
			 "jne 2f\n"
			 "cmpq %%rax, %%r8\n"
			 "jne 2f\n"
			 "cmpq %%rax, %%r11\n"
			 "jne 2f\n"
			 "cmpq %%rax, %%r15\n"
			 "jne 2f\n"
			 "movq %%xmm0, %%rdx\n"
			 "cmpq %%rax, %%rdx\n"
			 "jne 2f\n"
			 "movq %%xmm15, %%rdx\n"
			 "cmpq %%rax, %%rdx\n"
			 "je 3f\n"
			 "2: xorl %k0, %k0\n"
			 "3:\n"
			 : "+r"(same)
			 :
			 : "rax", "rcx", "rdx", "r8", "r11", "r15", "xmm0", "xmm15", "cc",
			   "memory");
	return (int)same;
}

static void be_child(void)
{
	for (;;) {
		page->faults += !keeps_its_state();
		page->rounds++;
	}
}

extern const char load_begin[], load_end[];

/*
 * A handler like that of a program that emulates reads of absent memory: it skips the instruction
 * that it knows.
 */
static void skip_load(int number, siginfo_t *info, void *context)
{
	greg_t *place = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)number, (void)info;
	if (*place == (greg_t)(uintptr_t)load_begin)
		*place = (greg_t)(uintptr_t)load_end;
	else
		page->faults++;
}

static void be_faulty(void)
{
	const struct sigaction action = {.sa_sigaction = skip_load, .sa_flags = SA_SIGINFO};
	const void *hidden = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	sigaction(SIGSEGV, &action, NULL);
	for (;; page->rounds++)
		__asm__ volatile("movl $1000, %%ecx\n"
				 "1: decl %%ecx\n"
				 "jnz 1b\n"
				 "load_begin: movb (%0), %%al\n"
				 "load_end:\n"
				 :
				 : "r"(hidden)
				 : "rax", "rcx", "cc", "memory");
}

static int start_child(void **state)
{
	(void)state;
	return child_open(be_child, sizeof(*page), &page, &child);
}

static int start_faulty(void **state)
{
	(void)state;
	return child_open(be_faulty, sizeof(*page), &page, &child);
}

static int end_child(void **state)
{
	(void)state;
	return child_close(child, page, sizeof(*page));
}

static bool accepts(void *context, const struct flmem_candidate *candidate, uint64_t pointer,
		    const char **ret_reason)
{
	(void)ret_reason;
	assert_true(candidate->computes);
	*(size_t *)context += pointer != 0;
	return true;
}

static void borrow_often(size_t times)
{
	size_t asked = 0;
	const struct flmem_candidate_filter filter = {accepts, &asked};
	const struct flmem_borrow_options options = {
		.timeout_us = 20000000, .filter = &filter, .computing = child, .repeatable = true};
	struct flmem_borrow_result result;
	struct flmem_error err = {0};
	struct target target;
	uint64_t function, before;

	await_true(page->rounds >= 1);
	target_open(child, &target);
	function = target_function(&target, "sched_yield");
	for (size_t i = 0; i < times; i++) {
		struct flmem_chain chain = {0};

		flmem_chain_add(&chain, "sched_yield", function);
		expect_borrowed(flmem_borrow_run(&target.view, &chain, &options, &result, &err),
				&err);
		assert_true(result.complete);
		assert_int_equal(result.tid, child);
	}
	target_close(&target);
	assert_true(asked >= times);
	before = page->rounds;
	await_true(page->rounds >= before + 100);
	assert_int_equal(page->faults, 0);
}

static void a_computing_thread_goes_on_with_all_its_state(void **state)
{
	(void)state;
	borrow_often(TIMES);
}

/*
 * The thread is stopped between a fault and its handler, which would get the registers of the
 * calls.
 */
static void a_fault_is_handled_where_it_happened(void **state)
{
	(void)state;
	borrow_often(TIMES_FAULTY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_computing_thread_goes_on_with_all_its_state,
						start_child, end_child),
		cmocka_unit_test_setup_teardown(a_fault_is_handled_where_it_happened, start_faulty,
						end_child),
	};

	return cmocka_run_group_tests_name("borrow_computing", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
