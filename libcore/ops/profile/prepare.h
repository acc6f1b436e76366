/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_PROFILE_PREPARE_H
#define FLMEM_OPS_PROFILE_PREPARE_H

/* The parts of a new profile that `run` and `attach` have in common. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include <flmem/profile.h>

#include "preload/profile_format.h"

/* How to have more room in a control group (proc/limits/group_room.h). */
#define FLMEM_PROFILE_ROOM_HOW "give it a smaller --limit"

#define FLMEM_SAMPLER_LIBRARY "libflmem-sampler.so"
/* The same sampler, whose functions are not called before it is attached to. */
#define FLMEM_SAMPLER_READY_LIBRARY "libflmem-sampler-ready.so"

/* FLMEM_EUSAGE for an invalid size. */
int flmem_profile_sizes_check(const struct flmem_profile_request *request, struct flmem_error *err);

/* For a command that replaces this process. */
void flmem_profile_header_fill(const struct flmem_profile_request *request,
			       struct flmem_profile_header *header);

/* The command, redacted. */
void flmem_profile_command_fill(char *const *argv, struct flmem_profile_header *header);

/* FLMEM_EUNSAFE where a file of that size in memory (tmpfs) could exhaust flmem's control group. */
int flmem_profile_room_check(uint32_t kind, uint64_t size, struct flmem_error *err);

/* FLMEM_EUSAGE for a directory, and for a file that is not to be replaced; NULL: there is none. */
int flmem_profile_name_check(const struct stat *old, const char *path, bool replace,
			     struct flmem_error *err);

/* Checks the place, allocates all of the file, and writes the header. */
int flmem_profile_file_fill(int fd, const struct flmem_profile_header *header, bool is_mapped,
			    const char *path, struct flmem_error *err);

#endif
