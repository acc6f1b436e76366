/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_WATCH_TRIM_QUEUE_H
#define FLMEM_OPS_WATCH_TRIM_QUEUE_H

/*
 * Trims made one after the other by a thread of their own, so that who asks for them never waits:
 * finding a safe moment in a busy process may take seconds, and so may reading a large heap. The
 * thread is started by the first request. Only the thread that made the queue calls its functions.
 */

#include <stdbool.h>

#include <flmem/condition.h>
#include <flmem/trim.h>

#include "series/policy.h"

/* One process to be trimmed. */
struct flmem_trim_request {
	pid_t pid;
	uint64_t start_time;
	const struct flmem_condition *when; /* only if it holds; NULL: in any case */
	struct flmem_trim_options options;
	char reason[FLMEM_POLICY_REASON_MAX];
	/* What came of it. */
	enum flmem_truth truth; /* of the condition; only when it holds there is a result */
	const char *why;	/* it is undecided; or NULL */
	struct flmem_trim_result result;
	struct flmem_trim_request *next;
};

struct flmem_trim_queue;

struct flmem_trim_queue *flmem_trim_queue_new(void);

/* Waits for the request at hand, which its timeout bounds; leaves the others undone. */
void flmem_trim_queue_free(struct flmem_trim_queue *queue);

/* Takes the request over; false, and it is freed, when no thread can be had. */
bool flmem_trim_queue_add(struct flmem_trim_queue *queue, struct flmem_trim_request *request);

/* One that is done, for the caller to free; NULL: none is. */
struct flmem_trim_request *flmem_trim_queue_take(struct flmem_trim_queue *queue);

/* Waits until the request at hand is done; those behind it are dropped. */
void flmem_trim_queue_finish(struct flmem_trim_queue *queue);

#endif
