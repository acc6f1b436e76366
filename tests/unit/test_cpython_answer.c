/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests an answer of a script that is read while its thread still writes it: the end is read later.
 */
#include "borrowed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "runtimes/cpython_injected_script.h"

#define OUTPUT	   "begin and end"
#define SEEN	   5U /* bytes of it */
#define TIMEOUT_US 20000000U

struct page {
	_Atomic pid_t writer;
	_Atomic bool goes_on;
	_Atomic bool begins;
	unsigned char answer[FLMEM_CPYTHON_ANSWER_HEAD + 64];
};

static struct page *page;
static pid_t child;
static unsigned torn;

int __real_flmem_process_read_memory(const struct flmem_process *process, uint64_t address,
				     void *ret_bytes, size_t length);
int __wrap_flmem_process_read_memory(const struct flmem_process *process, uint64_t address,
				     void *ret_bytes, size_t length);

static bool is_writer_there(void)
{
	struct stat unused;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)child, (int)page->writer);
	return stat(path, &unused) == 0;
}

/* While its thread exists, a copy of the answer has only the beginning of the text. */
int __wrap_flmem_process_read_memory(const struct flmem_process *process, uint64_t address,
				     void *ret_bytes, size_t length)
{
	int rc = __real_flmem_process_read_memory(process, address, ret_bytes, length);
	const size_t seen = FLMEM_CPYTHON_ANSWER_HEAD + strlen("ok\n") + SEEN;

	if (rc || length <= seen || address != (uint64_t)(uintptr_t)page->answer ||
	    !is_writer_there())
		return rc;
	memset((unsigned char *)ret_bytes + seen, 0, length - seen);
	torn++;
	atomic_store(&page->goes_on, true);
	return 0;
}

static void *write_answer(void *unused)
{
	atomic_store(&page->writer, gettid());
	while (!atomic_load(&page->goes_on))
		usleep(1000);
	return unused;
}

static void be_child(void)
{
	pthread_t thread;

	while (!atomic_load(&page->begins))
		usleep(1000);
	if (pthread_create(&thread, NULL, write_answer, NULL))
		_exit(1);
	for (;;)
		pause();
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

static void fill_answer(const unsigned char *cookie)
{
	static const char text[] = "ok\n" OUTPUT;
	const uint32_t length = sizeof(text) - 1;

	memcpy(page->answer, cookie, FLMEM_CPYTHON_COOKIE);
	memcpy(page->answer + FLMEM_CPYTHON_COOKIE, &length, sizeof(length));
	memcpy(page->answer + FLMEM_CPYTHON_ANSWER_HEAD, text, length);
}

static void the_answer_is_read_again_after_the_end_of_its_thread(void **state)
{
	FLMEM_AUTO_CPYTHON_INJECTED struct flmem_cpython_injected injected = {
		.address = (uint64_t)(uintptr_t)page->answer,
		.answer_max = sizeof(page->answer),
		.cookie = "answers",
		.text = FLMEM_BUF_INIT,
	};
	FLMEM_AUTO_CPYTHON_RESULT struct flmem_cpython_result result = {0};
	const struct flmem_cpython_call call = {.timeout_us = TIMEOUT_US};
	struct flmem_error err = {0};
	struct target target;
	const struct flmem_cpython_session session = {
		.view = &target.view, .call = &call, .result = &result};

	(void)state;
	target_open(child, &target);
	assert_int_equal(flmem_tasks_read(&target.process, &injected.before), 0);
	fill_answer(injected.cookie);
	atomic_store(&page->begins, true);
	await_true(page->writer);
	if (flmem_cpython_injected_await(&session, &injected, &err))
		fail_msg("%s", err.message);
	target_close(&target);
	assert_true(torn > 0); /* otherwise this test has shown nothing */
	assert_true(result.complete);
	assert_string_equal(result.answer.output, OUTPUT);
}

/*
 * The first flmem was stopped between the answer and the end: another flmem has the place since,
 * and perhaps its answer.
 */
static void the_place_of_another_flmem_is_not_erased(void **state)
{
	struct flmem_cpython_injected injected = {
		.place = (uint64_t)(uintptr_t)page->answer,
		.address = (uint64_t)(uintptr_t)page->answer,
		.length = sizeof(page->answer),
		.cookie = "answers",
	};
	struct flmem_cpython_result result = {.complete = true};
	struct target target;
	const struct flmem_cpython_session session = {.view = &target.view, .result = &result};

	(void)state;
	target_open(child, &target);
	atomic_store(&page->begins, true);
	await_true(page->writer); /* the child has touched the page */
	atomic_store(&page->goes_on, true);
	fill_answer((const unsigned char *)"another");
	flmem_cpython_injected_erase(&session, &injected);
	assert_memory_equal(page->answer, "another", FLMEM_CPYTHON_COOKIE);
	memcpy(injected.cookie, "another", FLMEM_CPYTHON_COOKIE);
	flmem_cpython_injected_erase(&session, &injected);
	for (size_t i = 0; i < sizeof(page->answer); i++)
		assert_int_equal(page->answer[i], 0);
	page->answer[0] = 1; /* no code has answered: the place belongs to nobody else */
	result.complete = false;
	flmem_cpython_injected_erase(&session, &injected);
	assert_int_equal(page->answer[0], 0);
	target_close(&target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			the_answer_is_read_again_after_the_end_of_its_thread, start_child,
			end_child),
		cmocka_unit_test_setup_teardown(the_place_of_another_flmem_is_not_erased,
						start_child, end_child),
	};

	return cmocka_run_group_tests_name("cpython_answer", tests, NULL, NULL);
}
