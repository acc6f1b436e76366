/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_PROFILE_PROFILE_PLACE_H
#define FLMEM_OPS_PROFILE_PROFILE_PLACE_H

/* File systems on which a mapped profile could harm a program. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

/* As in statfs(2); 0 where the kernel does not say it. */
uint32_t flmem_profile_place_kind(int fd);

/* FLMEM_EUSAGE if the file could harm the program; `is_mapped`: not only written. */
int flmem_profile_place_check(uint32_t kind, bool is_mapped, const char *path,
			      struct flmem_error *err);

/*
 * The same for a file that has all its blocks and begins with `bytes`, where the kind of the file
 * system does not say it: whether bytes that are written again stay in their blocks.
 */
int flmem_profile_blocks_check(int fd, const void *bytes, size_t length, const char *path,
			       struct flmem_error *err);

#endif
