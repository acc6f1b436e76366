/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SELECT_H
#define FLMEM_SELECT_H

/*
 * Selects the target processes of a command. `pids`, `all`, `name` and `tree` exclude each other;
 * `roles` and `min_rss_bytes` filter the selection. `all`, `name` and `tree` never include flmem
 * itself, kernel threads or zombies. `name` also excludes processes that started flmem (a shell,
 * sudo) and contain its command line in their own.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>
#include <flmem/visibility.h>

struct flmem_selection {
	const pid_t *pids; /* these processes, in this order; duplicates are removed */
	size_t pid_count;
	bool all; /* every process that this user may read */
	/* POSIX extended expression, searched in the command line joined by spaces. */
	const char *name_regex;
	pid_t tree;		/* this process and all its descendants; 0: not used */
	unsigned roles;		/* roles to keep, as bits 1 << enum flmem_role; 0: any role */
	uint64_t min_rss_bytes; /* keep processes with at least this resident memory; 0: any */
};

/* Selected processes. Release with flmem_targets_clear(). */
struct flmem_targets {
	pid_t *pids;
	uint64_t *start_times; /* clock ticks after boot; 0: not looked up */
	size_t count;
};

/*
 * Selects the processes. FLMEM_EUSAGE for contradictory or bad input, also for a regular expression
 * that does not compile; FLMEM_ENOPROC when nothing matches. Without filters a PID that no longer
 * exists stays a target; its use reports the error. In `roles`, "server" includes server,
 * server-job and simulator-server, and "client" includes client, client-job, trainer and
 * simulator-client: see flmem_role_mask(). Release with flmem_targets_clear().
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_select(const struct flmem_selection *selection,
					    struct flmem_targets *ret_targets,
					    struct flmem_error *err);

/* Frees the targets and zeroes the struct. */
FLMEM_API void flmem_targets_clear(struct flmem_targets *targets);

/*
 * Returns the bits of the roles that a name stands for ("server", "client" or one role); 0 if the
 * name is unknown.
 */
FLMEM_API unsigned flmem_role_mask(const char *name);

#endif
