/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_SERVER_STATE_H
#define FLMEM_OPS_EXCHANGE_SERVER_STATE_H

/*
 * State that the threads of a server share. x->lock protects it; no thread waits for a disk or for
 * a peer while it holds that lock. Lines of the log are written with the lock held, in the order of
 * what they report.
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
	uint64_t offset;  /* bytes that are committed */
	uint64_t flushed; /* committed bytes that are certainly on the disk */
	uint32_t crc32c;  /* CRC-32C of the committed bytes */
	uint64_t finite;  /* committed bytes found to be finite on arrival, see finite_stream.h */
	uint64_t commits; /* number of records in the journal */
	bool placed;	  /* complete, and in the directory of its update */
	bool checking;	  /* its update is being compared with the model, or assembled */
	bool counted;	  /* its update counts for the round */
	bool postponed;	  /* its update is recovered after all others */
	bool combined;	  /* its round is over, and its bytes were removed */
	struct flmem_http_request *writer;
	struct flmem_lane *lane; /* lane, in lockstep, from the first byte on; or NULL */
	uint64_t touched_us;	 /* time of the last use, monotonic clock */
};

/* What is known about the values of an update. */
enum flmem_update_values {
	FLMEM_VALUES_UNREAD,
	FLMEM_VALUES_FINITE,
	/* The update has a NaN or an infinity, or cannot be read: it is left out. */
	FLMEM_VALUES_SPECIAL,
};

/* A complete update of the current round. */
struct flmem_update {
	char client[FLMEM_EXCHANGE_NAME_MAX + 1];
	double weight;
	char *path; /* path of its file or folder */
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
	/* NULL: updates are stored and combined at the end of a round. */
	struct flmem_lockstep *lockstep;
	/* The initial model. */
	struct flmem_layout layout;
	struct flmem_input model;
	uint64_t model_bytes, shard_bytes; /* shard_bytes 0: the model is one file */
	char model_name[FLMEM_EXCHANGE_NAME_MAX + 1];
	bool needs_checkpoint; /* the output is a checkpoint, so inputs must be checkpoints */
	uint64_t needed;       /* updates that the algorithm needs; at most the quorum */

	pthread_mutex_t lock;
	/* Signalled when phase, published round, writers or stopping change. */
	pthread_cond_t changed;
	pthread_mutex_t log_lock;
	enum flmem_server_phase phase;
	bool gathered; /* lockstep: the clients of the round are known, and it is being combined */
	uint64_t round, published_round;
	uint64_t verified;    /* verified elements; not 0: the verified round is over */
	uint64_t deadline_us; /* end of the round, monotonic clock; 0: none */
	char reason[FLMEM_ERROR_MESSAGE_MAX];
	int code; /* code of the failure in FLMEM_PHASE_FAILED */
	struct flmem_upload *uploads;
	size_t upload_count;
	struct flmem_update *updates; /* array with room for all clients */
	size_t update_count;
	struct flmem_published published[FLMEM_EXCHANGE_KEPT_ROUNDS]; /* newest first */
	struct flmem_exchange_counters counters;
	bool stopping;
	bool recovering; /* updates of an earlier server are being recovered */
	int wake;	 /* eventfd: the main loop has work to do */
	pthread_t combiner;
	bool combining; /* the thread of the combiner was started */
	bool combined;	/* the thread of the combiner is about to end */
};

/* An event for flmem_exchange_log(), which calls options->log. */
struct flmem_exchange_note {
	const char *event;
	bool warning;
	uint64_t round;
	const char *client;
	uint64_t bytes, took_us;
	const char *detail;
};

void flmem_exchange_log(struct flmem_exchange *x, const struct flmem_exchange_note *note);

/* Wakes all threads that wait for a change. Called with x->lock held. */
void flmem_exchange_wake(struct flmem_exchange *x);

#endif
