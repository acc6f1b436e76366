/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_SHARED_CALL_H
#define FLMEM_OPS_AGGREGATE_SHARED_CALL_H

/*
 * One aggregation by several processes, which see the same files: each combines and writes a range
 * of the output. The first one creates the unfinished output and completes it. Every process passes
 * the same steps and waits for all at each, so all of them fail if one does, for the same reason.
 */

#include "ops/aggregate/call.h"

/* FLMEM_EUSAGE for requests that one process has to handle alone. */
int flmem_shared_call_check(const struct flmem_aggregate_request *request, struct flmem_error *err);

/* Finds the other processes. */
int flmem_shared_call_start(struct flmem_aggregate_call *call, struct flmem_error *err);

/*
 * Reads a few places of each input, by which the processes see that they have the same ones, in the
 * same order: the files of clients differ in nothing else, and one may be replaced in between.
 */
int flmem_shared_call_sample(struct flmem_aggregate_call *call, struct flmem_error *err);

/* The first failure of all, in every process; `rc` is that of this one, with its reason. */
int flmem_shared_call_agree(const struct flmem_aggregate_call *call, int rc,
			    struct flmem_error *err);

/* Takes this process's part of the output, which is planned: whole shards, if they fit. */
void flmem_shared_call_divide(struct flmem_aggregate_call *call, enum flmem_run_kind kind);

/*
 * Opens the output for all: the first process, which has prepared it, before they agree on that;
 * any other one after that, to write its part.
 */
int flmem_shared_call_share(struct flmem_aggregate_call *call, struct flmem_error *err);
int flmem_shared_call_join(struct flmem_aggregate_call *call, struct flmem_error *err);

/* After a measuring pass: adds what the other processes have measured. */
int flmem_shared_call_add_sums(struct flmem_aggregate_call *call, int rc, struct flmem_error *err);

/* After the pass: flushes this part to the disk and gets the checksum of all. */
int flmem_shared_call_collect(struct flmem_aggregate_call *call, int rc, struct flmem_error *err);

#endif
