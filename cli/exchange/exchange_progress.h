/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_EXCHANGE_PROGRESS_H
#define FLMEM_CLI_EXCHANGE_PROGRESS_H

/* What a client of an exchange shows while it works: the progress bar, and that it retries. */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/exchange_client.h>

#include "aggregate/aggregate_progress.h"

struct exchange_progress {
	struct aggregate_progress bar; /* first: the callbacks share the context */
	const char *verb;
	bool quiet;
	uint64_t noted_s; /* of the monotonic clock: the last line about a retry; 0: none */
};

/* Sets the callbacks of `server`. */
void exchange_progress_begin(struct exchange_progress *progress, const char *verb, bool quiet,
			     struct flmem_exchange_server *server);

void exchange_progress_end(struct exchange_progress *progress);

#endif
