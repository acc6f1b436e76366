/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_FILE_ATTRIBUTES_H
#define FLMEM_BASE_FILE_ATTRIBUTES_H

/* What a file has besides its content, for a new file that takes its place. */

#include <sys/stat.h>

#include <flmem/error.h>

/*
 * Gives the new file `to` the owner, the group, the extended attributes (POSIX ACLs are such) and
 * the permissions of `from`, whose status is `status`. What makes a program run as somebody else is
 * left out: the set-id bits and file capabilities. FLMEM_EPERM when one of them cannot be carried
 * over; `path` is for the message.
 */
int flmem_file_attributes_copy(int from, const struct stat *status, int to, const char *path,
			       struct flmem_error *err);

#endif
