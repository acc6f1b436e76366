/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_PROFILE_PREPARE_H
#define FLMEM_OPS_PROFILE_PREPARE_H

/* The parts of creating a profile that `profile run` and `profile attach` share. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include <flmem/profile.h>

#include "preload/profile_format.h"

/* Advice for a control group without enough room (proc/limits/group_room.h). */
#define FLMEM_PROFILE_ROOM_HOW "give it a smaller --limit"

#define FLMEM_SAMPLER_LIBRARY "libflmem-sampler.so"
/* This file has the same sampler, which stays dormant until an attach. */
#define FLMEM_SAMPLER_READY_LIBRARY "libflmem-sampler-ready.so"

/* Checks the sizes in a request. FLMEM_EUSAGE for an invalid one. */
int flmem_profile_sizes_check(const struct flmem_profile_request *request, struct flmem_error *err);

/* Fills the header for a command that replaces this process. */
void flmem_profile_header_fill(const struct flmem_profile_request *request,
			       struct flmem_profile_header *header);

/* Fills in the redacted command. */
void flmem_profile_command_fill(char *const *argv, struct flmem_profile_header *header);

/*
 * FLMEM_EUNSAFE if a file of that size in memory (tmpfs) could exhaust flmem's control group.
 * `kind`: file system type, as in statfs(2).
 */
int flmem_profile_room_check(uint32_t kind, uint64_t size, struct flmem_error *err);

/*
 * FLMEM_EUSAGE for a directory, and for a file that must not be replaced. `old` NULL: there is no
 * file.
 */
int flmem_profile_name_check(const struct stat *old, const char *path, bool replace,
			     struct flmem_error *err);

/* Checks the file system, allocates all of the file, and writes the header. */
int flmem_profile_file_fill(int fd, const struct flmem_profile_header *header, bool is_mapped,
			    const char *path, struct flmem_error *err);

#endif
