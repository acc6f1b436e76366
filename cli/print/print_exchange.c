/* SPDX-License-Identifier: Apache-2.0 */
#include "print/print_exchange.h"

#include <inttypes.h>
#include <stdio.h>

#include "print/print_format.h"

void print_exchange_status(const struct flmem_exchange_status *status)
{
	char number[FORMAT_MAX];

	printf("%s: round %" PRIu64 " of %" PRIu64 ", published %" PRIu64 "\n",
	       flmem_exchange_phase_name(status->phase), status->round, status->rounds,
	       status->published_round);
	if (status->phase == FLMEM_EXCHANGE_COLLECTING) {
		printf("  %" PRIu64 " of %" PRIu64 " clients are complete",
		       status->clients_complete, status->clients_expected);
		if (status->has_deadline)
			printf(", %" PRIu64 " needed at the deadline in %s", status->clients_quorum,
			       format_span(status->deadline_s, number));
		putchar('\n');
	}
	if (status->reason[0])
		printf("  %s\n", status->reason);
	printf("  uploads in chunks of %s", format_bytes(status->chunk_bytes, number));
	if (status->has_request_limit)
		printf(", requests of at most %s", format_bytes(status->max_request_bytes, number));
	putchar('\n');
}
