/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_CLIENT_INTERNAL_H
#define FLMEM_EXCHANGE_CLIENT_INTERNAL_H

/* One client of an exchange: its connection, its retries and its progress. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>
#include <flmem/exchange_client.h>

#include "base/cleanup.h"
#include "net/connection.h"

#define FLMEM_EXCHANGE_ANSWER_MAX (64U << 10)

struct flmem_exchange_client {
	const struct flmem_exchange_server *server;
	struct flmem_connection_options options;
	struct flmem_connection *connection;
	char *base;	     /* the address in front of /v1 */
	char *authorization; /* or NULL */
	const char *name;    /* the same as base, for messages */
	uint64_t began_us;
	struct flmem_aggregate_progress progress;
	unsigned failed; /* since the last progress */
	uint64_t retries;
	uint64_t until_us; /* deadline on the monotonic clock for requests and retries; 0: never */
	bool stopped;
	bool ahead; /* the server asked to wait for other clients, which is not a failure */
};

/* `server` is kept. Clear the client in any case. */
int flmem_exchange_client_open(struct flmem_exchange_client *client,
			       const struct flmem_exchange_server *server, struct flmem_error *err);

void flmem_exchange_client_clear(struct flmem_exchange_client *client);

#define FLMEM_AUTO_EXCHANGE_CLIENT FLMEM_AUTO(flmem_exchange_client_clear)

/* Sends a request once. FLMEM_CONNECTION_OK: an answer whose status is not transient. */
enum flmem_connection_step flmem_exchange_client_try(struct flmem_exchange_client *client,
						     const struct flmem_connection_request *request,
						     struct flmem_connection_answer *answer,
						     struct flmem_error *err);

/*
 * Waits before the next try, and longer each time. `err` has the last failure; its code is
 * returned, with how often it was tried, if that was the last try.
 */
int flmem_exchange_client_pause(struct flmem_exchange_client *client,
				const struct flmem_connection_answer *answer,
				struct flmem_error *err);

/* Restarts the progress at 0 of so many bytes. */
void flmem_exchange_client_show(struct flmem_exchange_client *client, uint64_t total_bytes);

/* Reports progress; false once the user has stopped it. */
bool flmem_exchange_client_continues(struct flmem_exchange_client *client);

/* Data have been transferred: the next failure counts as the first one. */
void flmem_exchange_client_progressed(struct flmem_exchange_client *client);

/* Sends a request that may be repeated until there is an answer that is not transient. */
int flmem_exchange_client_ask(struct flmem_exchange_client *client,
			      const struct flmem_connection_request *request,
			      struct flmem_connection_answer *answer, struct flmem_error *err);

/* The error for an answer with an unexpected status; `what` could not be done. */
int flmem_exchange_client_refused(const struct flmem_exchange_client *client, const char *what,
				  struct flmem_connection_answer *answer, struct flmem_error *err);

/* GET of a path below the address; status 200 or an error, with the name of `options` in front. */
int flmem_exchange_client_get(struct flmem_exchange_client *client, const char *path,
			      const struct flmem_connection_request *options,
			      struct flmem_connection_answer *answer, struct flmem_error *err);

/* Reads the state; with `wait_seconds` once a round after `after` is published, or later. */
int flmem_exchange_client_state(struct flmem_exchange_client *client, const uint64_t *after,
				unsigned wait_seconds, struct flmem_exchange_status *ret_status,
				struct flmem_error *err);

#endif
