/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests threads that end, or whose process executes another program, between their seizure and
 * their stop: another thread is borrowed, or none, and nothing is written into the new program.
 */
#include "borrowed.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "proc/task.h"

#define THREADS 3U /* the first thread, and two more */

struct page {
	_Atomic pid_t threads[THREADS];
	_Atomic uint64_t calls;
	int bells[THREADS][2];
};

static struct page *page;
static pid_t child;

#if defined(__x86_64__) || defined(__aarch64__)
/* Called before the stop of a thread, with the thread. */
static void (*before_stop)(pid_t tid);

static long answer_borrow_ended(enum __ptrace_request request, long tid, long address, long data)
{
	if (request == PTRACE_INTERRUPT && before_stop) {
		void (*act)(pid_t tid) = before_stop;

		before_stop = NULL;
		act((pid_t)tid);
	}
	return ptrace_in_kernel(request, tid, address, data);
}

REPLACE_PTRACE(answer_borrow_ended)

__attribute__((noinline, no_sanitize("address", "undefined"))) static void note_call(void)
{
	atomic_fetch_add(&page->calls, 1);
}

static void *be_thread(void *argument)
{
	char *argv[] = {"sleep", "1000", NULL};
	size_t number = (size_t)(uintptr_t)argument;
	char byte = 0;

	atomic_store(&page->threads[number], gettid());
	while (read(page->bells[number][0], &byte, 1) != 1)
		continue;
	if (byte == 'x')
		execv("/bin/sleep", argv);
	syscall(SYS_exit, 0);
	return NULL;
}

static void be_child(void)
{
	pthread_t thread;

	for (uintptr_t i = 1; i < THREADS; i++)
		if (pthread_create(&thread, NULL, be_thread, (void *)i))
			_exit(1);
	be_thread(NULL);
}

static bool are_blocked(const struct flmem_process *process)
{
	struct flmem_task_wait wait;

	for (size_t i = 0; i < THREADS; i++)
		if (!page->threads[i] ||
		    flmem_task_read_wait(process, page->threads[i], &wait) != 1 ||
		    wait.number != SYS_read)
			return false;
	return true;
}

static int start_child(void **state)
{
	(void)state;
	page = child_share(sizeof(*page));
	for (size_t i = 0; page && i < THREADS; i++)
		if (pipe2(page->bells[i], O_CLOEXEC))
			return 1;
	child = page ? child_start(be_child) : 0;
	return !child;
}

static int end_child(void **state)
{
	(void)state;
	before_stop = NULL;
	for (size_t i = 0; i < THREADS; i++) {
		pipe_close(page->bells[i]);
	}
	return child_close(child, page, sizeof(*page));
}

/* Reads a field of the status of a thread; "" when there is none. */
static void read_field(pid_t tid, const char *name, char *out, size_t size)
{
	char path[40], line[256];
	FILE *file;

	out[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, name, strlen(name)) == 0)
			snprintf(out, size, "%.*s", (int)strcspn(line, "\n"), line);
	if (file)
		fclose(file);
}

static bool shows(pid_t tid, const char *name, const char *expected)
{
	char field[256];

	read_field(tid, name, field, sizeof(field));
	return strcmp(field, expected) == 0;
}

static bool is_gone(pid_t tid)
{
	char field[256];

	read_field(tid, "State:", field, sizeof(field));
	return !field[0] || strstr(field, "Z (zombie)");
}

static void ring(size_t number, const char *how)
{
	assert_int_equal(write(page->bells[number][1], how, 1), 1);
}

static void end_it(pid_t tid)
{
	for (size_t i = 0; i < THREADS; i++)
		if (page->threads[i] == tid)
			ring(i, "e");
	await_true(is_gone(tid));
}

/* Lets a thread that is not seized execute a program; it waits until the seized one has ended. */
static void execute(pid_t tid)
{
	ring(page->threads[1] == tid ? 2 : 1, "x");
	await_true(is_gone(tid) || shows(child, "Name:", "Name:\tsleep"));
}

/* Accepts all threads but the first, when no single thread is requested. */
static bool accepts(void *context, const struct flmem_candidate *candidate, uint64_t pointer,
		    const char **ret_reason)
{
	(void)pointer;
	*ret_reason = "is the first one";
	return *(const pid_t *)context || !candidate->leader;
}

static int borrow(pid_t only, struct flmem_borrow_result *result)
{
	const struct flmem_candidate_filter filter = {accepts, &only};
	const struct flmem_borrow_options options = {
		.timeout_us = 1000000, .filter = &filter, .only = only, .repeatable = true};
	struct flmem_chain chain = {0};
	struct flmem_error err = {0};
	struct target target;
	int rc;

	/* Their stacks must be mapped before the mappings are read. */
	await_true(page->threads[1] && page->threads[2]);
	target_open(child, &target);
	await_true(are_blocked(&target.process));
	flmem_chain_add(&chain, "call", (uint64_t)(uintptr_t)note_call);
	rc = flmem_borrow_run(&target.view, &chain, &options, result, &err);
	target_close(&target);
	if (rc == FLMEM_EPERM || rc == FLMEM_EUNSUPPORTED)
		expect_borrowed(rc, &err);
	assert_null(before_stop);
	return rc;
}

static void another_thread_is_taken_for_one_that_ended(void **state)
{
	struct flmem_borrow_result result;

	(void)state;
	before_stop = end_it;
	assert_int_equal(borrow(0, &result), 0);
	assert_true(result.complete);
	assert_int_equal(page->calls, 1);
	assert_false(is_gone(result.tid));
}

/* The process continues without its first thread, but shows nothing of itself any more. */
static void a_first_thread_that_ended_is_not_waited_for(void **state)
{
	struct flmem_borrow_result result;

	(void)state;
	before_stop = end_it;
	assert_int_equal(borrow(child, &result), FLMEM_ENOPROC);
	assert_false(result.started);
	assert_int_equal(page->calls, 0);
	for (size_t i = 1; i < THREADS; i++) {
		assert_true(shows(page->threads[i], "State:", "State:\tS (sleeping)"));
		assert_true(shows(page->threads[i], "TracerPid:", "TracerPid:\t0"));
	}
}

static void expect_new_program(pid_t only)
{
	struct flmem_borrow_result result;

	before_stop = execute;
	assert_int_not_equal(borrow(only, &result), 0);
	assert_false(result.started);
	assert_int_equal(page->calls, 0);
	await_true(shows(child, "Name:", "Name:\tsleep"));
	await_true(shows(child, "State:", "State:\tS (sleeping)"));
	assert_true(shows(child, "TracerPid:", "TracerPid:\t0"));
}

static void a_program_that_another_thread_executes_is_not_touched(void **state)
{
	(void)state;
	expect_new_program(0);
}

static void nor_is_it_where_the_first_thread_was_to_be_borrowed(void **state)
{
	(void)state;
	expect_new_program(child);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start_child, end_child)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(another_thread_is_taken_for_one_that_ended),
		TEST(a_first_thread_that_ended_is_not_waited_for),
		TEST(a_program_that_another_thread_executes_is_not_touched),
		TEST(nor_is_it_where_the_first_thread_was_to_be_borrowed),
	};

	return cmocka_run_group_tests_name("borrow_ended", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
