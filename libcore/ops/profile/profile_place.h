/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_PROFILE_PROFILE_PLACE_H
#define FLMEM_OPS_PROFILE_PROFILE_PLACE_H

/* Recognises file systems on which a mapped profile could harm a program. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

struct flmem_process;

/* Returns the file system type, as in statfs(2); 0 if the kernel does not report it. */
uint32_t flmem_profile_place_kind(int fd);

/*
 * FLMEM_EUSAGE if the file could harm the program. `is_mapped`: the program maps the file, not only
 * writes it.
 */
int flmem_profile_place_check(uint32_t kind, bool is_mapped, const char *path,
			      struct flmem_error *err);

/*
 * FLMEM_EUSAGE if a file system is mounted so that its failure could harm the program. `process`
 * sees the mount; NULL: flmem. A mount that it does not see passes.
 */
int flmem_profile_mount_check(const struct flmem_process *process, dev_t device, const char *path,
			      struct flmem_error *err);

/*
 * Checks a file that has all its blocks and begins with `bytes`, if its file system type is not
 * sufficient: bytes that are written again must stay in their blocks. Errors as for
 * flmem_profile_place_check().
 */
int flmem_profile_blocks_check(int fd, const void *bytes, size_t length, const char *path,
			       struct flmem_error *err);

#endif
