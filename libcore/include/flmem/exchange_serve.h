/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_SERVE_H
#define FLMEM_EXCHANGE_SERVE_H

/*
 * The server of an exchange: it publishes a model, receives the clients' updates as resumable
 * uploads over HTTP, combines those of a round and publishes the result as the next. Memory does
 * not grow with the model. All it knows is in a state directory: a server that was killed continues
 * when it is called with the same options. docs/internals/exchange-protocol.md has the protocol.
 *
 * flmem_exchange_serve() starts threads, which have ended when it returns.
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

/* Something to log. Texts are valid during the call; those of clients are checked names. */
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

/* What the update of a client has to be: a FLMEM_AGGREGATE_GENERATE... name. */
struct flmem_exchange_expected {
	const char *client, *model;
};

/* Zero-initialise it and set what is not the default. */
struct flmem_exchange_serve_options {
	/* A model file, a folder of shards with an index, or FLMEM_AGGREGATE_GENERATE... */
	const char *model;
	const char *listen; /* as struct flmem_endpoint_options has it */
	const char *state;  /* a directory of this user; made if it does not exist */
	uint64_t clients, rounds;
	uint64_t quorum;      /* updates that are enough at the deadline; 0: all clients */
	uint64_t deadline_us; /* of a round; 0: none */
	/* Its inputs, output, weights, base and state are those of the exchange. */
	struct flmem_aggregate_request aggregate;
	uint64_t chunk_bytes;	    /* that clients are asked to send at once; 0: 2 MiB */
	uint64_t max_request_bytes; /* of one request; 0: no limit */
	uint64_t quota_bytes; /* of a client's uploads in a round; 0: from the size of the model */
	uint64_t reserve_bytes; /* that stay free; 0: FLMEM_EXCHANGE_RESERVE_BYTES */
	uint64_t expire_us;	/* uploads without progress; 0: FLMEM_EXCHANGE_EXPIRE_US */
	uint64_t idle_us;	/* connections without progress; 0: FLMEM_EXCHANGE_IDLE_US */
	uint64_t settle_us;	/* without requests at the end; 0: FLMEM_EXCHANGE_SETTLE_US */
	unsigned connections, address_connections; /* most; 0: the defaults above */
	const char *tls_cert, *tls_key;		   /* PEM files; NULL: plain HTTP */
	const char *client_ca;	/* PEM file: clients need a certificate of these authorities */
	const char *authorised; /* "NAME CN=TEXT" and "NAME sha256:HEX"; NULL: CN is the name */
	const char *token_file; /* "NAME TOKEN" on each line */
	/*
	 * Combine updates while they arrive, chunk by chunk as all clients have sent it, without
	 * keeping them. For algorithms that need one pass, and one safetensors file per update.
	 */
	bool lockstep;
	/*
	 * Writes no model: each element of the updates is compared with these, one for each
	 * client, and each of their average with the exact mean, while they arrive. In lockstep,
	 * with fedavg and one round; the exchange ends with it.
	 */
	const struct flmem_exchange_expected *verify;
	size_t verify_count;
	bool insecure; /* plain HTTP on other addresses than loopback */
	int stop;      /* descriptor that becomes readable to end; -1: none */
	/* Called by any thread, one at a time. Both may be NULL. */
	void (*log)(void *context, const struct flmem_exchange_event *event);
	void (*listening)(void *context, const char *url, bool local);
	void *context;
};

struct flmem_exchange_served {
	uint64_t rounds, published_round;
	uint64_t updates;	    /* that were combined, since this start */
	uint64_t refused_updates;   /* since this start */
	uint64_t received_bytes;    /* the same */
	uint64_t verified_elements; /* of the average; 0: options->verify was not given */
	bool stopped;		    /* before the last round; the same call continues */
	char *model;		    /* path of the newest model, a file or a folder */
};

/*
 * Serves until the last round is published and was read, or until `stop`. FLMEM_EUSAGE for invalid
 * options, an invalid model, and a state directory of another exchange; FLMEM_EPERM for refused
 * files and ports; FLMEM_EUNSUPPORTED without libmicrohttpd or GnuTLS; FLMEM_EFAILED for a round
 * without quorum at its deadline, and failed reads and writes.
 */
FLMEM_API FLMEM_MUST_CHECK int
flmem_exchange_serve(const struct flmem_exchange_serve_options *options,
		     struct flmem_exchange_served *ret_served, struct flmem_error *err);

/* Frees what it owns and empties it. */
FLMEM_API void flmem_exchange_served_clear(struct flmem_exchange_served *served);

#endif
