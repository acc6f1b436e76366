/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_SILENT_H
#define FLMEM_TESTS_SILENT_H

#include <stdbool.h>

/* How the file system behaves; without `reads` it never answers a read. */
struct silent_fuse {
	bool async;	/* reads are sent in the background, and may be killed while they wait */
	bool gives_up;	/* a request ends with EINTR if its caller was interrupted */
	bool opened;	/* answers requests that open a file until it is set to be silent */
	unsigned reads; /* number of reads that are answered; nothing is after them */
	int content;	/* a file with the bytes, where `reads` is set */
};

/*
 * Mounts a file system with one file, DIRECTORY/file, whose server is a child of the caller and
 * ends with it. Exits where that is not possible: 77, as there is nothing to test.
 */
void silent_fuse_mount(const char *directory, const struct silent_fuse *how);

/* From now on the server answers nothing at all. */
void silent_fuse_hush(void);

__attribute__((noreturn)) void silent_give_up(const char *what);

#endif
