/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_LIMITS_CGROUP_H
#define FLMEM_PROC_LIMITS_CGROUP_H

/*
 * Memory limits of control groups, version 1, version 2 and both together (then version 1 has the
 * memory controller where /proc/PID/cgroup names it). Groups are found through the mounts of the
 * calling process and read only where these show them: a process in a group outside of the caller's
 * cgroup namespace or mounts has an unknown limit. Limits are cached, so that many processes of one
 * group cost one read. One thread at a time.
 */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/error.h>
#include <flmem/value.h>

#include "base/cleanup.h"

struct flmem_buf;
struct flmem_process;
struct flmem_cgroups;

struct flmem_cgroup_limit {
	struct flmem_u64 max_bytes;  /* lowest limit from the group up to the root */
	struct flmem_u64 used_bytes; /* memory used by the group that has that limit */
	/* max_bytes - used_bytes; 0 if the use exceeds the limit. */
	struct flmem_u64 headroom_bytes;
};

/* Reads the mounts below "/", or below a captured tree that has proc/self/mountinfo. */
int flmem_cgroups_open(struct flmem_cgroups **ret_cgroups, struct flmem_error *err);
int flmem_cgroups_open_at(int rootfd, struct flmem_cgroups **ret_cgroups, struct flmem_error *err);

/* The same for the mounts of another controller, in version 1 or 2. */
int flmem_cgroups_open_controller(int rootfd, const char *controller,
				  struct flmem_cgroups **ret_cgroups, struct flmem_error *err);

void flmem_cgroups_free(struct flmem_cgroups *cgroups);

static inline void flmem_cleanup_cgroups(struct flmem_cgroups **cgroups)
{
	flmem_cgroups_free(*cgroups);
}

#define FLMEM_AUTO_CGROUPS FLMEM_AUTO(flmem_cleanup_cgroups)

/* Directories of the groups that a process is in; -1: none. */
struct flmem_cgroup_place {
	int memory;  /* the version 1 group that counts its memory */
	int unified; /* the version 2 group, whether it counts memory or not */
};

#define FLMEM_CGROUP_PLACE_INIT             \
	{                                   \
		.memory = -1, .unified = -1 \
	}

static inline void flmem_cleanup_cgroup_place(const struct flmem_cgroup_place *place)
{
	flmem_cleanup_close(&place->memory);
	flmem_cleanup_close(&place->unified);
}

#define FLMEM_AUTO_CGROUP_PLACE FLMEM_AUTO(flmem_cleanup_cgroup_place)

/*
 * Opens the directories of the process's groups. Returns NULL, or a static reason why none was
 * found.
 */
const char *flmem_cgroups_open_place(struct flmem_cgroups *cgroups,
				     const struct flmem_process *process,
				     struct flmem_cgroup_place *ret_place);

/*
 * Climbs from a group up to the root of its mount. `above` is empty before the first call, and then
 * the relative path to the next group ("./", "./../"). Returns false after the last one.
 */
bool flmem_cgroup_climb(int group, struct flmem_buf *above);

/*
 * Reads the number in a file of one line of that group; UINT64_MAX for "max", and if there is no
 * such file.
 */
uint64_t flmem_cgroup_number_above(int group, const struct flmem_buf *above, const char *name);

/*
 * Returns how many more threads and processes the groups of a process allow (controller pids);
 * UINT64_MAX: no limit, or none that is visible here. The mounts are those below `rootfd`.
 */
uint64_t flmem_cgroups_tasks_left(int rootfd, const struct flmem_process *process);

/*
 * Returns true if the version 2 group of a process, or one above it, is to be frozen. The mounts
 * are those below `rootfd`; false if no group is visible there.
 */
bool flmem_cgroups_freeze(int rootfd, const struct flmem_process *process);

/* Opens a file below the root of the groups for reading; -1 if there is none. */
int flmem_cgroups_open_host(const struct flmem_cgroups *cgroups, const char *path);

/* Reads the limits of the process; a value that could not be read is unknown with its reason. */
void flmem_cgroups_limit(struct flmem_cgroups *cgroups, const struct flmem_process *process,
			 struct flmem_cgroup_limit *ret_limit);

#endif
