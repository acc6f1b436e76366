/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_WATCH_ROUND_LOGS_H
#define FLMEM_OPS_WATCH_ROUND_LOGS_H

/*
 * The logs of a watch and the rounds that they show: the rounds of all logs together, and, with
 * several logs, the rounds of each log for the process that writes it.
 */

#include <stddef.h>

#include <flmem/error.h>

#include "frameworks/round_markers.h"
#include "ops/watch/log_tail.h"

struct flmem_process;

#define FLMEM_ROUND_LOGS_SHARED SIZE_MAX /* instead of an index: the rounds of all logs together */

struct flmem_round_logs {
	struct flmem_log *logs;
	struct flmem_rounds *own; /* rounds of each log, one element per log */
	/* For each log: lines read, and those of them that changed a round. */
	uint64_t *lines, *marks;
	size_t count;
	struct flmem_rounds shared;
};

/*
 * Visits a change of a round. `log`: index of the log that shows the change, or
 * FLMEM_ROUND_LOGS_SHARED.
 */
typedef void flmem_round_logs_visit(void *context, size_t log,
				    const struct flmem_round_change *change);

/*
 * Opens the logs at their end minus `back` bytes. Errors as of flmem_log_open() and
 * flmem_rounds_init().
 */
int flmem_round_logs_open(const char *const *paths, size_t count, const char *regex, off_t back,
			  struct flmem_round_logs *ret_logs, struct flmem_error *err);

void flmem_round_logs_clear(struct flmem_round_logs *logs);

/* Reads what has been written since the last call, and visits each change. */
void flmem_round_logs_read(struct flmem_round_logs *logs, flmem_round_logs_visit *visit,
			   void *context);

/*
 * Returns the log that the process has open, if there are several; FLMEM_ROUND_LOGS_SHARED if it
 * has none open.
 */
size_t flmem_round_logs_of(const struct flmem_round_logs *logs,
			   const struct flmem_process *process);

#endif
