/* SPDX-License-Identifier: Apache-2.0 */
/* A script is written with the rights of its process, wherever the paths of the process lead. */
#include "borrowed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/io.h"
#include "runtimes/cpython_script.h"

#define NOBODY 65534
#define NOGRP  65533
#define OTHER  65532

/* A separate root directory of the child, below /var/tmp, and a folder in it that is root's. */
static char tree[64], secret[96];

static void be_child(void)
{
	if (chroot(tree) || chdir("/") || setresgid(NOGRP, NOGRP, NOGRP) ||
	    setresuid(NOBODY, NOBODY, NOBODY))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* the change of ids has reset it */
	for (;;)
		pause();
}

/* The place where a second name of the file is made before it is filled; empty: none. */
static char second_name[128];

int __real_flmem_io_write_all(int fd, const void *bytes, size_t length);
int __wrap_flmem_io_write_all(int fd, const void *bytes, size_t length);
int __wrap_flmem_io_write_all(int fd, const void *bytes, size_t length)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/tmp/.flmem-0000000000001234.py", tree);
	if (second_name[0])
		assert_int_equal(link(path, second_name), 0);
	return __real_flmem_io_write_all(fd, bytes, length);
}

static void add_directory(const char *name, mode_t mode)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/%s", tree, name);
	assert_int_equal(mkdir(path, mode), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static void add_link(const char *name, const char *target)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/%s", tree, name);
	assert_int_equal(symlink(target, path), 0);
}

static void plant_tree(void)
{
	if (geteuid()) {
		print_message("SKIP: needs root, to be another user in another root directory\n");
		skip();
	}
	snprintf(tree, sizeof(tree), "/var/tmp/flmem-script-XXXXXX");
	assert_non_null(mkdtemp(tree));
	assert_int_equal(chmod(tree, 0755), 0);
	add_directory("secret", 0755);
	snprintf(secret, sizeof(secret), "%s/secret", tree);
}

static size_t count_files(const char *path)
{
	FLMEM_AUTO_DIR DIR *dir = opendir(path);
	size_t count = 0;

	assert_non_null(dir);
	for (const struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
	return count;
}

/* Cleans up, also after a test that failed, or was skipped before it had a directory. */
static int fell_tree(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", tree);
	if (!tree[0])
		return 0;
	tree[0] = 0;
	return system(command);
}

static pid_t start(struct flmem_process *process)
{
	pid_t child = child_start(be_child);
	char path[64], link[128];

	assert_true(child > 0);
	snprintf(path, sizeof(path), "/proc/%d/root", (int)child);
	await_true(readlink(path, link, sizeof(link)) == (ssize_t)strlen(tree));
	/* The child changes its ids last. */
	await_true(flmem_process_open(child, process, NULL) == 0);
	usleep(100000);
	return child;
}

static int write_script(struct flmem_cpython_script *script, pid_t *ret_child,
			struct flmem_error *err)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;

	*ret_child = start(&process);
	return flmem_cpython_script_write(&process, 0x1234, "print(1)\n", script, err);
}

static void the_file_is_the_process_s_own(void **state)
{
	static const char text[] =
		"try:__import__('os').unlink('/tmp/.flmem-0000000000001234.py')\n"
		"except OSError:pass\nprint(1)\n";
	struct flmem_cpython_script script = FLMEM_CPYTHON_SCRIPT_INIT;
	struct flmem_error err = {0};
	char path[192], content[256] = "";
	struct stat file;
	pid_t child;
	int fd;

	(void)state;
	plant_tree();
	add_directory("tmp", 01777);
	if (write_script(&script, &child, &err))
		fail_msg("%s", err.message);
	snprintf(path, sizeof(path), "%s/tmp/%s", tree, script.name);
	assert_int_equal(lstat(path, &file), 0);
	assert_true(S_ISREG(file.st_mode));
	assert_int_equal(file.st_mode & 07777, 0400);
	assert_int_equal(file.st_uid, NOBODY);
	assert_int_equal(file.st_gid, NOGRP);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(read(fd, content, sizeof(content) - 1) > 0);
	close(fd);
	assert_string_equal(content, text);
	flmem_cpython_script_remove(&script);
	assert_int_equal(lstat(path, &file), -1);
	child_end(child);
}

