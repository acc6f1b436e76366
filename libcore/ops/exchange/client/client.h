/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_CLIENT_INTERNAL_H
#define FLMEM_EXCHANGE_CLIENT_INTERNAL_H

/* One client of an exchange: its connection, its retries and the state of its progress. */

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
	char *base;	     /* address of the server, to which /v1 is appended */
	char *authorization; /* value of the Authorization header, or NULL */
	const char *name;    /* `base`, for messages */
	uint64_t began_us;
	struct flmem_aggregate_progress progress;
	unsigned failed; /* number of failures since the last progress */
	uint64_t retries;
	uint64_t until_us; /* deadline on the monotonic clock for requests and retries; 0: never */
	bool stopped;
	bool ahead; /* the server made it wait for other clients, which is not a failure */
};

/* Opens a client. `server` is not copied. Clear the client also after a failure. */
int flmem_exchange_client_open(struct flmem_exchange_client *client,
			       const struct flmem_exchange_server *server, struct flmem_error *err);

void flmem_exchange_client_clear(struct flmem_exchange_client *client);

#define FLMEM_AUTO_EXCHANGE_CLIENT FLMEM_AUTO(flmem_exchange_client_clear)

/*
 * Sends a request once. FLMEM_CONNECTION_OK: there is an answer, and its status is not transient.
 */
enum flmem_connection_step flmem_exchange_client_try(struct flmem_exchange_client *client,
						     const struct flmem_connection_request *request,
						     struct flmem_connection_answer *answer,
						     struct flmem_error *err);

/*
 * Waits before the next try, and longer each time. `err` holds the last failure. If that was the
 * last try, returns its code, and adds to *err how often it was tried.
 */
int flmem_exchange_client_pause(struct flmem_exchange_client *client,
				const struct flmem_connection_answer *answer,
				struct flmem_error *err);

/* Restarts the progress: 0 of `total_bytes`. */
void flmem_exchange_client_show(struct flmem_exchange_client *client, uint64_t total_bytes);

/* Reports progress; returns false once the user has stopped it. */
bool flmem_exchange_client_continues(struct flmem_exchange_client *client);

/* Notes that data have been transferred: the next failure counts as the first one. */
void flmem_exchange_client_progressed(struct flmem_exchange_client *client);

/* Sends a request, and repeats it until there is an answer that is not transient. */
int flmem_exchange_client_ask(struct flmem_exchange_client *client,
			      const struct flmem_connection_request *request,
			      struct flmem_connection_answer *answer, struct flmem_error *err);

/* Sets the error for an answer with an unexpected status; `what` says what failed. */
int flmem_exchange_client_refused(const struct flmem_exchange_client *client, const char *what,
				  struct flmem_connection_answer *answer, struct flmem_error *err);

/*
 * Sends a GET for a path below the address. Any status but 200 is an error, prefixed with the name
 * in `options`.
 */
int flmem_exchange_client_get(struct flmem_exchange_client *client, const char *path,
			      const struct flmem_connection_request *options,
			      struct flmem_connection_answer *answer, struct flmem_error *err);

/*
 * Reads the state of the exchange. With `wait_seconds` the server answers once a round after
 * `after` is published, or after that time.
 */
int flmem_exchange_client_state(struct flmem_exchange_client *client, const uint64_t *after,
				unsigned wait_seconds, struct flmem_exchange_status *ret_status,
				struct flmem_error *err);

#endif
