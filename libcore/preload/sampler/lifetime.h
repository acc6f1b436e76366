/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_SAMPLER_LIFETIME_H
#define FLMEM_PRELOAD_SAMPLER_LIFETIME_H

/* Shared by lifetime.c and child_profile.c: how a profile starts. */

#include <limits.h>

#include "preload/sampler/sampler.h"

/* Not cleared in a child. */
struct sampler_life {
	struct flmem_profile_header inherited; /* options and names for the files of children */
	char path[PATH_MAX];		       /* of the process that was started */
	uint64_t folder_device, folder_inode;  /* the folder that the path is in */
	uint32_t owner; /* the process that is sampled; a child of vfork() shares its memory */
	uint32_t began, dormant;
	uint32_t busy; /* the process of which a thread starts its file at this moment */
	/* Of that thread, which is in malloc(): its stack may be a small one. */
	uint64_t mask; /* its signals */
	struct flmem_profile_header header;
	struct flmem_profile_section section[FLMEM_PROFILE_SECTION_SLOTS];
	char child_path[PATH_MAX];
	char text[1024];
};

extern struct sampler_life sampler_life HIDDEN;

/* Not mmap(), which is a hook. NULL, with errno. */
HIDDEN void *sampler_map_memory(size_t size, int flags, int fd);
/*
 * One thread at a time, with its signals blocked. False: another one is at it. That of a parent may
 * have been copied and does not count.
 */
HIDDEN bool sampler_turn_take(void);
HIDDEN void sampler_turn_give(void);
/* Whether files may have that many bytes (ulimit -f); beyond that the kernel sends SIGXFSZ. */
HIDDEN bool sampler_may_write(uint64_t bytes);
/* Into the header of `sampler_life`, where sections have nothing used; false: it is not flmem's. */
HIDDEN bool sampler_read_header(int fd);
/* Stores the identity of this process. */
HIDDEN void sampler_header_own(struct flmem_profile_header *header);
/* 0, or the number of an error; *ret_why: a text for it, or NULL. */
HIDDEN int sampler_begin_file(int fd, const char **ret_why);
/* child_profile.c */
HIDDEN void sampler_begin_child_file(void);
HIDDEN bool sampler_is_vforked(void);
/*
 * To be written. Not at the number of a standard descriptor that the program has closed: what its
 * threads write there would go into the file. -1, with errno.
 */
HIDDEN int sampler_open_profile(int directory, const char *name, int flags);
/* The profile of the process that was started, whose folder is that of children, too; or -1. */
HIDDEN int sampler_open_first(void);

#endif
