/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/files/fs_user.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Drops all capabilities: setfsuid() drops only those for files, and none under
 * SECBIT_NO_SETUID_FIXUP.
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
 * The IDs are set by plain system calls: the C library's setgroups() would signal threads that do
 * not exist in this copy. setfsuid() and setfsgid() return the previous ID, and with -1 change
 * nothing.
 */
static uint32_t read_fs_uid(void)
{
	return (uint32_t)syscall(SYS_setfsuid, -1L);
}

static uint32_t read_fs_gid(void)
{
	return (uint32_t)syscall(SYS_setfsgid, -1L);
}

static int set_fs_ids(const void *rights)
{
	const struct flmem_fs_user *user = rights;
	bool is_same = read_fs_uid() == user->uid && read_fs_gid() == user->gid;

	/*
	 * A caller that has the target's IDs but may not drop its groups keeps its own rights,
	 * which are no more.
	 */
	if (syscall(SYS_setgroups, 0UL, NULL) && !is_same)
		return -EACCES;
	syscall(SYS_setfsgid, (long)user->gid);
	syscall(SYS_setfsuid, (long)user->uid);
	if (read_fs_uid() != user->uid || read_fs_gid() != user->gid)
		return -EACCES;
	return drop_all_capabilities();
}

int flmem_fs_user_run(const struct flmem_fs_user *user, const struct flmem_forked_task *work,
		      uint64_t timeout_us)
{
	struct flmem_forked_task task = *work;

	task.prepare = set_fs_ids;
	task.rights = user;
	return flmem_forked_task_run(&task, timeout_us);
}
