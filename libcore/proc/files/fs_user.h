/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_FILES_FS_USER_H
#define FLMEM_PROC_FILES_FS_USER_H

/*
 * Runs file system work with the rights of a target and without those of flmem, for paths that
 * the target's mount namespace defines: in a child process with the file system ids of the target,
 * no supplementary group and no capability.
 */

#include <stdint.h>

#include "base/forked_task.h"

struct flmem_fs_user {
	uint32_t uid, gid;
};

/*
 * Runs the work as flmem_forked_task_run() does and returns its result. -EACCES: these ids are not
 * permitted (CAP_SETUID and CAP_SETGID are needed), nothing was done.
 */
int flmem_fs_user_run(const struct flmem_fs_user *user, const struct flmem_forked_task *work,
		      uint64_t timeout_us);

#endif
