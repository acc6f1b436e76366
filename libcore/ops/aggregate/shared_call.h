/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_SHARED_CALL_H
#define FLMEM_OPS_AGGREGATE_SHARED_CALL_H

/*
 * One aggregation by several processes that see the same files: each combines and writes a range of
 * the output. The first process creates the unfinished output and completes it. Every process
 * passes the same steps and waits for all others at each, so if one fails, all fail for the same
 * reason.
 */

#include "ops/aggregate/call.h"

/* FLMEM_EUSAGE for requests that one process has to handle alone. */
int flmem_shared_call_check(const struct flmem_aggregate_request *request, struct flmem_error *err);

/* Finds the other processes. */
int flmem_shared_call_start(struct flmem_aggregate_call *call, struct flmem_error *err);

/*
 * Reads a few places of each input, by which the processes verify that they have the same inputs in
 * the same order: the files of clients differ in nothing else, and one may be replaced in between.
 */
int flmem_shared_call_sample(struct flmem_aggregate_call *call, struct flmem_error *err);

/*
 * Returns the first failure of any process, in every process; `rc` is the result of this one, with
 * its reason in *err.
 */
int flmem_shared_call_agree(const struct flmem_aggregate_call *call, int rc,
			    struct flmem_error *err);

/* Takes this process's part of the planned output: whole shards, if their sizes allow. */
void flmem_shared_call_divide(struct flmem_aggregate_call *call, enum flmem_run_kind kind);

/*
 * flmem_shared_call_share() opens the output that the first process has prepared for the others,
 * before they agree on it; flmem_shared_call_join() opens it in any other process after that, to
 * write its part.
 */
int flmem_shared_call_share(struct flmem_aggregate_call *call, struct flmem_error *err);
int flmem_shared_call_join(struct flmem_aggregate_call *call, struct flmem_error *err);

/* Adds what the other processes have measured, after a measuring pass. */
int flmem_shared_call_add_sums(struct flmem_aggregate_call *call, int rc, struct flmem_error *err);

/* Flushes this part to the disk after the combining pass, and gets the checksum of all parts. */
int flmem_shared_call_collect(struct flmem_aggregate_call *call, int rc, struct flmem_error *err);

#endif
