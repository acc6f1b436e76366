/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/files/fs_user.h"

#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/portable.h"

/* One run, shared by the caller and the thread; the last of the two frees it. */
struct fs_user_run {
	struct flmem_fs_user user;
	struct flmem_fs_work work;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	int holders;
	bool is_done, is_abandoned;
	int rc;
};

static void release_run(struct fs_user_run *run)
{
	int left;

	pthread_mutex_lock(&run->lock);
	left = --run->holders;
	pthread_mutex_unlock(&run->lock);
	if (left)
		return;
	pthread_cond_destroy(&run->ended);
	pthread_mutex_destroy(&run->lock);
	free(run);
}

/*
 * Drops all of them: setfsuid() drops only those for files, and none under SECBIT_NO_SETUID_FIXUP.
 */
static int drop_all_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &head, data))
		return -EACCES;
	for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		data[i].effective = 0;
	return syscall(SYS_capset, &head, data) ? -EACCES : 0;
}

/*
 * Plain system calls, which act on one thread; the C library's setgroups() acts on all. setfsuid()
 * and setfsgid() return the previous id, and with -1 change nothing.
 */
static uint32_t read_fs_uid(void)
{
	return (uint32_t)syscall(SYS_setfsuid, -1L);
}

static uint32_t read_fs_gid(void)
{
	return (uint32_t)syscall(SYS_setfsgid, -1L);
}

static int set_fs_ids(const struct flmem_fs_user *user)
{
	bool is_same = read_fs_uid() == user->uid && read_fs_gid() == user->gid;

	/* A caller with the target's ids that may not drop its groups keeps only its own rights. */
	if (syscall(SYS_setgroups, 0UL, NULL) && !is_same)
		return -EACCES;
	syscall(SYS_setfsgid, (long)user->gid);
	syscall(SYS_setfsuid, (long)user->uid);
	if (read_fs_uid() != user->uid || read_fs_gid() != user->gid)
		return -EACCES;
	return drop_all_capabilities();
}

static void *run_fs_work(void *argument)
{
	struct fs_user_run *run = argument;
	int rc = set_fs_ids(&run->user);
	bool abandoned;

	if (!rc)
		rc = run->work.run(run->work.context);
	pthread_mutex_lock(&run->lock);
	run->rc = rc;
	run->is_done = true;
	pthread_cond_signal(&run->ended);
	abandoned = run->is_abandoned;
	pthread_mutex_unlock(&run->lock);
	if (abandoned)
		run->work.abandon(run->work.context);
	release_run(run);
	return NULL;
}

/* Blocks all signals in the thread: they are for the threads of the calling program. */
static int start_run(struct fs_user_run *run)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int rc;

	sigfillset(&all);
	rc = pthread_attr_init(&attributes);
	if (rc)
		return -rc;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, &attributes, run_fs_work, run);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return -rc;
}

static int await_run(struct fs_user_run *run, uint64_t timeout_us)
{
	struct timespec until = flmem_clock_after_us(timeout_us);
	int rc = 0;

	pthread_mutex_lock(&run->lock);
	while (!run->is_done && !rc)
		rc = pthread_cond_timedwait(&run->ended, &run->lock, &until);
	run->is_abandoned = !run->is_done;
	rc = run->is_done ? run->rc : -ETIMEDOUT;
	pthread_mutex_unlock(&run->lock);
	return rc;
}

int flmem_fs_user_run(const struct flmem_fs_user *user, const struct flmem_fs_work *what,
		      uint64_t timeout_us)
{
	struct fs_user_run *run = calloc(1, sizeof(*run));
	int dumpable = prctl(PR_GET_DUMPABLE);
	int rc;

	if (!run)
		return -ENOMEM;
	*run = (struct fs_user_run){.user = *user, .work = *what, .holders = 2};
	pthread_mutex_init(&run->lock, NULL);
	flmem_cond_init_monotonic(&run->ended);
	rc = start_run(run);
	if (rc)
		run->holders = 1;
	else
		rc = await_run(run, timeout_us);
	release_run(run);
	/* When one thread changes its ids, the kernel makes the whole process not dumpable. */
	if (dumpable == 1 && prctl(PR_GET_DUMPABLE) != 1)
		prctl(PR_SET_DUMPABLE, 1UL);
	return rc;
}
