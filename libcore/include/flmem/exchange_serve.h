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

/* Defaults of struct flmem_exchange_serve_options. */
#define FLMEM_EXCHANGE_RESERVE_BYTES	   (UINT64_C(256) << 20)
#define FLMEM_EXCHANGE_IDLE_US		   UINT64_C(60000000)
#define FLMEM_EXCHANGE_SETTLE_US	   UINT64_C(5000000)
#define FLMEM_EXCHANGE_EXPIRE_US	   UINT64_C(86400000000)
#define FLMEM_EXCHANGE_CONNECTIONS	   512U
#define FLMEM_EXCHANGE_ADDRESS_CONNECTIONS 300U

#define FLMEM_EXCHANGE_NO_ROUND UINT64_MAX

/* An event to log. Strings are valid during the call; client names are validated. */
struct flmem_exchange_event {
	uint64_t wall_us;  /* time of the event, since 1970-01-01 UTC */
	const char *event; /* static: "published", "upload-complete", ... */
	bool warning;
	uint64_t round;	    /* round of the event, or FLMEM_EXCHANGE_NO_ROUND */
	const char *client; /* client that caused the event, or NULL */
	uint64_t bytes;	    /* size of the model or update; 0: the event has none */
	uint64_t took_us;   /* duration of what ended; 0: the event has none */
	const char *detail; /* one line, or NULL; may quote a client: escape it to print */
};

/* The update that a verified exchange expects from a client: a FLMEM_AGGREGATE_GENERATE name. */
struct flmem_exchange_expected {
	const char *client, *model;
};

/*
 * Parameters of flmem_exchange_serve(). Zero-initialise the struct and set what is not the default.
 * The caller owns everything that it refers to.
 */
struct flmem_exchange_serve_options {
	/*
	 * The initial model: a model file, a folder of shards with an index, or a
	 * FLMEM_AGGREGATE_GENERATE name.
	 */
	const char *model;
	const char *listen; /* address to listen on, as in struct flmem_endpoint_options */
	const char *state;  /* state directory, owned by this user; created if it does not exist */
	uint64_t clients, rounds;
	uint64_t quorum;      /* updates that suffice at the deadline; 0: all clients */
	uint64_t deadline_us; /* time limit of a round; 0: none */
	/*
	 * How updates are combined. The exchange sets inputs, output, weights, base and state
	 * itself.
	 */
	struct flmem_aggregate_request aggregate;
	uint64_t chunk_bytes; /* size of an upload request that clients should use; 0: 2 MiB */
	uint64_t max_request_bytes; /* largest body of one request; 0: no limit */
	/* Limit of a client's uploads per round; 0: twice the model's size and a margin. */
	uint64_t quota_bytes;
	uint64_t reserve_bytes; /* disk space to keep free; 0: FLMEM_EXCHANGE_RESERVE_BYTES */
	/* Age at which an upload without progress is removed; 0: FLMEM_EXCHANGE_EXPIRE_US. */
	uint64_t expire_us;
	/* Age at which a connection without progress is closed; 0: FLMEM_EXCHANGE_IDLE_US. */
	uint64_t idle_us;
	/* After the last round, time without requests until the end; 0: FLMEM_EXCHANGE_SETTLE_US */
	uint64_t settle_us;
	/* Limits, in total and per client address; 0: the defaults above. */
	unsigned connections, address_connections;
	const char *tls_cert, *tls_key; /* PEM files; NULL: plain HTTP */
	/* PEM file of the authorities that sign client certificates; NULL: none required. */
	const char *client_ca;
	/* File of lines "NAME CN=TEXT" or "NAME sha256:HEX"; NULL: the CN is the name. */
	const char *authorised;
	const char *token_file; /* file of lines "NAME TOKEN"; NULL: no tokens */
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
	int stop;      /* file descriptor that becomes readable to request the end; -1: none */
	/*
	 * Callbacks, called by any thread, one at a time; each may be NULL. `log` receives each
	 * event, `listening` the address once the server accepts connections; `local`: from this
	 * host only.
	 */
	void (*log)(void *context, const struct flmem_exchange_event *event);
	void (*listening)(void *context, const char *url, bool local);
	void *context;
};

/* Result of an exchange; owns `model`. Release with flmem_exchange_served_clear(). */
struct flmem_exchange_served {
	uint64_t rounds, published_round;
	uint64_t updates;	  /* updates combined since this start */
	uint64_t refused_updates; /* updates refused since this start */
	uint64_t received_bytes;  /* bytes of uploads received since this start */
	/* Elements of the average that were compared; 0: options->verify was not given. */
	uint64_t verified_elements;
	bool stopped; /* ended before the last round was published; the same call continues */
	char *model;  /* path of the newest model, a file or a folder */
};

/*
 * Serves until the last round is published and clients have read it, or until `stop`. FLMEM_EUSAGE
 * for invalid options, an invalid model, or a state directory of another exchange; FLMEM_EPERM for
 * files and ports that the system refuses; FLMEM_EUNSUPPORTED without libmicrohttpd or GnuTLS;
 * FLMEM_EFAILED for a round without quorum at its deadline, and failed reads and writes.
 */
FLMEM_API FLMEM_MUST_CHECK int
flmem_exchange_serve(const struct flmem_exchange_serve_options *options,
		     struct flmem_exchange_served *ret_served, struct flmem_error *err);

/* Frees what the result owns and zeroes the struct. */
FLMEM_API void flmem_exchange_served_clear(struct flmem_exchange_served *served);

#endif
