/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which pages may belong to a file that a process serves, and which surely do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/files/read_hazard.h"
#include "proc/pages.h"
#include "proc/process.h"

#define TMPFS_MAGIC 0x01021994
#define PAGES	    200U /* more than are read at once */

static int check_own(const char *start, size_t length)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;

	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	if (process.pagemap < 0) {
		print_message("SKIP: the page map cannot be read here\n");
		skip();
	}
	return flmem_read_hazard_check(&process, (uint64_t)(uintptr_t)start, length);
}

/* Maps PAGES pages of a file, which are not in memory yet, and closes the file. */
static char *map_file(int fd)
{
	size_t length = PAGES * (size_t)flmem_page_bytes();
	char *start;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)length), 0);
	start = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(start != MAP_FAILED);
	madvise(start, length, MADV_RANDOM);
	close(fd);
	return start;
}

static void unmap_file(char *start)
{
	munmap(start, PAGES * (size_t)flmem_page_bytes());
}

/* The file is on a mount that nobody sees, as is a file of a FUSE mount that was detached. */
static void a_file_of_an_unknown_mount_is_read_where_it_is_held(void **state)
{
	const size_t page = (size_t)flmem_page_bytes();
	char *start = map_file(memfd_create("fault", MFD_CLOEXEC));

	(void)state;
	assert_int_equal(check_own(start, 1), -ENODATA);
	start[0] = start[page] = 1;
	assert_int_equal(check_own(start, 1), 0);
	assert_int_equal(check_own(start, 2 * page), 0);
	assert_int_equal(check_own(start, 2 * page + 1), -ENODATA);
	assert_int_equal(check_own(start + 2 * page - 1, 1), 0);
	assert_int_equal(check_own(start + 2 * page - 1, 2), -ENODATA);
	assert_int_equal(check_own(start + 2 * page, 0), 0);
	unmap_file(start);
}

static void every_page_of_a_long_range_counts(void **state)
{
	const size_t page = (size_t)flmem_page_bytes();
	char *start = map_file(memfd_create("fault", MFD_CLOEXEC));

	(void)state;
	for (size_t i = 0; i < PAGES - 1; i++)
		start[i * page] = 1;
	assert_int_equal(check_own(start, (PAGES - 1) * page), 0);
	assert_int_equal(check_own(start, PAGES * page), -ENODATA);
	start[(PAGES - 1) * page] = 1;
	assert_int_equal(check_own(start, PAGES * page), 0);
	unmap_file(start);
}

static void memory_without_a_file_needs_none(void **state)
{
	const size_t length = 4 * (size_t)flmem_page_bytes();
	char *start =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(start != MAP_FAILED);
	assert_int_equal(check_own(start, length), 0);
	munmap(start, length);
}

/* In a hold, a page that has to be made first counts as missed. */
static void a_hold_reads_resident_pages_only(void **state)
{
	const size_t page = (size_t)flmem_page_bytes(), length = 4 * page;
	char *start =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(start != MAP_FAILED);
	start[0] = 1;
	flmem_read_hazard_begin_hold();
	assert_int_equal(check_own(start, 1), 0);
	assert_int_equal(flmem_read_hazard_missed().length, 0);
	assert_int_equal(check_own(start + 1, page), -ENODATA);
	flmem_read_hazard_end_hold(NULL);
	assert_int_equal(flmem_read_hazard_missed().address, (uintptr_t)start + 1);
	assert_int_equal(flmem_read_hazard_missed().length, page);
	assert_int_equal(check_own(start + 1, page), 0);
	flmem_read_hazard_begin_hold();
	assert_int_equal(flmem_read_hazard_missed().length, 0);
	flmem_read_hazard_end_hold(NULL);
	munmap(start, length);
}

/* A later attempt that misses nothing fetches nothing. */
static void what_was_missed_is_fetched_once(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	const size_t page = (size_t)flmem_page_bytes();
	char *start = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(start != MAP_FAILED);
	flmem_read_hazard_begin_hold();
	assert_int_equal(check_own(start, 1), -ENODATA);
	flmem_read_hazard_end_hold(NULL);
	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	assert_true(flmem_process_fetch_missed(&process));
	assert_int_equal(check_own(start, 1), 0);
	assert_int_equal(flmem_read_hazard_missed().length, 0);
	assert_false(flmem_process_fetch_missed(&process));
	munmap(start, page);
}

/* flmem has no descriptor left to read the mappings. */
static void a_page_of_unknown_mappings_is_not_read(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	const size_t page = (size_t)flmem_page_bytes();
	char *start = map_file(memfd_create("fault", MFD_CLOEXEC));
	struct rlimit limit, none;

	(void)state;
	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){.rlim_max = limit.rlim_max};
	start[0] = 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(flmem_read_hazard_check(&process, (uintptr_t)start, 1), 0);
	assert_int_equal(flmem_read_hazard_check(&process, (uintptr_t)start + page, 1), -ENODATA);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	unmap_file(start);
}

/* Its reads fail at once, with the error that shows it. */
static void a_process_that_has_ended_is_not_waited_for(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	const pid_t child = fork();

	(void)state;
	if (child == 0)
		_exit(0);
	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(flmem_read_hazard_check(&process, (uintptr_t)&process, 1), 0);
}

