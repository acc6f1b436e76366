/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that memory of another process is read completely or not at all, and never from the program
 * that it executes next.
 */
#include "borrowed.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/portable.h"
#include "proc/process.h"

#define PAGE_BYTES 4096

static char *pages; /* two pages, of which the child has only the first */
static _Atomic bool *begin;
static pid_t child;

static void be_child(void)
{
	char *argv[] = {"sleep", "1000", NULL};

	munmap(pages + PAGE_BYTES, PAGE_BYTES);
	memset(pages, 'c', PAGE_BYTES);
	while (!atomic_load(begin))
		usleep(1000);
	execvp(argv[0], argv);
}

/* Opening a device can act on it; the files of proc are the kernel's. */
static void only_plain_files_are_opened(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	int fd;

	(void)state;
	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	fd = flmem_process_open_file(&process, "/proc/self/exe");
	assert_int_equal(fd, -ELOOP); /* the path is a magic link */
	assert_int_equal(flmem_process_open_file(&process, "/dev/null"), -EINVAL);
	assert_int_equal(flmem_process_open_file(&process, "/proc/version"), -EINVAL);
	assert_int_equal(flmem_process_open_file(&process, "/"), -EINVAL);
	fd = flmem_process_open_file(&process, "/etc/passwd");
	assert_true(fd >= 0);
	close(fd);
}

static int start_child(void **state)
{
	(void)state;
	pages = mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	begin = child_share(sizeof(*begin));
	if (pages == MAP_FAILED || !begin)
		return 1;
	memset(pages, 'p', 2 * PAGE_BYTES);
	child = child_start(be_child);
	return !child;
}

static int end_child(void **state)
{
	(void)state;
	child_end(child);
	munmap((void *)begin, sizeof(*begin));
	return munmap(pages, 2 * PAGE_BYTES);
}

static uint64_t address_of(const char *byte)
{
	return (uint64_t)(uintptr_t)byte;
}

static void open_child(struct flmem_process *process)
{
	char byte = 0;

	assert_int_equal(flmem_process_open(child, process, NULL), 0);
	assert_int_equal(flmem_process_pin_memory(process, NULL), 0);
	await_true(flmem_process_read_memory(process, address_of(pages), &byte, 1) == 0 &&
		   byte == 'c');
}

static void a_part_is_not_taken_for_the_whole(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	char bytes[16];

	(void)state;
	open_child(&process);
	assert_int_equal(
		flmem_process_read_memory(&process, address_of(pages + PAGE_BYTES - 8), bytes, 8),
		0);
	assert_int_equal(
		flmem_process_read_memory(&process, address_of(pages + PAGE_BYTES - 8), bytes, 16),
		-EFAULT);
	assert_int_equal(
		flmem_process_read_pinned(&process, address_of(pages + PAGE_BYTES - 8), bytes, 16),
		-EFAULT);
	assert_int_equal(
		flmem_process_write_memory(&process, address_of(pages + PAGE_BYTES - 8), bytes, 16),
		-EFAULT);
	assert_int_equal(flmem_process_read_pinned(&process, UINT64_MAX - 8, bytes, 8), -EFAULT);
}

static void nothing_is_written_without_a_pinned_memory(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;

	(void)state;
	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	assert_true(flmem_process_write_memory(&process, address_of(pages), "x", 1) < 0);
	assert_true(flmem_process_read_pinned(&process, address_of(pages), (char[1]){0}, 1) < 0);
}

/* The other program is the reason of a failure, unless that was partial or has its own reason. */
static void assert_what_failed_is_known(const struct flmem_process *process)
{
	static const int blamed[] = {FLMEM_EUNSUPPORTED, FLMEM_EUNSAFE, FLMEM_EFAILED};
	static const int kept[] = {0, FLMEM_EPARTLY, FLMEM_EPERM, FLMEM_EUSAGE};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(blamed); i++) {
		struct flmem_error err = {0};

		assert_int_equal(flmem_process_failure(process, blamed[i], &err), FLMEM_ENOPROC);
		assert_non_null(strstr(err.message, "has executed another program"));
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(kept); i++)
		assert_int_equal(flmem_process_failure(process, kept[i], NULL), kept[i]);
}

/* Whatever the next program has at the same address: the memory that was opened is gone. */
static void the_memory_of_the_next_program_is_another_one(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	struct flmem_error err = {0};
	char byte;

	(void)state;
	open_child(&process);
	assert_int_equal(flmem_process_write_memory(&process, address_of(pages), "y", 1), 0);
	assert_int_equal(flmem_process_read_pinned(&process, address_of(pages), &byte, 1), 0);
	assert_int_equal(byte, 'y');
	assert_int_equal(flmem_process_failure(&process, FLMEM_EUNSAFE, &err), FLMEM_EUNSAFE);
	atomic_store(begin, true);
	await_true(flmem_process_read_pinned(&process, address_of(pages), &byte, 1) == -ESRCH);
	assert_int_equal(flmem_process_write_memory(&process, address_of(pages), "z", 1), -ESRCH);
	assert_true(flmem_process_alive(&process));
	assert_int_equal(flmem_process_error(&process, -ESRCH, "read", &err), FLMEM_ENOPROC);
	assert_non_null(strstr(err.message, "has executed another program"));
	assert_what_failed_is_known(&process);
	kill(child, SIGKILL);
	await_true(!flmem_process_alive(&process));
	assert_int_equal(flmem_process_error(&process, -ESRCH, "read", &err), FLMEM_ENOPROC);
	assert_non_null(strstr(err.message, "has exited"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_plain_files_are_opened),
		cmocka_unit_test_setup_teardown(a_part_is_not_taken_for_the_whole, start_child,
						end_child),
		cmocka_unit_test_setup_teardown(nothing_is_written_without_a_pinned_memory,
						start_child, end_child),
		cmocka_unit_test_setup_teardown(the_memory_of_the_next_program_is_another_one,
						start_child, end_child),
	};

	return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
