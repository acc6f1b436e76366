/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_CLIENT_H
#define FLMEM_EXCHANGE_CLIENT_H

/*
 * The client side of a model exchange (docs/internals/exchange-protocol.md): sends updates as
 * resumable uploads, fetches published models, and follows the rounds. Requests are retried after
 * temporary failures. Memory use is one chunk, whatever the size of the model. Responses of the
 * server are not trusted. Calls share nothing: several threads may make calls at once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/aggregate.h>
#include <flmem/error.h>

#define FLMEM_EXCHANGE_REASON_MAX 256U

/* Connection to the server. Zero-initialise it; the caller owns the strings. */
struct flmem_exchange_server {
	const char *url;	/* http:// or https:// address to which the client appends /v1 */
	const char *token_file; /* its first line is sent as the bearer token; NULL: none */
	/* PEM files; `key` NULL: the key is in `cert`; both NULL: no certificate. */
	const char *cert, *key;
	const char *cacert; /* PEM; NULL: SSL_CERT_FILE, else the system's certificates */
	bool insecure;	    /* allow a token over http:// to hosts other than this one */
	unsigned retries;   /* limit of successive failures without progress between them; 0: 10 */
	bool never_retry;   /* overrides `retries` */
	/* Abort a request that stays below 1 KiB per second for this long; 0: 30. */
	unsigned timeout_seconds;
	/*
	 * Called a few times per second during a transfer; if it returns false, the call stops. May
	 * be NULL.
	 */
	bool (*progress)(void *context, const struct flmem_aggregate_progress *progress);
	/* Called before each wait for a retry, with the error that caused it. May be NULL. */
	void (*retrying)(void *context, const struct flmem_error *why);
	void *context;
};

#define FLMEM_EXCHANGE_PHASES(X)    \
	X(COLLECTING, "collecting") \
	X(COMBINING, "combining")   \
	X(DONE, "done")             \
	X(FAILED, "failed")

enum flmem_exchange_phase {
#define FLMEM_EXCHANGE_PHASE(name, text) FLMEM_EXCHANGE_##name,
	FLMEM_EXCHANGE_PHASES(FLMEM_EXCHANGE_PHASE)
#undef FLMEM_EXCHANGE_PHASE
};

/* Returns the name of a phase ("collecting", ...). Never NULL. */
FLMEM_API const char *flmem_exchange_phase_name(enum flmem_exchange_phase phase);

/* The state of an exchange, as its server reports it. */
struct flmem_exchange_status {
	enum flmem_exchange_phase phase;
	uint64_t round;	 /* the round being collected, from 0 */
	uint64_t rounds; /* number of rounds of the whole exchange */
	uint64_t published_round;
	uint64_t clients_expected, clients_quorum, clients_complete;
	uint64_t chunk_bytes;
	bool complete; /* the server has the complete update of this client for this round */
	bool lockstep; /* updates are combined while they arrive and are not stored */
	bool has_deadline, has_request_limit;
	uint64_t deadline_s; /* seconds until the deadline of the round; valid if has_deadline */
	uint64_t max_request_bytes; /* largest request body; valid if has_request_limit */
	/* Why the exchange failed; printable, may be empty. */
	char reason[FLMEM_EXCHANGE_REASON_MAX];
};

/*
 * Reads the state of the exchange. FLMEM_EFAILED if the server does not respond, or if its response
 * is not a state.
 */
FLMEM_API FLMEM_MUST_CHECK int
flmem_exchange_status_read(const struct flmem_exchange_server *server,
			   struct flmem_exchange_status *ret_status, struct flmem_error *err);

/*
 * Waits until the model of `round` is published. FLMEM_EUNDECIDED after `timeout_us` (0: no limit);
 * FLMEM_EFAILED if the exchange ends without that model. *ret_status is set on success only.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_exchange_wait(const struct flmem_exchange_server *server,
						   uint64_t round, uint64_t timeout_us,
						   struct flmem_exchange_status *ret_status,
						   struct flmem_error *err);

/*
 * Continues a CRC-32C (RFC 3720), the checksum of chunks, over `length` more bytes; start with 0.
 */
FLMEM_API uint32_t flmem_exchange_crc32c(uint32_t crc, const void *bytes, size_t length);

/*
 * Computes the CRC-32C of two concatenated pieces from their checksums; `length` is the number of
 * bytes of the second piece.
 */
FLMEM_API uint32_t flmem_exchange_crc32c_join(uint32_t first, uint32_t second, uint64_t length);

struct flmem_exchange_push_request {
	const struct flmem_exchange_server *server;
	/* A file, a folder with a model.safetensors.index.json, or FLMEM_AGGREGATE_GENERATE... */
	const char *path;
	const char *client; /* name of the client; NULL: the name that belongs to the credential */
	const char *weight; /* weight of the update as a decimal number; NULL: 1 */
	bool has_round;	    /* false: the round that the server collects */
	uint64_t round;	    /* valid if has_round */
	/* Bytes per request; 0: as the server proposes. The server's limit always applies. */
	uint64_t chunk_bytes;
	/* Announce the SHA-256 of each file, which is then read twice. Always done in lockstep. */
	bool sha256;
	/*
	 * First delete an incomplete upload of this client and round with another file or another
	 * weight. If false, such an upload fails the call.
	 */
	bool replace;
};

/* Figures of a completed push. */
struct flmem_exchange_push_result {
	uint64_t round;
	uint64_t files, bytes;
	uint64_t resumed_bytes; /* bytes that the server already had */
	uint64_t sent_bytes;	/* bytes sent, including repeated ones */
	uint64_t chunk_bytes;	/* chunk size used for the last file */
	uint64_t retries;
	uint64_t took_us;
};

/*
 * Sends an update, and returns when the server has accepted all of it. Data that an earlier call
 * with the same files sent are not sent again. FLMEM_EUSAGE if the server refuses the update.
 */
FLMEM_API FLMEM_MUST_CHECK int
flmem_exchange_push(const struct flmem_exchange_push_request *request,
		    struct flmem_exchange_push_result *ret_result, struct flmem_error *err);

struct flmem_exchange_pull_request {
	const struct flmem_exchange_server *server;
	/*
	 * A file, or for a model of several files a directory, which is created.
	 * FLMEM_AGGREGATE_VERIFY: nothing is written; only the SHA-256 of the received data is
	 * compared.
	 */
	const char *output;
	bool has_round; /* false: the latest published round */
	uint64_t round; /* valid if has_round */
};

/* Figures of a completed pull. */
struct flmem_exchange_pull_result {
	uint64_t round;
	uint64_t files, bytes;
	uint64_t resumed_bytes; /* bytes received by an earlier call */
	uint64_t retries;
	uint64_t took_us;
};

/*
 * Fetches a published model. Data are written to FILE.part, which is renamed when its SHA-256
 * matches the index; until then an existing output is unchanged. FLMEM_EFAILED if the model is
 * incomplete; a later call continues.
 */
FLMEM_API FLMEM_MUST_CHECK int
flmem_exchange_pull(const struct flmem_exchange_pull_request *request,
		    struct flmem_exchange_pull_result *ret_result, struct flmem_error *err);

#endif
