/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_RECOMMEND_LEFTOVER_OWNER_H
#define FLMEM_OPS_RECOMMEND_LEFTOVER_OWNER_H

/*
 * Finds out whether a process still uses a directory that its framework created. A job keeps no
 * descriptor open between two reads, so the absence of one proves nothing: a process that could
 * have created the directory leaves the question open.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "frameworks/framework.h"
#include "proc/files/leftovers.h"

struct flmem_leftover_owner {
	/* Static: why it is unknown whether the directory is used; NULL: it is known. */
	const char *why;
	pid_t pid; /* process that uses the directory, or that leaves the question open; 0: none */
	bool used;
};

/*
 * Answers for each directory, from the processes in `proc_dirfd`, which is /proc or a copy of it.
 */
void flmem_leftover_owners_find(int proc_dirfd, const struct flmem_leftovers *leftovers,
				const struct flmem_leftover_row *row, uint64_t deadline_us,
				struct flmem_leftover_owner ret_owners[FLMEM_LEFTOVERS_MAX]);

#endif
