/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_SERVER_STATE_H
#define FLMEM_OPS_EXCHANGE_SERVER_STATE_H

/*
 * What the threads of a server share. One lock protects it; no thread waits for a disk or for a
 * peer while holding it. Lines of the log are written with it, in the order of what they report.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/exchange_serve.h>

#include "exchange/credentials.h"
#include "exchange/documents.h"
#include "exchange/spool.h"
#include "exchange/upload_record.h"
#include "ops/aggregate/input.h"
#include "ops/aggregate/output_layout.h"
#include "serve/http_server.h"

enum flmem_server_phase {
	FLMEM_PHASE_COLLECTING,
	FLMEM_PHASE_COMBINING,
	FLMEM_PHASE_DONE,
	FLMEM_PHASE_FAILED,
};

struct flmem_upload {
	struct flmem_upload *next;
	char id[FLMEM_EXCHANGE_ID_DIGITS + 1];
	struct flmem_upload_record record;
	uint64_t offset;  /* committed */
	uint64_t flushed; /* of it: on the disk for certain */
	uint32_t crc32c;  /* of what is committed */
	uint64_t finite;  /* of it: found to be so while it arrived, see finite_stream.h */
	uint64_t commits; /* records in the journal */
	bool placed;	  /* complete, and at its place in the update */
	bool checking;	  /* its update is compared with the model, or it is assembled */
	bool counted;	  /* its update counts */
	bool postponed;	  /* its update is recovered after the others */
	bool combined;	  /* its round is over; the bytes are gone */
	struct flmem_http_request *writer;
	struct flmem_lane *lane; /* in lockstep, from its first byte on; or NULL */
	uint64_t touched_us;	 /* monotonic */
};

/* What is known about the values of an update. */
enum flmem_update_values {
	FLMEM_VALUES_UNREAD,
	FLMEM_VALUES_FINITE,
	FLMEM_VALUES_SPECIAL, /* it is left out for a NaN or an infinity, or cannot be read */
};

/* A complete update of the current round. */
struct flmem_update {
	char client[FLMEM_EXCHANGE_NAME_MAX + 1];
	double weight;
	char *path; /* of its file or folder */
	enum flmem_update_values values;
};

struct flmem_published {
	uint64_t round;
	bool valid;
	struct flmem_published_file *files;
	size_t count;
};

#define FLMEM_EXCHANGE_KEPT_ROUNDS 2U

struct flmem_exchange_counters {
	uint64_t received_bytes, updates, refused_updates, uploads, checksum_errors;
	uint64_t combine_us, combined_rounds;
};

struct flmem_exchange {
	const struct flmem_exchange_serve_options *options;
	uint64_t quorum, chunk_bytes, quota_bytes, reserve_bytes, expire_us;
	struct flmem_spool spool;
	struct flmem_credentials tokens, certificates;
	struct flmem_http_server *server;
	struct flmem_lockstep *lockstep; /* NULL: staged */
	/* The initial model. */
	struct flmem_layout layout;
	struct flmem_input model;
	uint64_t model_bytes, shard_bytes; /* 0: one file */
	char model_name[FLMEM_EXCHANGE_NAME_MAX + 1];
	bool needs_checkpoint; /* the output is one, so inputs have to be */
	uint64_t needed;       /* updates, by the algorithm; at most the quorum */

	pthread_mutex_t lock;
	pthread_cond_t changed; /* phase, published round, writers, stopping */
	pthread_mutex_t log_lock;
	enum flmem_server_phase phase;
	bool gathered; /* in lockstep: the clients of the round are known, so it is combined */
	uint64_t round, published_round;
	uint64_t verified;    /* elements: the round that writes nothing is over */
	uint64_t deadline_us; /* monotonic; 0: none */
	char reason[FLMEM_ERROR_MESSAGE_MAX];
	int code; /* with FLMEM_PHASE_FAILED */
	struct flmem_upload *uploads;
	size_t upload_count;
	struct flmem_update *updates; /* room for all clients */
	size_t update_count;
	struct flmem_published published[FLMEM_EXCHANGE_KEPT_ROUNDS]; /* newest first */
	struct flmem_exchange_counters counters;
	bool stopping;
	bool recovering; /* updates of an earlier server */
	int wake;	 /* eventfd: the main loop has work to do */
	pthread_t combiner;
	bool combining; /* the thread was started */
	bool combined;	/* and is about to end */
};

/* Calls options->log. */
struct flmem_exchange_note {
	const char *event;
	bool warning;
	uint64_t round;
	const char *client;
	uint64_t bytes, took_us;
	const char *detail;
};

void flmem_exchange_log(struct flmem_exchange *x, const struct flmem_exchange_note *note);

/* Wakes all threads that wait for a change; with the lock. */
void flmem_exchange_wake(struct flmem_exchange *x);

#endif
