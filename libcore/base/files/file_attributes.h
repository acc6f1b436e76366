/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_FILE_ATTRIBUTES_H
#define FLMEM_BASE_FILE_ATTRIBUTES_H

/* Copies the attributes of a file, without its content, to a new file that replaces it. */

#include <sys/stat.h>

#include <flmem/error.h>

/*
 * Copies the owner, the group, the extended attributes (with POSIX ACLs) and the permissions of
 * `from`, whose status is `status`, to the new file `to`. The set-id bits and file capabilities are
 * not copied, since they give a program other privileges. FLMEM_EPERM when one of the others cannot
 * be copied; `path` is for the message.
 */
int flmem_file_attributes_copy(int from, const struct stat *status, int to, const char *path,
			       struct flmem_error *err);

#endif
