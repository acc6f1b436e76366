/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_CLIENT_H
#define FLMEM_EXCHANGE_CLIENT_H

/*
 * The client's side of an exchange of models (docs/internals/exchange-protocol.md): sends updates
 * as resumable uploads, fetches published models, and follows the rounds. Requests that fail for a
 * passing reason are repeated. Memory is a chunk, whatever the size of the model. What the server
 * sends is untrusted. One thread per call; calls share nothing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/aggregate.h>
#include <flmem/error.h>

#define FLMEM_EXCHANGE_REASON_MAX 256U

/* How the server is reached. Zero-initialise it; the texts are the caller's. */
struct flmem_exchange_server {
	const char *url;	  /* http:// or https://, in front of /v1 */
	const char *token_file;	  /* its first line is sent as the bearer token; NULL: none */
	const char *cert, *key;	  /* PEM; NULL: no certificate, the key is in the same file */
	const char *cacert;	  /* PEM; NULL: SSL_CERT_FILE, else those of the system */
	bool insecure;		  /* a token may go over http:// to other hosts */
	unsigned retries;	  /* after failures without progress; 0: 10 */
	bool never_retry;	  /* in place of `retries` */
	unsigned timeout_seconds; /* without 1 KiB a second; 0: 30 */
	/* Called a few times a second while data move; false stops. NULL: none. */
	bool (*progress)(void *context, const struct flmem_aggregate_progress *progress);
	/* Called before the wait for another try. NULL: none. */
	void (*retrying)(void *context, const struct flmem_error *why);
	void *context;
};

#define FLMEM_EXCHANGE_PHASES(X)    \
	X(COLLECTING, "collecting") \
	X(FUSING, "fusing")         \
	X(DONE, "done")             \
	X(FAILED, "failed")

enum flmem_exchange_phase {
#define FLMEM_EXCHANGE_PHASE(name, text) FLMEM_EXCHANGE_##name,
	FLMEM_EXCHANGE_PHASES(FLMEM_EXCHANGE_PHASE)
#undef FLMEM_EXCHANGE_PHASE
};

/* Never NULL. */
FLMEM_API const char *flmem_exchange_phase_name(enum flmem_exchange_phase phase);

/* The state of an exchange, as its server reports it. */
struct flmem_exchange_status {
	enum flmem_exchange_phase phase;
	uint64_t round;	 /* that is collected, from 0 */
	uint64_t rounds; /* of the whole exchange */
	uint64_t published_round;
	uint64_t clients_expected, clients_quorum, clients_complete;
	uint64_t chunk_bytes;
	bool complete; /* the update of this client is, in this round */
	bool lockstep; /* updates are combined while they arrive, and not kept */
	bool has_deadline, has_request_limit;
	uint64_t deadline_s;			/* left, if has_deadline */
	uint64_t max_request_bytes;		/* if has_request_limit */
	char reason[FLMEM_EXCHANGE_REASON_MAX]; /* of a failure; printable, may be empty */
};

/* FLMEM_EFAILED if there is no server, or what it sends is not a state. */
FLMEM_API FLMEM_MUST_CHECK int
flmem_exchange_status_read(const struct flmem_exchange_server *server,
			   struct flmem_exchange_status *ret_status, struct flmem_error *err);

/*
 * Waits until the model of a round is published. FLMEM_EUNDECIDED after `timeout_us` (0: no limit);
 * FLMEM_EFAILED if the exchange ends without it. *ret_status is set by success only.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_exchange_wait(const struct flmem_exchange_server *server,
						   uint64_t round, uint64_t timeout_us,
						   struct flmem_exchange_status *ret_status,
						   struct flmem_error *err);

/* Continues a CRC-32C (RFC 3720), the checksum of chunks; start with 0. */
FLMEM_API uint32_t flmem_exchange_crc32c(uint32_t crc, const void *bytes, size_t length);

/* That of two pieces from that of each; `length` is that of the second. */
FLMEM_API uint32_t flmem_exchange_crc32c_join(uint32_t first, uint32_t second, uint64_t length);

struct flmem_exchange_push_request {
	const struct flmem_exchange_server *server;
	/* A file, a folder with a model.safetensors.index.json, or FLMEM_AGGREGATE_GENERATE... */
	const char *path;
	const char *client;   /* NULL: the name that belongs to the credential */
	const char *weight;   /* a decimal number, or NULL: 1 */
	bool has_round;	      /* else the one that is collected now */
	uint64_t round;	      /* if has_round */
	uint64_t chunk_bytes; /* 0: as the server proposes; its limit is kept in any case */
	/* Announce the SHA-256 of each file, which is read twice for it. Always so in lockstep. */
	bool sha256;
	/*
	 * What an earlier push of this client and round has sent of another file, or with another
	 * weight, and not completed, is deleted first. Else it fails the call.
	 */
	bool replace;
};

struct flmem_exchange_push_result {
	uint64_t round;
	uint64_t files, bytes;
	uint64_t resumed_bytes; /* that the server had already */
	uint64_t sent_bytes;	/* with those that were sent again */
	uint64_t chunk_bytes;	/* of the last file */
	uint64_t retries;
	uint64_t took_us;
};

/*
 * Sends an update, and returns when the server has accepted all of it. What an earlier call with
 * the same files has sent is not sent again. FLMEM_EUSAGE if the server refuses the update.
 */
FLMEM_API FLMEM_MUST_CHECK int
flmem_exchange_push(const struct flmem_exchange_push_request *request,
		    struct flmem_exchange_push_result *ret_result, struct flmem_error *err);

struct flmem_exchange_pull_request {
	const struct flmem_exchange_server *server;
	/*
	 * A file, or a directory: made for a model of several files. FLMEM_AGGREGATE_VERIFY:
	 * nothing is written, the SHA-256 of what is received is compared.
	 */
	const char *output;
	bool has_round; /* else the latest */
	uint64_t round; /* if has_round */
};

struct flmem_exchange_pull_result {
	uint64_t round;
	uint64_t files, bytes;
	uint64_t resumed_bytes; /* that an earlier call had received */
	uint64_t retries;
	uint64_t took_us;
};

/*
 * Fetches a published model. Data go to FILE.part; the output appears when its SHA-256 is that of
 * the index; an older one stays until then. A later call continues. FLMEM_EFAILED: not complete.
 */
FLMEM_API FLMEM_MUST_CHECK int
flmem_exchange_pull(const struct flmem_exchange_pull_request *request,
		    struct flmem_exchange_pull_result *ret_result, struct flmem_error *err);

#endif
