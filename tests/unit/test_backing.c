/* SPDX-License-Identifier: Apache-2.0 */
/* Tests shared memory and files of this process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "proc/files/backing.h"
#include "proc/process.h"
#include "proc/status.h"

#define LENGTH	((size_t)4 << 20)
#define WRITTEN ((size_t)3 << 20)

static char *touched(void *area)
{
	assert_ptr_not_equal(area, MAP_FAILED);
	memset(area, 1, WRITTEN);
	return area;
}

static char *map_fd(int fd, int flags)
{
	char *area;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, LENGTH), 0);
	area = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, flags, fd, 0);
	close(fd);
	return area;
}

static char *map_sysv(void)
{
	int id = shmget(IPC_PRIVATE, LENGTH, 0600);
	char *area;

	assert_true(id >= 0);
	area = shmat(id, NULL, 0);
	shmctl(id, IPC_RMID, NULL);
	return area;
}

static const struct flmem_backing *find(const struct flmem_backings *backings,
					enum flmem_backing_kind kind, const char *start)
{
	for (size_t i = 0; i < backings->count; i++)
		if (backings->rows[i].kind == kind &&
		    flmem_text_starts(backings->rows[i].name, start) &&
		    backings->rows[i].resident_bytes >= WRITTEN)
			return &backings->rows[i];
	return NULL;
}

static void read_own(struct flmem_backings *backings, struct flmem_maps *maps,
		     struct flmem_status *status)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;

	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	assert_int_equal(flmem_maps_read(&process, maps, NULL), 0);
	assert_int_equal(flmem_backings_read(&process, maps, true, SIZE_MAX, backings, NULL), 0);
	assert_int_equal(flmem_status_read(&process, status, NULL), 0);
}

static void each_kind_of_shared_memory_is_told(void **state)
{
	static const struct {
		enum flmem_backing_kind kind;
		const char *start;
	} expected[] = {
		{FLMEM_BACKING_MEMFD, "/memfd:flmem-test"},
		{FLMEM_BACKING_SYSV, "/SYSV00000000"},
		{FLMEM_BACKING_SHARED_ANONYMOUS, "/dev/zero"},
		{FLMEM_BACKING_TMPFS, "/dev/shm/"},
	};
	FLMEM_AUTO_BACKINGS struct flmem_backings backings = {0};
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	int shm = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	struct flmem_status status;
	uint64_t shared = 0;
	char *areas[4];

	(void)state;
	if (shm < 0) {
		fputs("skipped: needs /dev/shm on tmpfs\n", stderr);
		skip();
	}
	areas[0] = touched(map_fd(memfd_create("flmem-test", MFD_CLOEXEC), MAP_SHARED));
	areas[1] = touched(map_sysv());
	areas[2] = touched(
		mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	areas[3] = touched(map_fd(shm, MAP_SHARED));
	read_own(&backings, &maps, &status);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(expected); i++) {
		const struct flmem_backing *found =
			find(&backings, expected[i].kind, expected[i].start);

		assert_non_null(found);
		assert_int_equal(found->mapped_bytes, LENGTH);
		assert_int_equal(found->resident_bytes, WRITTEN);
	}
	for (size_t i = 0; i < backings.count; i++)
		if (backings.rows[i].kind != FLMEM_BACKING_FILE)
			shared += backings.rows[i].resident_bytes;
	assert_int_equal(shared, status.shmem_bytes.value);
	shmdt(areas[1]);
	munmap(areas[0], LENGTH);
	munmap(areas[2], LENGTH);
	munmap(areas[3], LENGTH);
}

/* PyTorch may have thousands of page-locked buffers. */
static void pieces_of_shared_anonymous_memory_are_one(void **state)
{
	FLMEM_AUTO_BACKINGS struct flmem_backings backings = {0};
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	struct flmem_status status;
	uint64_t mapped = 0, resident = 0;
	char *areas[20];

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(areas); i++)
		areas[i] = touched(mmap(NULL, LENGTH, PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	read_own(&backings, &maps, &status);
	for (size_t i = 0; i < backings.count; i++) {
		if (backings.rows[i].kind != FLMEM_BACKING_SHARED_ANONYMOUS)
			continue;
		assert_int_equal(resident, 0);
		mapped = backings.rows[i].mapped_bytes;
		resident = backings.rows[i].resident_bytes;
	}
	assert_int_equal(mapped, FLMEM_ARRAY_SIZE(areas) * LENGTH);
	assert_int_equal(resident, FLMEM_ARRAY_SIZE(areas) * WRITTEN);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(areas); i++)
		munmap(areas[i], LENGTH);
}

