/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/modules.h"
#include "remote/borrow.h"

#define TIMES 300

/* What the child says about itself. */
struct page {
	uint64_t rounds, faults;
};

static struct page *page;
static pid_t child;

#ifdef __x86_64__
/*
 * Values in all integer registers that are free, in vector registers, in the flags and below the
 * stack pointer, held over some thousand instructions: 0 when one of them has changed.
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

static int start_child(void **state)
{
	(void)state;
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return -1;
	child = fork();
	if (child)
		return child < 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		page->faults += !keeps_its_state();
		page->rounds++;
	}
}

static int end_child(void **state)
{
	(void)state;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return munmap(page, sizeof(*page));
}

static bool accepts(void *context, const struct flmem_candidate *candidate, uint64_t pointer,
		    const char **ret_reason)
{
	(void)ret_reason;
	assert_true(candidate->computes);
	*(size_t *)context += pointer != 0;
	return true;
}

static void await_round(uint64_t wanted)
{
	for (int i = 0; i < 20000 && page->rounds < wanted; i++)
		usleep(1000);
	assert_true(page->rounds >= wanted);
}

static void a_computing_thread_goes_on_with_all_its_state(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_IMAGE_CACHE struct flmem_image_cache *cache = flmem_image_cache_new();
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	FLMEM_AUTO_MODULES struct flmem_modules modules = {0};
	const struct flmem_view view = {&process, &maps, &modules};
	size_t asked = 0, borrowed = 0;
	const struct flmem_candidate_filter filter = {accepts, &asked};
	const struct flmem_borrow_options options = {
		.timeout_us = 5000000, .filter = &filter, .computing = child};
	struct flmem_borrow_result result;
	struct flmem_error err = {0};
	uint64_t function = 0;

	(void)state;
	await_round(1);
	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	assert_int_equal(flmem_maps_read(&process, &maps, NULL), 0);
	assert_int_equal(flmem_modules_load(&process, &maps, cache, &modules, NULL), 0);
	assert_non_null(flmem_modules_lookup(&modules, "sched_yield", &function));
	for (size_t i = 0; i < TIMES; i++) {
		struct flmem_chain chain = {0};
		int rc;

		flmem_chain_add(&chain, "sched_yield", function);
		rc = flmem_borrow_run(&view, &chain, &options, &result, &err);
		if (rc == FLMEM_EPERM || rc == FLMEM_EUNSUPPORTED) {
			print_message("SKIP: %s\n", err.message);
			skip();
		}
		if (rc)
			fail_msg("%s", err.message);
		assert_true(result.complete);
		assert_int_equal(result.tid, child);
		borrowed++;
	}
	assert_true(asked >= borrowed);
	await_round(page->rounds + 100);
	assert_int_equal(page->faults, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_computing_thread_goes_on_with_all_its_state,
						start_child, end_child),
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
