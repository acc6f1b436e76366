/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_CHORES_H
#define FLMEM_OPS_CHORES_H

/*
 * Trims made one after the other by a thread of their own, so that who asks for them never waits:
 * finding a safe moment in a busy process may take seconds, and so may reading a large heap. The
 * thread is started by the first chore. All functions are for the one thread that made the chores.
 */

#include <stdbool.h>

#include <flmem/condition.h>
#include <flmem/trim.h>

#include "series/policy.h"

/* One process to be trimmed. */
struct flmem_chore {
	pid_t pid;
	uint64_t start_time;
	const struct flmem_condition *when; /* only if it holds; NULL: in any case */
	struct flmem_trim_options options;
	char reason[FLMEM_POLICY_REASON_MAX];
	/* What came of it. */
	enum flmem_truth truth; /* of the condition; only when it holds there is a result */
	const char *why;	/* it is undecided; or NULL */
	struct flmem_trim_result result;
	struct flmem_chore *next;
};

struct flmem_chores;

struct flmem_chores *flmem_chores_new(void);

/* Waits for the chore at hand, which its timeout bounds; leaves the others undone. */
void flmem_chores_free(struct flmem_chores *chores);

/* Takes the chore over; false, and it is freed, when no thread can be had. */
bool flmem_chores_add(struct flmem_chores *chores, struct flmem_chore *chore);

/* One that is done, for the caller to free; NULL: none is. */
struct flmem_chore *flmem_chores_take(struct flmem_chores *chores);

/* Waits until the chore at hand is done; those behind it are dropped. */
void flmem_chores_finish(struct flmem_chores *chores);

#endif
