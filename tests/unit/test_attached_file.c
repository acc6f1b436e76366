/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the file of a profile for a running process, here this one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ops/profile/attached.h"
#include "ops/profile/prepare.h"

static char folder[] = "/dev/shm/flmem-attached-XXXXXX";
static char path[64], moved[64];
static bool becomes_pipe; /* the old file is replaced by a pipe while the new one is written */

int __real_flmem_profile_file_fill(int fd, const struct flmem_profile_header *header,
				   bool is_mapped, const char *name, struct flmem_error *err);
int __wrap_flmem_profile_file_fill(int fd, const struct flmem_profile_header *header,
				   bool is_mapped, const char *name, struct flmem_error *err);

int __wrap_flmem_profile_file_fill(int fd, const struct flmem_profile_header *header,
				   bool is_mapped, const char *name, struct flmem_error *err)
{
	if (becomes_pipe && (unlink(path) || mkfifo(path, 0600)))
		return FLMEM_EFAILED;
	return __real_flmem_profile_file_fill(fd, header, is_mapped, name, err);
}

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/p.prof", folder);
	snprintf(moved, sizeof(moved), "%s/moved", folder);
	return 0;
}

/* With what a failed test has left. */
static int remove_folder(void **state)
{
	DIR *entries = opendir(folder);
	const struct dirent *entry;

	(void)state;
	if (!entries)
		return -1;
	while ((entry = readdir(entries)))
		unlinkat(dirfd(entries), entry->d_name, 0); /* "." and ".." stay */
	closedir(entries);
	return rmdir(folder);
}

static void write_old(const char *text)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void expect_text(const char *where, const char *text)
{
	char got[16] = "";
	FILE *file = fopen(where, "re");

	assert_non_null(file);
	assert_non_null(fgets(got, sizeof(got), file));
	fclose(file);
	assert_string_equal(got, text);
}

static int try_create(bool force, struct flmem_attached_file *ret_file, struct flmem_error *err)
{
	FLMEM_AUTO_PROCESS struct flmem_process own = FLMEM_PROCESS_INIT;
	const struct flmem_profile_request request = {
		.output = path, .limit_bytes = 1U << 20, .force = force};
	int rc = flmem_process_open(getpid(), &own, err);

	return rc ? rc : flmem_attached_file_create(&own, &request, true, ret_file, err);
}

static struct flmem_attached_file create(bool force)
{
	struct flmem_attached_file file = FLMEM_ATTACHED_FILE_INIT;
	struct flmem_error err = {0};

	if (try_create(force, &file, &err)) {
		print_message("SKIP: %s\n", err.message);
		skip();
	}
	return file;
}

static bool is_there(const char *where)
{
	struct stat status;

	return lstat(where, &status) == 0;
}

static void what_was_created_is_removed(void **state)
{
	struct flmem_attached_file file = create(false);

	(void)state;
	assert_true(is_there(path));
	flmem_attached_file_clear(&file);
	assert_false(is_there(path));
}

/* The inode number of a deleted file is soon that of the next one. */
static void another_file_of_that_name_stays(void **state)
{
	struct flmem_attached_file file = create(false);

	(void)state;
	assert_int_equal(unlink(path), 0);
	write_old("mine");
	flmem_attached_file_clear(&file);
	expect_text(path, "mine");
	assert_int_equal(unlink(path), 0);
}

static void what_was_replaced_comes_back(void **state)
{
	struct flmem_attached_file file;

	(void)state;
	write_old("old");
	file = create(true);
	flmem_attached_file_clear(&file);
	expect_text(path, "old");
	file = create(true);
	assert_int_equal(rename(path, moved), 0);
	flmem_attached_file_clear(&file);
	expect_text(path, "old");
	assert_int_equal(unlink(moved), 0);
	file = create(true);
	flmem_attached_file_keep(&file);
	assert_int_equal(unlink(path), 0);
}

/* A reader of the pipe would wait without limit. */
static void what_has_become_a_pipe_is_not_replaced(void **state)
{
	struct flmem_attached_file file;
	struct flmem_error err = {0};
	struct stat status;

	(void)state;
	write_old("old");
	file = create(true); /* otherwise this tests nothing */
	flmem_attached_file_clear(&file);
	becomes_pipe = true;
	assert_int_equal(try_create(true, &file, &err), FLMEM_EUSAGE);
	becomes_pipe = false;
	assert_non_null(strstr(err.message, "is not a regular file"));
	assert_int_equal(lstat(path, &status), 0);
	assert_true(S_ISFIFO(status.st_mode));
	assert_int_equal(unlink(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_created_is_removed),
		cmocka_unit_test(another_file_of_that_name_stays),
		cmocka_unit_test(what_was_replaced_comes_back),
		cmocka_unit_test(what_has_become_a_pipe_is_not_replaced),
	};

	return cmocka_run_group_tests_name("attached_file", tests, make_folder, remove_folder);
}