/* torch.load(mmap=True) maps like this: pages that are written to become anonymous memory. */
static void copied_pages_of_a_file_are_not_the_files(void **state)
{
	FLMEM_AUTO_BACKINGS struct flmem_backings backings = {0};
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	struct flmem_status status;
	int fd = memfd_create("flmem-model", MFD_CLOEXEC), copy = dup(fd);
	char *whole = touched(map_fd(fd, MAP_SHARED)), *area;
	uint64_t resident = 0;

	(void)state;
	area = map_fd(copy, MAP_PRIVATE);
	memset(area, 2, LENGTH / 4);
	munmap(whole, LENGTH);
	read_own(&backings, &maps, &status);
	for (size_t i = 0; i < backings.count; i++)
		if (flmem_text_starts(backings.rows[i].name, "/memfd:flmem-model"))
			resident += backings.rows[i].resident_bytes;
	assert_true(resident <= WRITTEN - LENGTH / 4);
	munmap(area, LENGTH);
}

/*
 * Does as the loader: it relocates the beginning of the data and then makes it read-only (RELRO).
 */
static void relocated_pages_of_a_file_are_not_the_files(void **state)
{
	FLMEM_AUTO_BACKINGS struct flmem_backings backings = {0};
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	struct flmem_status status;
	char *area = map_fd(memfd_create("flmem-library", MFD_CLOEXEC), MAP_PRIVATE);
	size_t found = 0;

	(void)state;
	memset(area, 1, LENGTH / 2);
	assert_int_equal(mprotect(area, LENGTH / 2, PROT_READ), 0);
	read_own(&backings, &maps, &status);
	for (size_t i = 0; i < backings.count; i++) {
		if (!flmem_text_starts(backings.rows[i].name, "/memfd:flmem-library"))
			continue;
		assert_int_equal(backings.rows[i].mapped_bytes, LENGTH);
		assert_int_equal(backings.rows[i].resident_bytes, 0);
		found++;
	}
	assert_int_equal(found, 1);
	munmap(area, LENGTH);
}

static void the_largest_comes_first_and_each_file_once(void **state)
{
	FLMEM_AUTO_BACKINGS struct flmem_backings backings = {0};
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	struct flmem_status status;

	(void)state;
	read_own(&backings, &maps, &status);
	assert_true(backings.count > 2);
	for (size_t i = 1; i < backings.count; i++)
		assert_true(backings.rows[i - 1].resident_bytes >= backings.rows[i].resident_bytes);
	for (size_t i = 0; i < backings.count; i++)
		for (size_t k = 0; k < i; k++)
			assert_false(backings.rows[i].device == backings.rows[k].device &&
				     backings.rows[i].inode == backings.rows[k].inode);
}

/* The largest mappings suffice: the others are not read, and make no difference. */
static void few_are_the_largest_of_all(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_BACKINGS struct flmem_backings all = {0}, few = {0}, none = {0};
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};

	(void)state;
	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	assert_int_equal(flmem_maps_read(&process, &maps, NULL), 0);
	assert_int_equal(flmem_backings_read(&process, &maps, true, SIZE_MAX, &all, NULL), 0);
	assert_int_equal(flmem_backings_read(&process, &maps, true, 2, &few, NULL), 0);
	assert_int_equal(flmem_backings_read(&process, &maps, true, 0, &none, NULL), 0);
	assert_true(all.count > 2);
	assert_int_equal(few.count, 2);
	assert_int_equal(none.count, 0);
	for (size_t i = 0; i < few.count; i++) {
		assert_string_equal(few.rows[i].name, all.rows[i].name);
		assert_int_equal(few.rows[i].mapped_bytes, all.rows[i].mapped_bytes);
		assert_int_equal(few.rows[i].resident_bytes, all.rows[i].resident_bytes);
	}
}

static void mounts_of_tmpfs_are_found(void **state)
{
	char text[] = "36 35 0:31 / /dev/shm rw,nosuid - tmpfs shm rw,size=65536k\n"
		      "37 35 8:1 / / rw - ext4 /dev/sda1 rw\n"
		      "38 35 0:40 / /tmp\\040x rw shared:1 - tmpfs tmpfs rw\n"
		      "39 35 0:41 / /odd rw - tmpfsx none rw\n"
		      "40 nonsense - tmpfs \n"
		      "- tmpfs \n"
		      "41 35 x:y / / - tmpfs none rw\n"
		      "42 35 4294967296:1 / / - tmpfs none rw";
	dev_t devices[FLMEM_TMPFS_MAX];

	(void)state;
	assert_int_equal(flmem_tmpfs_parse(text, devices), 2);
	assert_int_equal(devices[0], makedev(0, 31));
	assert_int_equal(devices[1], makedev(0, 40));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_kind_of_shared_memory_is_told),
		cmocka_unit_test(pieces_of_shared_anonymous_memory_are_one),
		cmocka_unit_test(copied_pages_of_a_file_are_not_the_files),
		cmocka_unit_test(relocated_pages_of_a_file_are_not_the_files),
		cmocka_unit_test(the_largest_comes_first_and_each_file_once),
		cmocka_unit_test(few_are_the_largest_of_all),
		cmocka_unit_test(mounts_of_tmpfs_are_found),
	};

	return cmocka_run_group_tests_name("backing", tests, NULL, NULL);
}
