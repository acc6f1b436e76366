/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_FS_USER_H
#define FLMEM_PROC_FS_USER_H

/*
 * Work in the file system with the rights of a target and none of flmem's own, for paths that the
 * target's mount namespace defines: in a thread that has the file system ids of the target, no
 * supplementary group and no capability, and ends afterwards, so that nothing has to be put back.
 */

#include <stdint.h>

struct flmem_fs_user {
	uint32_t uid, gid;
};

struct flmem_fs_work {
	int (*run)(void *context);	/* negative errno on failure */
	void (*abandon)(void *context); /* undoes and frees it, when nobody waits any more */
	void *context;			/* on the heap, the caller's again afterwards */
};

/*
 * Runs it and returns what it returned. -EACCES: these ids may not be taken (that needs CAP_SETUID
 * and CAP_SETGID), nothing was done; -ETIMEDOUT: a file system does not answer, and the context is
 * no longer the caller's.
 */
int flmem_fs_user_run(const struct flmem_fs_user *user, const struct flmem_fs_work *what,
		      uint64_t timeout_us);

#endif
