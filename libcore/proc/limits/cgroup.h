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
	struct flmem_u64 max_bytes;	 /* lowest limit from the group up to the root */
	struct flmem_u64 used_bytes;	 /* of the group that has that limit */
	struct flmem_u64 headroom_bytes; /* the difference; 0 when usage exceeds the limit */
};

/* Reads the mounts below "/", or below a captured tree that has proc/self/mountinfo. */
int flmem_cgroups_open(struct flmem_cgroups **ret_cgroups, struct flmem_error *err);
int flmem_cgroups_open_at(int rootfd, struct flmem_cgroups **ret_cgroups, struct flmem_error *err);

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

/* Opens the directories. NULL, or a static reason why none was found. */
const char *flmem_cgroups_open_place(struct flmem_cgroups *cgroups,
				     const struct flmem_process *process,
				     struct flmem_cgroup_place *ret_place);

/*
 * From a group up to the root of its mount: `above` is empty before the first call, and then the
 * relative path to the next group ("./", "./../"). False after the last one.
 */
bool flmem_cgroup_climb(int group, struct flmem_buf *above);

/* The number in a file of one line there; UINT64_MAX for "max", and where there is none. */
uint64_t flmem_cgroup_number_above(int group, const struct flmem_buf *above, const char *name);

/*
 * How many more threads and processes the groups of a process allow (the controller pids);
 * UINT64_MAX: no limit, or none that is visible here. The mounts are those below `rootfd`.
 */
uint64_t flmem_cgroups_tasks_left(int rootfd, const struct flmem_process *process);

/*
 * Whether the group (version 2) of a process, or one above it, is to be frozen. The mounts are
 * those below `rootfd`; false where no group is visible there.
 */
bool flmem_cgroups_freeze(int rootfd, const struct flmem_process *process);

/* Opens a file below the root of the groups for reading; -1 when there is none. */
int flmem_cgroups_open_host(const struct flmem_cgroups *cgroups, const char *path);

/* The limits of the process; a value that could not be read is unknown with its reason. */
void flmem_cgroups_limit(struct flmem_cgroups *cgroups, const struct flmem_process *process,
			 struct flmem_cgroup_limit *ret_limit);

#endif