/* Only root may write there: as root, flmem would put its file there. */
static void nothing_is_written_where_the_process_may_not(void **state)
{
	struct flmem_cpython_script script = FLMEM_CPYTHON_SCRIPT_INIT;
	struct flmem_error err = {0};
	pid_t child;

	(void)state;
	plant_tree();
	add_link("tmp", "/secret");
	add_directory("var", 0755);
	add_directory("var/tmp", 0755);
	add_directory("dev", 0755);
	add_link("dev/shm", "../secret");
	assert_int_equal(write_script(&script, &child, &err), FLMEM_EUNSAFE);
	assert_int_equal(count_files(secret), 0);
	assert_int_equal(script.directory, -1);
	child_end(child);
}

/* A link may lead to another directory between two checks. */
static void a_link_is_not_followed_where_it_could_be(void **state)
{
	struct flmem_cpython_script script = FLMEM_CPYTHON_SCRIPT_INIT;
	struct flmem_error err = {0};
	pid_t child;

	(void)state;
	plant_tree();
	add_directory("open", 01777);
	add_link("tmp", "/open");
	add_directory("dev", 0755);
	add_directory("dev/shm", 01777);
	if (write_script(&script, &child, &err))
		fail_msg("%s", err.message);
	assert_string_equal(script.path, "/dev/shm");
	flmem_cpython_script_remove(&script);
	child_end(child);
}

/* Another user would keep what is removed. */
static void a_file_with_a_second_name_is_not_used(void **state)
{
	struct flmem_cpython_script script = FLMEM_CPYTHON_SCRIPT_INIT;
	struct flmem_error err = {0};
	char directory[96];
	pid_t child;

	(void)state;
	plant_tree();
	add_directory("tmp", 01777);
	snprintf(directory, sizeof(directory), "%s/tmp", tree);
	snprintf(second_name, sizeof(second_name), "%s/second", secret);
	assert_int_equal(chmod(secret, 01777), 0);
	assert_int_equal(write_script(&script, &child, &err), FLMEM_EUNSAFE);
	second_name[0] = '\0';
	assert_int_equal(count_files(directory), 0);
	assert_int_equal(count_files(secret), 1);
	child_end(child);
}

/* Other users could put their own code there for the target. */
static void nothing_is_written_where_others_may_replace_it(void **state)
{
	static const struct {
		mode_t mode;
		uid_t owner;
		bool fits;
	} rows[] = {
		{0777, 0, false},      {0770, NOBODY, false}, {0702, NOBODY, false},
		{01777, OTHER, false}, {0755, OTHER, false},  {01777, NOBODY, true},
		{01777, 0, true},      {0700, NOBODY, true},
	};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_cpython_script script = FLMEM_CPYTHON_SCRIPT_INIT;
		struct flmem_error err = {0};
		char path[96];
		pid_t child;

		plant_tree();
		add_directory("tmp", rows[i].mode);
		add_directory("dev", 0755);
		add_directory("dev/shm", 01777);
		snprintf(path, sizeof(path), "%s/tmp", tree);
		assert_int_equal(chown(path, rows[i].owner, NOGRP), 0);
		if (write_script(&script, &child, &err))
			fail_msg("%s", err.message);
		if (strcmp(script.path, rows[i].fits ? "/tmp" : "/dev/shm") != 0)
			fail_msg("%zu: %s", i, script.path);
		flmem_cpython_script_remove(&script);
		child_end(child);
		assert_int_equal(fell_tree(state), 0);
	}
}

/* The ids of flmem itself do not change. */
static void the_ids_of_the_caller_stay(void **state)
{
	struct flmem_cpython_script script = FLMEM_CPYTHON_SCRIPT_INIT;
	struct flmem_error err = {0};
	pid_t child;

	(void)state;
	plant_tree();
	add_directory("tmp", 01777);
	assert_int_equal(write_script(&script, &child, &err), 0);
	assert_int_equal(access(secret, W_OK), 0);
	add_directory("secret/mine", 0700);
	assert_int_equal(prctl(PR_GET_DUMPABLE), 1);
	flmem_cpython_script_remove(&script);
	assert_int_equal(prctl(PR_GET_DUMPABLE), 1);
	child_end(child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(the_file_is_the_process_s_own, fell_tree),
		cmocka_unit_test_teardown(nothing_is_written_where_the_process_may_not, fell_tree),
		cmocka_unit_test_teardown(a_link_is_not_followed_where_it_could_be, fell_tree),
		cmocka_unit_test_teardown(a_file_with_a_second_name_is_not_used, fell_tree),
		cmocka_unit_test_teardown(nothing_is_written_where_others_may_replace_it,
					  fell_tree),
		cmocka_unit_test_teardown(the_ids_of_the_caller_stay, fell_tree),
	};

	return cmocka_run_group_tests_name("cpython_script", tests, NULL, NULL);
}
