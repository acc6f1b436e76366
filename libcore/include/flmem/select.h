/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SELECT_H
#define FLMEM_SELECT_H

/*
 * Choosing the processes that a command works on. The ways to name them exclude each other
 * (pids, all, name, tree); `roles` and `min_rss_bytes` narrow what they gave. flmem's own process,
 * kernel threads and zombies are never part of `all`, `name` or `tree`. Nor is a process that
 * started flmem (a shell, sudo) part of `name` when it has flmem's own command line in its own.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>
#include <flmem/visibility.h>

struct flmem_selection {
	const pid_t *pids; /* exactly these, in this order, duplicates dropped */
	size_t pid_count;
	bool all;		/* every process that this user may read */
	const char *name_regex; /* POSIX extended, searched in the command line joined by spaces */
	pid_t tree;		/* this process and all its descendants; 0: not used */
	unsigned roles;		/* bits 1 << enum flmem_role; 0: any */
	uint64_t min_rss_bytes; /* 0: any */
};

struct flmem_targets {
	pid_t *pids;
	uint64_t *start_times; /* clock ticks after boot; 0: not looked up */
	size_t count;
};

/*
 * Fills the targets (release with flmem_targets_clear). FLMEM_EUSAGE for contradictory or bad
 * input, also for a regular expression that does not compile; FLMEM_ENOPROC when nothing matches.
 * A pid of `pids` that is gone stays a target while nothing narrows them: using it tells so.
 * With `roles`, "server" takes server, server-job and simulator-server and "client" takes client,
 * client-job, trainer and simulator-client: see flmem_role_mask().
 */
FLMEM_API int flmem_select(const struct flmem_selection *selection,
			   struct flmem_targets *ret_targets, struct flmem_error *err);

FLMEM_API void flmem_targets_clear(struct flmem_targets *targets);

/* Bits of the roles that a name stands for ("server", "client" or one role); 0 when unknown. */
FLMEM_API unsigned flmem_role_mask(const char *name);

#endif
