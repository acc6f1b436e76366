/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_AGGREGATE_RUN_H
#define FLMEM_CLI_AGGREGATE_RUN_H

/* Aggregates with a progress bar and prints the result. */

#include <stdbool.h>

#include <flmem/aggregate.h>

struct aggregate_output {
	bool quiet, json;
	bool generated; /* a generated model is written: nothing is combined */
};

/*
 * Sets the request's progress, aggregates and prints the result. Returns 0 or the code of the
 * failure.
 */
int aggregate_run(struct flmem_aggregate_request *request, const struct aggregate_output *output,
		  struct flmem_error *err);

#endif
