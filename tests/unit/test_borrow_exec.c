/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target that executes another program after flmem has read it, and then waits at the very same
 * place, with the same registers: nothing may be written into the new program nor called in it.
 */
#include "borrowed.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/syscall.h>

#include "proc/task.h"

#define STACK_BYTES 65536
#define NEAR_BYTES  512
#define FILLING	    0x5a

struct page {
	_Atomic uint64_t programs, dirty, rounds;
};

static struct page *page;
static pid_t child;
static int bell[2], page_fd;

#ifdef __x86_64__
#define ARGUMENT "be-the-program"

/* Fills the stack far below its caller. */
__attribute__((noinline)) static void fill_stack(void)
{
	volatile unsigned char room[STACK_BYTES];

	for (size_t i = 0; i < STACK_BYTES; i++)
		room[i] = FILLING;
	(void)room[0];
}

/*
 * Makes the same call from the same place in each program, over a stack that shows what was
 * written.
 */
__attribute__((noinline)) static long wait_for_bell(char *ret_byte)
{
	const volatile unsigned char *frame = __builtin_frame_address(0);
	long got;

	fill_stack();
	__asm__ volatile("syscall"
			 : "=a"(got)
			 : "a"(SYS_read), "D"((long)bell[0]), "S"(ret_byte), "d"(1L)
			 : "rcx", "r11", "memory");
	for (size_t i = NEAR_BYTES; i < STACK_BYTES - NEAR_BYTES; i++)
		if (frame[-(ptrdiff_t)i] != FILLING)
			atomic_fetch_add(&page->dirty, 1);
	return got;
}

/* Another process that shares the memory, as the child of a vfork() does for a while. */
static int live_on(void *unused)
{
	(void)unused;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
	return 0;
}

static void share_memory(void)
{
	static char stack[STACK_BYTES] __attribute__((aligned(16)));

	if (clone(live_on, stack + sizeof(stack), CLONE_VM, NULL) < 0)
		_exit(4);
}

/* Runs as the program, with the numbers of the descriptors: pipe and page. */
static void be_program(char **argv)
{
	char byte = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	bell[0] = (int)strtol(argv[2], NULL, 10);
	page_fd = (int)strtol(argv[3], NULL, 10);
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);
	if (page == MAP_FAILED)
		_exit(2);
	atomic_fetch_add(&page->programs, 1);
	while (wait_for_bell(&byte) == 1) {
		atomic_fetch_add(&page->rounds, 1);
		if (byte == 's')
			share_memory();
		if (byte == 'x' || byte == 's')
			execv("/proc/self/exe", argv);
	}
	_exit(3);
}

static void be_child(void)
{
	char numbers[2][16];

	snprintf(numbers[0], sizeof(numbers[0]), "%d", bell[0]);
	snprintf(numbers[1], sizeof(numbers[1]), "%d", page_fd);
	personality(ADDR_NO_RANDOMIZE);
	execl("/proc/self/exe", "program", ARGUMENT, numbers[0], numbers[1], NULL);
}

static int start_child(void **state)
{
	(void)state;
	page_fd = memfd_create("page", 0);
	if (page_fd < 0 || ftruncate(page_fd, sizeof(*page)) || pipe(bell))
		return 1;
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);
	child = page == MAP_FAILED ? 0 : child_start(be_child);
	return !child;
}

static int end_child(void **state)
{
	(void)state;
	pipe_close(bell);
	close(page_fd);
	return child_close(child, page, sizeof(*page));
}

static bool waits_at(const struct flmem_process *process, struct flmem_task_wait *ret_wait)
{
	return flmem_task_read_wait(process, child, ret_wait) == 1 && ret_wait->number == SYS_read;
}

static void ring(char byte)
{
	assert_int_equal(write(bell[1], &byte, 1), 1);
}

static void expect_same_place(const struct flmem_process *process, char how,
			      const struct flmem_task_wait *before)
{
	struct flmem_task_wait after;

	ring(how);
	await_true(page->programs == 2);
	assert_true(page->dirty > 0); /* the first one shows what a trim leaves */
	await_true(waits_at(process, &after));
	if (memcmp(before, &after, sizeof(after)) != 0) {
		print_message("SKIP: the second program does not wait where the first did\n");
		skip();
	}
	atomic_store(&page->dirty, 0);
}

/*
 * Checks that the new program is not touched, whether or not another process still has the memory
 * of the first one.
 */
static void expect_not_touched(char how)
{
	const struct flmem_borrow_options options = {.timeout_us = 20000000, .repeatable = true};
	const struct flmem_borrow_options hasty = {.timeout_us = 20000, .repeatable = true};
	struct flmem_borrow_result result;
	struct flmem_task_wait before;
	struct flmem_chain chain = {0};
	struct flmem_error err = {0};
	struct target target;

	await_true(page->programs == 1);
	target_open(child, &target);
	await_true(waits_at(&target.process, &before));
	flmem_chain_add(&chain, "sched_yield", target_function(&target, "sched_yield"));
	expect_borrowed(flmem_borrow_run(&target.view, &chain, &options, &result, &err), &err);
	assert_true(result.complete);
	expect_same_place(&target.process, how, &before);
	assert_int_not_equal(flmem_borrow_run(&target.view, &chain, &hasty, &result, &err), 0);
	assert_false(result.started);
	ring('y');
	await_true(page->rounds == 2);
	target_close(&target);
	assert_int_equal(page->dirty, 0);
}

static void another_program_is_not_touched(void **state)
{
	(void)state;
	expect_not_touched('x');
}

static void another_program_is_not_touched_while_its_old_memory_lives(void **state)
{
	(void)state;
	expect_not_touched('s');
}

/* A descriptor of memory that was opened before an execve reads nothing after it. */
static void the_pinned_memory_is_that_of_one_program(void **state)
{
	struct flmem_task_wait wait;
	struct target target;
	uint64_t word = 1;

	(void)state;
	await_true(page->programs == 1);
	target_open(child, &target);
	await_true(waits_at(&target.process, &wait));
	assert_int_equal(flmem_process_read_pinned(&target.process, wait.sp, &word, sizeof(word)),
			 0);
	assert_int_equal(flmem_process_read_pinned(&target.process, 8, &word, sizeof(word)),
			 -EFAULT);
	ring('x');
	await_true(page->programs == 2);
	await_true(waits_at(&target.process, &wait));
	assert_int_equal(flmem_process_read_pinned(&target.process, wait.sp, &word, sizeof(word)),
			 -ESRCH);
	assert_int_equal(flmem_process_write_memory(&target.process, wait.sp, &word, sizeof(word)),
			 -ESRCH);
	target_close(&target);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(another_program_is_not_touched, start_child,
						end_child),
		cmocka_unit_test_setup_teardown(
			another_program_is_not_touched_while_its_old_memory_lives, start_child,
			end_child),
		cmocka_unit_test_setup_teardown(the_pinned_memory_is_that_of_one_program,
						start_child, end_child),
	};

	if (argc == 4 && strcmp(argv[1], ARGUMENT) == 0)
		be_program(argv);
	return cmocka_run_group_tests_name("borrow_exec", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
