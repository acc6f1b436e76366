/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_SAMPLER_LIFETIME_H
#define FLMEM_PRELOAD_SAMPLER_LIFETIME_H

/* Shared by lifetime.c and child_profile.c: how a profile starts. */

#include <limits.h>

#include "preload/sampler/sampler.h"

/* The kernel does not clear this state in a child. */
struct sampler_life {
	struct flmem_profile_header inherited; /* options and names for the files of children */
	char path[PATH_MAX];		       /* file of the process that was started */
	uint64_t folder_device, folder_inode;  /* identity of the folder of `path` */
	uint32_t owner; /* the process that is sampled; a child of vfork() shares its memory */
	uint32_t began, dormant;
	uint32_t busy; /* the process of which a thread starts its file at this moment */
	/*
	 * The fields below belong to that thread, which is in malloc() and may have a small stack.
	 */
	uint64_t mask; /* its signal mask before */
	struct flmem_profile_header header;
	struct flmem_profile_section section[FLMEM_PROFILE_SECTION_SLOTS];
	char child_path[PATH_MAX];
	char text[1024];
};

extern struct sampler_life sampler_life HIDDEN;

/* Maps memory without mmap(), which the sampler hooks. Returns NULL with errno where that fails. */
HIDDEN void *sampler_map_memory(size_t size, int flags, int fd);
/*
 * Takes the turn to start a profile, with signals blocked: one thread at a time. Returns false
 * where another thread has the turn. That of a parent may have been copied and does not count.
 */
HIDDEN bool sampler_turn_take(void);
HIDDEN void sampler_turn_give(void);
/*
 * Returns whether files may have that many bytes (ulimit -f); beyond that the kernel sends SIGXFSZ.
 */
HIDDEN bool sampler_may_write(uint64_t bytes);
/*
 * Reads the header of the file into `sampler_life`, with nothing used in its sections. Returns
 * false where the file is not flmem's.
 */
HIDDEN bool sampler_read_header(int fd);
/* Stores the identity of this process in the header. */
HIDDEN void sampler_header_own(struct flmem_profile_header *header);
/*
 * Begins sampling into the file. Returns 0, or the number of an error; *ret_why is a text for it,
 * or NULL.
 */
HIDDEN int sampler_begin_file(int fd, const char **ret_why);
/* child_profile.c: begins the profile of a child, and counts the child as lost where that fails. */
HIDDEN void sampler_begin_child_file(void);
HIDDEN bool sampler_is_vforked(void);
/*
 * Opens a profile to write it. The descriptor is never that of a standard one which the program has
 * closed: what its threads write there would go into the file. Returns -1 with errno where that
 * fails.
 */
HIDDEN int sampler_open_profile(int directory, const char *name, int flags);
/*
 * Opens the profile of the process that was started, whose folder is that of children, too. Returns
 * -1 where that fails.
 */
HIDDEN int sampler_open_first(void);

#endif