/* Replaces what the kernel shows of the pages of an area by the same entry for each. */
static void show_pages(struct flmem_process *process, const char *start, uint64_t entry)
{
	const uint64_t first = (uintptr_t)start / flmem_page_bytes();
	const int fd = memfd_create("pages", MFD_CLOEXEC);

	assert_true(fd >= 0);
	for (uint64_t i = first; i < first + PAGES; i++)
		assert_int_equal(pwrite(fd, &entry, sizeof(entry), (off_t)(i * sizeof(entry))),
				 sizeof(entry));
	if (process->pagemap >= 0)
		close(process->pagemap);
	process->pagemap = fd;
}

static int check_held(const struct flmem_process *process, const char *start)
{
	int rc;

	flmem_read_hazard_begin_hold();
	rc = flmem_read_hazard_check(process, (uintptr_t)start, 1);
	flmem_read_hazard_end_hold(NULL);
	return rc;
}

/* A swap device may be slow; a guard page ends a read at once. */
static void a_hold_waits_for_no_swap_and_knows_guards(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	char *start = map_file(memfd_create("fault", MFD_CLOEXEC));
	const uint64_t at = (uintptr_t)start;

	(void)state;
	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	show_pages(&process, start, UINT64_C(1) << 63);
	assert_int_equal(check_held(&process, start), 0);
	show_pages(&process, start, UINT64_C(1) << 62);
	assert_int_equal(flmem_read_hazard_check(&process, at, 1), 0);
	assert_int_equal(check_held(&process, start), -ENODATA);
	show_pages(&process, start, UINT64_C(1) << 58);
	assert_int_equal(check_held(&process, start), 0);
	show_pages(&process, start, 0);
	assert_int_equal(flmem_read_hazard_check(&process, at, 1), -ENODATA);
	close(process.pagemap);
	process.pagemap = -1; /* a kernel without it */
	assert_int_equal(flmem_read_hazard_check(&process, at, 1), -ENODATA);
	unmap_file(start);
}

/* Only what a read touches counts, not a file that ends before it. */
static void a_neighbour_is_not_waited_for(void **state)
{
	const size_t page = (size_t)flmem_page_bytes();
	char *start = map_file(memfd_create("fault", MFD_CLOEXEC));

	(void)state;
	assert_true(mmap(start + page, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			 0) != MAP_FAILED);
	assert_int_equal(check_own(start + page, page), 0);
	assert_int_equal(check_own(start + page - 1, 1), -ENODATA);
	assert_int_equal(check_own(start + page, page + 1), -ENODATA);
	unmap_file(start);
}

static void expect_fetch(size_t offset, size_t length)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	const size_t page = (size_t)flmem_page_bytes();
	char *start =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(start != MAP_FAILED);
	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	flmem_read_hazard_begin_hold();
	assert_int_equal(check_own(start + offset, length), -ENODATA);
	flmem_read_hazard_end_hold(NULL);
	assert_true(flmem_process_fetch_missed(&process));
	flmem_read_hazard_begin_hold();
	assert_int_equal(check_own(start, 2 * page), 0);
	flmem_read_hazard_end_hold(NULL);
	munmap(start, 2 * page);
}

/* Both ends of a range may have one byte of their page. */
static void all_that_was_missed_is_fetched(void **state)
{
	const size_t page = (size_t)flmem_page_bytes();

	(void)state;
	expect_fetch(0, page + 1);
	expect_fetch(page - 1, 2);
}

/* The mount is the kernel's own file system, without a block device. */
static void a_mount_that_the_kernel_serves_is_read(void **state)
{
	char path[] = "/dev/shm/flmem-fault-XXXXXX";
	struct statfs file;
	char *start;
	int fd;

	(void)state;
	fd = mkstemp(path);
	if (fd < 0 || fstatfs(fd, &file) || file.f_type != TMPFS_MAGIC) {
		print_message("SKIP: /dev/shm is not a tmpfs here\n");
		skip();
	}
	unlink(path);
	start = map_file(fd);
	assert_int_equal(check_own(start, PAGES * (size_t)flmem_page_bytes()), 0);
	unmap_file(start);
}

/* Where nothing is mapped a read fails at once. */
static void nothing_is_not_waited_for(void **state)
{
	(void)state;
	assert_int_equal(check_own((const char *)0, 1), 0);
	assert_int_equal(check_own((const char *)UINTPTR_MAX, 2), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_of_an_unknown_mount_is_read_where_it_is_held),
		cmocka_unit_test(every_page_of_a_long_range_counts),
		cmocka_unit_test(memory_without_a_file_needs_none),
		cmocka_unit_test(a_hold_reads_resident_pages_only),
		cmocka_unit_test(what_was_missed_is_fetched_once),
		cmocka_unit_test(a_page_of_unknown_mappings_is_not_read),
		cmocka_unit_test(a_process_that_has_ended_is_not_waited_for),
		cmocka_unit_test(a_hold_waits_for_no_swap_and_knows_guards),
		cmocka_unit_test(a_neighbour_is_not_waited_for),
		cmocka_unit_test(all_that_was_missed_is_fetched),
		cmocka_unit_test(a_mount_that_the_kernel_serves_is_read),
		cmocka_unit_test(nothing_is_not_waited_for),
	};

	return cmocka_run_group_tests_name("read_hazard", tests, NULL, NULL);
}
