/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_EXCHANGE_PROGRESS_H
#define FLMEM_CLI_EXCHANGE_PROGRESS_H

/* Shows what a client of an exchange does: the progress bar, and that it retries. */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/exchange_client.h>

#include "aggregate/aggregate_progress.h"

struct exchange_progress {
	struct aggregate_progress bar; /* must be first: the callbacks share the context */
	const char *verb;
	bool quiet;
	uint64_t noted_s; /* monotonic time of the last line about a retry; 0: none */
};

/* Sets the callbacks of `server`. */
void exchange_progress_begin(struct exchange_progress *progress, const char *verb, bool quiet,
			     struct flmem_exchange_server *server);

void exchange_progress_end(struct exchange_progress *progress);

#endif
