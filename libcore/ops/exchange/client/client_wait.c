/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/exchange_client.h>

#include "base/clock.h"
#include "exchange/wire.h"
#include "ops/exchange/client/client.h"

#define PAUSE_US      UINT64_C(200000)
#define GRACE_US      UINT64_C(2000000) /* the answer to the last request may be this late */
#define US_PER_SECOND UINT64_C(1000000)

int flmem_exchange_status_read(const struct flmem_exchange_server *server,
			       struct flmem_exchange_status *ret_status, struct flmem_error *err)
{
	FLMEM_AUTO_EXCHANGE_CLIENT struct flmem_exchange_client client;
	int rc = flmem_exchange_client_open(&client, server, err);

	return rc ? rc : flmem_exchange_client_state(&client, NULL, 0, ret_status, err);
}

/* Reports that the exchange ended and the round can no longer be published. */
static int check_ended(const struct flmem_exchange_client *client,
		       const struct flmem_exchange_status *status, uint64_t round,
		       struct flmem_error *err)
{
	if (status->phase == FLMEM_EXCHANGE_FAILED)
		return flmem_error_set(err, FLMEM_EFAILED, 0, "the exchange of '%s' failed%s%s",
				       client->name, status->reason[0] ? ": " : "", status->reason);
	if (round > status->published_round && status->phase == FLMEM_EXCHANGE_DONE)
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"the exchange of '%s' is over without a round %llu: its last "
			"model is that of round %llu",
			client->name, (unsigned long long)round,
			(unsigned long long)status->published_round);
	if (round > status->rounds)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' will not publish round %llu: its last one is %llu",
				       client->name, (unsigned long long)round,
				       (unsigned long long)status->rounds);
	return 0;
}

static unsigned seconds_to_wait(uint64_t left_us)
{
	uint64_t seconds = (left_us + US_PER_SECOND - 1) / US_PER_SECOND;

	return seconds < FLMEM_EXCHANGE_WAIT_MAX ? (unsigned)seconds : FLMEM_EXCHANGE_WAIT_MAX;
}

static int report_late(const struct flmem_exchange_client *client, uint64_t round,
		       const struct flmem_exchange_status *status, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUNDECIDED, 0,
			       "'%s' did not publish round %llu in time; round %llu has %llu of "
			       "%llu clients",
			       client->name, (unsigned long long)round,
			       (unsigned long long)status->round,
			       (unsigned long long)status->clients_complete,
			       (unsigned long long)status->clients_expected);
}

/* Asks until the round is published or the deadline `until` has passed. */
static int ask_for_published(struct flmem_exchange_client *client, uint64_t round, uint64_t until,
			     struct flmem_exchange_status *status, struct flmem_error *err)
{
	int rc = flmem_exchange_client_state(client, NULL, 0, status, err);

	while (!rc && status->published_round < round) {
		uint64_t began = flmem_clock_us(), after = round - 1;

		rc = check_ended(client, status, round, err);
		if (rc)
			return rc;
		if (began >= until)
			return report_late(client, round, status, err);
		rc = flmem_exchange_client_state(client, &after, seconds_to_wait(until - began),
						 status, err);
		/* Pause, so that a server that answers at once is not asked in a tight loop. */
		if (!rc && status->published_round < round && flmem_clock_us() - began < PAUSE_US)
			flmem_clock_sleep_us(PAUSE_US);
		if (!rc)
			flmem_exchange_client_progressed(client);
	}
	return rc;
}

static int wait_for_published(struct flmem_exchange_client *client, uint64_t round,
			      uint64_t timeout_us, struct flmem_exchange_status *status,
			      struct flmem_error *err)
{
	uint64_t until = timeout_us ? flmem_clock_us() + timeout_us : UINT64_MAX;
	int rc;

	client->until_us = timeout_us ? until + GRACE_US : 0;
	rc = ask_for_published(client, round, until, status, err);
	if (rc == FLMEM_EFAILED && timeout_us && !client->stopped &&
	    flmem_clock_us() >= client->until_us)
		return flmem_error_prefix(err, FLMEM_EUNDECIDED,
					  "round %llu was not published in time",
					  (unsigned long long)round);
	return rc;
}

int flmem_exchange_wait(const struct flmem_exchange_server *server, uint64_t round,
			uint64_t timeout_us, struct flmem_exchange_status *ret_status,
			struct flmem_error *err)
{
	FLMEM_AUTO_EXCHANGE_CLIENT struct flmem_exchange_client client;
	struct flmem_exchange_status status;
	int rc = flmem_exchange_client_open(&client, server, err);

	if (!rc)
		rc = wait_for_published(&client, round, timeout_us, &status, err);
	if (!rc)
		*ret_status = status;
	return rc;
}
