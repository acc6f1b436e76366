/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_SERVE_H
#define FLMEM_EXCHANGE_SERVE_H

/*
 * The server of an exchange: it publishes a model, receives the clients' updates as resumable
 * uploads over HTTP, combines the updates of a round and publishes the result as the next model.
 * Memory use does not depend on the size of the model. The whole state is in a directory: after a
 * kill, a call with the same options continues. Protocol: docs/internals/exchange-protocol.md.
 *
 * flmem_exchange_serve() starts threads and joins them before it returns.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/aggregate.h>
#include <flmem/error.h>
#include <flmem/visibility.h>

#define FLMEM_EXCHANGE_RESERVE_BYTES	   (UINT64_C(256) << 20)
#define FLMEM_EXCHANGE_IDLE_US		   UINT64_C(60000000)
#define FLMEM_EXCHANGE_SETTLE_US	   UINT64_C(5000000)
#define FLMEM_EXCHANGE_EXPIRE_US	   UINT64_C(86400000000)
#define FLMEM_EXCHANGE_CONNECTIONS	   512U
#define FLMEM_EXCHANGE_ADDRESS_CONNECTIONS 300U

#define FLMEM_EXCHANGE_NO_ROUND UINT64_MAX

/* An event to log. Strings are valid during the call; client names are validated. */
struct flmem_exchange_event {
	uint64_t wall_us;  /* since 1970 */
	const char *event; /* static: "published", "upload-complete", ... */
	bool warning;
	uint64_t round;	    /* or FLMEM_EXCHANGE_NO_ROUND */
	const char *client; /* or NULL */
	uint64_t bytes;	    /* 0: none */
	uint64_t took_us;   /* 0: none */
	const char *detail; /* one line, or NULL; may quote a client: escape it to print */
};

/* Expected update of a client: a FLMEM_AGGREGATE_GENERATE... name. */
struct flmem_exchange_expected {
	const char *client, *model;
};

/* Zero-initialise it and set what is not the default. */
struct flmem_exchange_serve_options {
	/* A model file, a folder of shards with an index, or FLMEM_AGGREGATE_GENERATE... */
	const char *model;
	const char *listen; /* as in struct flmem_endpoint_options */
	const char *state;  /* a directory owned by this user; created if it does not exist */
	uint64_t clients, rounds;
	uint64_t quorum;      /* minimum number of updates at the deadline; 0: all clients */
	uint64_t deadline_us; /* of a round; 0: none */
	/* Inputs, output, weights, base and state are set by the exchange. */
	struct flmem_aggregate_request aggregate;
	uint64_t chunk_bytes;	    /* size of an upload request, proposed to clients; 0: 2 MiB */
	uint64_t max_request_bytes; /* limit of one request; 0: none */
	uint64_t quota_bytes; /* limit of a client's uploads per round; 0: from the model's size */
	uint64_t reserve_bytes; /* disk space to keep free; 0: FLMEM_EXCHANGE_RESERVE_BYTES */
	uint64_t expire_us;	/* for uploads without progress; 0: FLMEM_EXCHANGE_EXPIRE_US */
	uint64_t idle_us;	/* for connections without progress; 0: FLMEM_EXCHANGE_IDLE_US */
	uint64_t settle_us; /* end after this time without requests; 0: FLMEM_EXCHANGE_SETTLE_US */
	unsigned connections, address_connections; /* maximum; 0: the defaults above */
	const char *tls_cert, *tls_key;		   /* PEM files; NULL: plain HTTP */
	const char *client_ca;	/* PEM file: clients need a certificate from these authorities */
	const char *authorised; /* "NAME CN=TEXT" and "NAME sha256:HEX"; NULL: CN is the name */
	const char *token_file; /* "NAME TOKEN" on each line */
	/*
	 * Combine updates while they arrive, each chunk once all clients have sent it, without
	 * storing them. Only for one-pass algorithms and one safetensors file per update.
	 */
	bool lockstep;
	/*
	 * Test mode without an output model: compares each received element with these expected
	 * updates, one per client, and each element of the average with the exact mean. Only in
	 * lockstep, with fedavg and one round.
	 */
	const struct flmem_exchange_expected *verify;
	size_t verify_count;
	bool insecure; /* allow plain HTTP on addresses other than loopback */
	int stop;      /* descriptor that becomes readable to request the end; -1: none */
	/* Called by any thread, one at a time. Both may be NULL. */
	void (*log)(void *context, const struct flmem_exchange_event *event);
	void (*listening)(void *context, const char *url, bool local);
	void *context;
};

struct flmem_exchange_served {
	uint64_t rounds, published_round;
	uint64_t updates;	    /* combined since this start */
	uint64_t refused_updates;   /* since this start */
	uint64_t received_bytes;    /* since this start */
	uint64_t verified_elements; /* of the average; 0: options->verify was not given */
	bool stopped; /* before the last round was published; the same call continues */
	char *model;  /* path of the newest model, a file or a folder */
};

/*
 * Serves until the last round is published and clients have read it, or until `stop`. FLMEM_EUSAGE
 * for invalid options, an invalid model, or a state directory of another exchange; FLMEM_EPERM for
 * refused files and ports; FLMEM_EUNSUPPORTED without libmicrohttpd or GnuTLS; FLMEM_EFAILED for a
 * round without quorum at its deadline, and failed reads and writes.
 */
FLMEM_API FLMEM_MUST_CHECK int
flmem_exchange_serve(const struct flmem_exchange_serve_options *options,
		     struct flmem_exchange_served *ret_served, struct flmem_error *err);

/* Frees what it owns and empties it. */
FLMEM_API void flmem_exchange_served_clear(struct flmem_exchange_served *served);

#endif
