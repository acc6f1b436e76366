/* SPDX-License-Identifier: Apache-2.0 */
/* Tests work with the rights of another user, in a child process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capabilities.h"
#include "proc/files/fs_user.h"

#define NOBODY	   65534
#define GROUP	   65533
#define OTHER	   65532
#define TIMEOUT_US 20000000U

/* The input of the work, and its result. */
struct work {
	uint32_t uid, gid, effective[_LINUX_CAPABILITY_U32S_3];
	long groups;
	bool opened;
	sigset_t blocked;
	const char *path;
	_Atomic bool may_end, undone, ran;
};

static void undo(void *context)
{
	struct work *work = context;

	atomic_store(&work->undone, true);
}

static int take_down(void *context)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
	struct work *work = context;
	int fd;

	atomic_store(&work->ran, true);
	work->uid = (uint32_t)syscall(SYS_setfsuid, -1L);
	work->gid = (uint32_t)syscall(SYS_setfsgid, -1L);
	work->groups = syscall(SYS_getgroups, 0L, NULL);
	syscall(SYS_capget, &head, data);
	for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		work->effective[i] = data[i].effective;
	pthread_sigmask(SIG_SETMASK, NULL, &work->blocked);
	fd = work->path ? open(work->path, O_RDONLY | O_CLOEXEC) : -1;
	work->opened = fd >= 0;
	if (fd >= 0)
		close(fd);
	return -EXDEV; /* a code that nothing else returns */
}

static int run_as(uint32_t uid, uint32_t gid, struct work *work)
{
	const struct flmem_fs_user user = {uid, gid};
	const struct flmem_forked_task what = {
		.run = take_down, .undo = undo, .context = work, .size = sizeof(*work)};

	return flmem_fs_user_run(&user, &what, TIMEOUT_US);
}

static void needs_root(void)
{
	if (!geteuid())
		return;
	print_message("SKIP: needs root, to take another user's rights\n");
	skip();
}

static void the_rights_are_the_user_s_alone(void **state)
{
	const gid_t group = OTHER;
	struct work work = {0};

	(void)state;
	needs_root();
	assert_int_equal(syscall(SYS_setgroups, 1L, &group), 0);
	assert_int_equal(run_as(NOBODY, GROUP, &work), -EXDEV);
	assert_int_equal(syscall(SYS_getgroups, 0L, NULL), 1);
	syscall(SYS_setgroups, 0L, NULL);
	assert_true(work.ran && !work.undone);
	assert_int_equal(work.uid, NOBODY);
	assert_int_equal(work.gid, GROUP);
	assert_int_equal(work.groups, 0);
	for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		assert_int_equal(work.effective[i], 0);
	assert_true(sigismember(&work.blocked, SIGTERM) && sigismember(&work.blocked, SIGINT));
}

/* A target of root without CAP_DAC_OVERRIDE may not read this, and neither may its work. */
static void root_keeps_no_capability(void **state)
{
	char path[] = "/tmp/flmem-fs-user-XXXXXX";
	struct work work = {.path = path};
	int fd = mkstemp(path);

	(void)state;
	needs_root();
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(chown(path, OTHER, OTHER), 0);
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(run_as(0, 0, &work), -EXDEV);
	unlink(path);
	assert_int_equal(work.effective[0], 0);
	assert_false(work.opened);
}

static bool is_caller_unchanged(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

	return syscall(SYS_capget, &head, data) == 0 && data[0].effective &&
	       syscall(SYS_setfsuid, -1L) == 0 && prctl(PR_GET_DUMPABLE) == 1;
}

static void the_caller_stays_what_it_is(void **state)
{
	struct work work = {0};

	(void)state;
	needs_root();
	assert_int_equal(run_as(NOBODY, GROUP, &work), -EXDEV);
	assert_true(is_caller_unchanged());
	prctl(PR_SET_DUMPABLE, 0UL);
	assert_int_equal(run_as(NOBODY, GROUP, &work), -EXDEV);
	assert_int_equal(prctl(PR_GET_DUMPABLE), 0);
	prctl(PR_SET_DUMPABLE, 1UL);
}

/* Runs in a child that is another user by then; 0 when it was refused and nothing was done. */
static int try_as_another(void)
{
	static const uint32_t ids[][2] = {{OTHER, OTHER}, {OTHER, GROUP}, {NOBODY, OTHER}};
	struct work work = {0};

	if (setresgid(GROUP, GROUP, GROUP) || setresuid(NOBODY, NOBODY, NOBODY))
		return 3;
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++)
		if (run_as(ids[i][0], ids[i][1], &work) != -EACCES)
			return 1;
	return work.ran ? 2 : 0;
}

/* Runs as root that may take any group and no other user's id. */
static int try_without_setuid(void)
{
	struct work work = {0};

	if (!capability_drop(CAP_SETUID))
		return 3;
	if (run_as(NOBODY, GROUP, &work) != -EACCES)
		return 1;
	return work.ran ? 2 : 0;
}

static void expect_refused(int (*attempt)(void))
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(attempt());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void ids_that_may_not_be_taken_are_refused(void **state)
{
	(void)state;
	needs_root();
	expect_refused(try_as_another);
	expect_refused(try_without_setuid);
}

static int hang(void *context)
{
	struct work *work = context;

	while (!atomic_load(&work->may_end))
		usleep(1000);
	atomic_store(&work->ran, true);
	return 0;
}

static void work_that_does_not_end_is_undone_later(void **state)
{
	const struct flmem_fs_user user = {geteuid(), getegid()};
	struct work *work = mmap(NULL, sizeof(*work), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const struct flmem_forked_task what = {
		.run = hang, .undo = undo, .context = work, .size = sizeof(*work)};

	(void)state;
	assert_ptr_not_equal(work, MAP_FAILED);
	assert_int_equal(flmem_fs_user_run(&user, &what, 0), -ETIMEDOUT);
	assert_false(work->undone);
	atomic_store(&work->may_end, true);
	for (int i = 0; i < 20000 && !atomic_load(&work->undone); i++)
		usleep(1000);
	assert_true(work->ran && work->undone);
	munmap(work, sizeof(*work));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rights_are_the_user_s_alone),
		cmocka_unit_test(root_keeps_no_capability),
		cmocka_unit_test(the_caller_stays_what_it_is),
		cmocka_unit_test(ids_that_may_not_be_taken_are_refused),
		cmocka_unit_test(work_that_does_not_end_is_undone_later),
	};

	return cmocka_run_group_tests_name("fs_user", tests, NULL, NULL);
}
