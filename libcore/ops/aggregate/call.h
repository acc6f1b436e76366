/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_CALL_H
#define FLMEM_OPS_AGGREGATE_CALL_H

/*
 * One call of flmem_aggregate(): the choice of its inputs, its passes over them, and the files that
 * it writes.
 */

#include <stdint.h>

#include <flmem/aggregate.h>

#include "mpi/ranks.h"
#include "net/http.h"
#include "ops/aggregate/run.h"
#include "ops/aggregate/state.h"

/* Everything that one call owns. */
struct flmem_aggregate_call {
	const struct flmem_aggregate_request *request;
	const struct flmem_input_stream *streams; /* one per input, or NULL */
	uint64_t started_us;
	struct flmem_http_access access;
	/*
	 * Threads read the inputs; false: the calling thread waits for servers and reports
	 * progress.
	 */
	bool reading;
	struct flmem_layout layout;
	struct flmem_input *inputs; /* the inputs, and after them the base */
	struct flmem_state state;
	struct flmem_part_file part;
	struct flmem_output output;
	struct flmem_run run;
	double *weights, *factors; /* weights of the inputs that are not skipped */
	uint64_t read_bytes;
	uint32_t crc32c;  /* CRC-32C of the output's data */
	uint64_t mark;	  /* number in the journal by which other processes recognise it */
	uint64_t samples; /* hash of a few places of all inputs */
	void *reports;	  /* buffer of shared_call.c for one report of each process */
	/* Processes that share the work; a single one without request->mpi. */
	struct flmem_ranks ranks;
};

/*
 * Aggregates inputs whose files contain only the headers: the data come once, in order, from
 * `streams`. It needs one thread, and an algorithm and a NaN policy of one pass. FLMEM_EUSAGE for
 * inputs in another order than that of the output. With generated inputs and FLMEM_AGGREGATE_VERIFY
 * the contents of the streams are compared, too. Otherwise as flmem_aggregate().
 */
int flmem_aggregate_streamed(const struct flmem_aggregate_request *request,
			     const struct flmem_input_stream *streams,
			     struct flmem_aggregate_result *ret_result, struct flmem_error *err);

/* Takes the inputs that are not skipped, and prepares the algorithm for them. */
int flmem_aggregate_call_choose(struct flmem_aggregate_call *call, struct flmem_error *err);

/* Skips the inputs in which a pass found a NaN or an infinity. */
int flmem_aggregate_call_skip_special(struct flmem_aggregate_call *call, struct flmem_error *err);

int flmem_aggregate_call_pass(struct flmem_aggregate_call *call, enum flmem_run_kind kind,
			      struct flmem_error *err);

/* Combines once more, without the skipped inputs; an error if the result has a NaN again. */
int flmem_aggregate_call_repeat(struct flmem_aggregate_call *call, struct flmem_error *err);

/* Makes the first of two passes, and skips the inputs that the algorithm does not choose. */
int flmem_aggregate_call_measure(struct flmem_aggregate_call *call, struct flmem_error *err);

/* Returns a hash of the options that decide the result, equal on all machines. */
uint64_t flmem_aggregate_call_options_print(const struct flmem_aggregate_call *call);

/* Returns a hash of the request alone, known before any pass. */
uint64_t flmem_aggregate_call_request_print(const struct flmem_aggregate_call *call);

/* Returns a hash that is equal for calls whose chunks have the same bytes. */
uint64_t flmem_aggregate_call_fingerprint(const struct flmem_aggregate_call *call);

/*
 * flmem_aggregate_call_name_result() puts names into an empty result while the call may still fail;
 * clear the result also after a failure. flmem_aggregate_call_fill_result() completes it once the
 * output is in place.
 */
int flmem_aggregate_call_name_result(const struct flmem_aggregate_call *call,
				     struct flmem_aggregate_result *result,
				     struct flmem_error *err);
struct flmem_aggregate_result
flmem_aggregate_call_fill_result(const struct flmem_aggregate_call *call,
				 struct flmem_aggregate_result named);

int flmem_aggregate_call_nomem(const struct flmem_aggregate_call *call, struct flmem_error *err);

#endif
