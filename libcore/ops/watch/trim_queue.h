/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_WATCH_TRIM_QUEUE_H
#define FLMEM_OPS_WATCH_TRIM_QUEUE_H

/*
 * Runs trims one after the other on a separate thread, so that the caller never waits: finding a
 * safe moment in a busy process may take seconds, and so may reading a large heap. The first
 * request starts the thread. Only the thread that created the queue calls its functions.
 */

#include <stdbool.h>

#include <flmem/condition.h>
#include <flmem/trim.h>

#include "series/policy.h"

/* One process to be trimmed, and how. */
struct flmem_trim_request {
	pid_t pid;
	uint64_t start_time;
	const struct flmem_condition *when; /* trim only if this holds; NULL: always */
	struct flmem_trim_options options;
	char reason[FLMEM_POLICY_REASON_MAX];
	/* The result of one request. */
	enum flmem_truth truth; /* value of the condition; `result` is valid only if it holds */
	const char *why;	/* why the condition is undecided; or NULL */
	struct flmem_trim_result result;
	struct flmem_trim_request *next;
};

struct flmem_trim_queue;

struct flmem_trim_queue *flmem_trim_queue_new(void);

/*
 * Frees the queue: waits for the running request, which its timeout bounds, and drops the others.
 */
void flmem_trim_queue_free(struct flmem_trim_queue *queue);

/* Takes ownership of the request. If no thread can be started, frees it and returns false. */
bool flmem_trim_queue_add(struct flmem_trim_queue *queue, struct flmem_trim_request *request);

/* Returns a finished request, for the caller to free; NULL: none. */
struct flmem_trim_request *flmem_trim_queue_take(struct flmem_trim_queue *queue);

/* Waits until the running request is done; drops the others. */
void flmem_trim_queue_finish(struct flmem_trim_queue *queue);

#endif
