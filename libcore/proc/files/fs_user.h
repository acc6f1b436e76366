/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_FILES_FS_USER_H
#define FLMEM_PROC_FILES_FS_USER_H

/*
 * Runs file system work with the rights of a target and without those of flmem, for paths that
 * the target's mount namespace defines: in a thread with the file system ids of the target, no
 * supplementary group and no capability. The thread ends afterwards, so nothing has to be restored.
 */

#include <stdint.h>

struct flmem_fs_user {
	uint32_t uid, gid;
};

struct flmem_fs_work {
	int (*run)(void *context);	/* negative errno on failure */
	void (*abandon)(void *context); /* undoes and frees the work after a timeout */
	void *context;			/* on the heap; owned by the caller again afterwards */
};

/*
 * Runs the work and returns its result. -EACCES: these ids are not permitted (CAP_SETUID and
 * CAP_SETGID are needed), nothing was done; -ETIMEDOUT: a file system does not answer, and the
 * caller no longer owns the context.
 */
int flmem_fs_user_run(const struct flmem_fs_user *user, const struct flmem_fs_work *what,
		      uint64_t timeout_us);

#endif
