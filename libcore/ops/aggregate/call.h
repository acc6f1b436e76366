/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_CALL_H
#define FLMEM_OPS_AGGREGATE_CALL_H

/* One call of flmem_aggregate(), in its parts: which inputs, in which passes, into which files. */

#include <stdint.h>

#include <flmem/aggregate.h>

#include "mpi/ranks.h"
#include "net/http.h"
#include "ops/aggregate/run.h"
#include "ops/aggregate/state.h"

/* Everything that the call owns. */
struct flmem_aggregate_call {
	const struct flmem_aggregate_request *request;
	const struct flmem_input_stream *streams; /* one per input, or NULL */
	uint64_t started_us;
	struct flmem_http_access access;
	bool reading; /* threads are; else this thread waits for servers, and reports progress */
	struct flmem_layout layout;
	struct flmem_input *inputs; /* and the base */
	struct flmem_state state;
	struct flmem_part_file part;
	struct flmem_output output;
	struct flmem_run run;
	double *weights, *factors; /* of the inputs that are not skipped */
	uint64_t read_bytes;
	uint32_t crc32c;	  /* of the output's data */
	uint64_t mark;		  /* of the journal, by which other processes know it */
	uint64_t samples;	  /* a hash of places of all inputs */
	void *reports;		  /* room for one of each process, of shared_call.c */
	struct flmem_ranks ranks; /* processes that share the work; one without request->mpi */
};

/*
 * flmem_aggregate() with inputs of which only the headers are in the files: their data are read
 * once, in order, from `streams`. With one thread, and an algorithm and a policy for NaN that need
 * one pass. FLMEM_EUSAGE for inputs in another order than that of the output. With generated inputs
 * and FLMEM_AGGREGATE_VERIFY what the streams have is compared, too.
 */
int flmem_aggregate_streamed(const struct flmem_aggregate_request *request,
			     const struct flmem_input_stream *streams,
			     struct flmem_aggregate_result *ret_result, struct flmem_error *err);

/* Takes the inputs that are not skipped, and prepares the algorithm for them. */
int flmem_aggregate_call_choose(struct flmem_aggregate_call *call, struct flmem_error *err);

/* Skips those in which a pass found a NaN or an infinity. */
int flmem_aggregate_call_skip_special(struct flmem_aggregate_call *call, struct flmem_error *err);

int flmem_aggregate_call_pass(struct flmem_aggregate_call *call, enum flmem_run_kind kind,
			      struct flmem_error *err);

/* Combines once more, without inputs that were skipped; an error if the result has a NaN again. */
int flmem_aggregate_call_repeat(struct flmem_aggregate_call *call, struct flmem_error *err);

/* The first of two passes: skips the inputs that the algorithm does not choose. */
int flmem_aggregate_call_measure(struct flmem_aggregate_call *call, struct flmem_error *err);

/* A hash of the options that decide the result, equal on all machines. */
uint64_t flmem_aggregate_call_options_print(const struct flmem_aggregate_call *call);

/* Checks the request alone, before any pass. */
uint64_t flmem_aggregate_call_request_print(const struct flmem_aggregate_call *call);

/* Equal for calls whose chunks have the same bytes. */
uint64_t flmem_aggregate_call_fingerprint(const struct flmem_aggregate_call *call);

/*
 * Gives an empty result its names while the call may still fail; clear it also after a failure. The
 * second one fills it once the output is in place.
 */
int flmem_aggregate_call_name_result(const struct flmem_aggregate_call *call,
				     struct flmem_aggregate_result *result,
				     struct flmem_error *err);
struct flmem_aggregate_result
flmem_aggregate_call_fill_result(const struct flmem_aggregate_call *call,
				 struct flmem_aggregate_result named);

int flmem_aggregate_call_nomem(const struct flmem_aggregate_call *call, struct flmem_error *err);

#endif
