/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_LOCKSTEP_H
#define FLMEM_OPS_EXCHANGE_LOCKSTEP_H

/*
 * Lockstep: the updates of a round are combined while they arrive, each chunk once all clients have
 * sent it. Of an update only the header is on the disk, and memory holds a window of the data: a
 * client that is ahead waits. The last bytes are confirmed when the result is published, so every
 * client can send again what a killed server had in memory.
 *
 * Unless a comment says otherwise, these functions are called with x->lock held, and do nothing, or
 * return false, if the exchange does not use lockstep.
 */

#include <pthread.h>

#include "ops/exchange/server/server_state.h"

/* Passes the data of one upload to the aggregation. Offsets are those of the file. */
struct flmem_lane {
	uint64_t head; /* bytes of the header, once it was checked; else 0 */
	uint64_t base; /* the bytes before this offset were combined */
	/* The bytes before this offset are in the ring, or in the file of the header. */
	uint64_t received;
	char *ring;
	bool member; /* the upload is one of the updates that are combined */
	bool hurry;  /* another request waits for the upload */
};

struct flmem_lockstep {
	uint64_t combine_bytes; /* bytes of each lane that are combined in one step */
	uint64_t request_bytes; /* largest body of a request with a checksum */
	uint64_t window_bytes;	/* bytes of a ring */
	pthread_mutex_t lock;	/* protects all lanes and the fields below; taken after x->lock */
	pthread_cond_t moved;
	uint64_t published; /* number of rounds published since the start */
	bool positioned;    /* the position up to which an earlier server had combined is known */
	bool ended;	    /* the exchange has failed, or stops */
};

/* Refuses options that need whole updates. Called without x->lock. */
int flmem_lockstep_check_options(const struct flmem_exchange_serve_options *options,
				 struct flmem_error *err);

/* Allocates the state, after the limits are set. Called without x->lock. */
int flmem_lockstep_open(struct flmem_exchange *x, struct flmem_error *err);
void flmem_lockstep_close(struct flmem_exchange *x);

/* Continues what an earlier server has left. Call it before other threads start. */
void flmem_lockstep_recover(struct flmem_exchange *x);

/*
 * Returns false, after it answered, for uploads that lockstep cannot combine, and once the round is
 * being combined.
 */
bool flmem_lockstep_admits(struct flmem_exchange *x, struct flmem_http_request *request,
			   const struct flmem_upload_record *record);

/*
 * Waits until the position is known. Returns false after some seconds without it. Called without
 * x->lock.
 */
bool flmem_lockstep_await_position(struct flmem_exchange *x);

/* Returns true if the upload must stay, since it is being combined. */
bool flmem_lockstep_holds(const struct flmem_exchange *x, const struct flmem_upload *upload);

/* Returns the lane of an upload, and creates it; NULL if there are too many. */
struct flmem_lane *flmem_lane_of(struct flmem_exchange *x, struct flmem_upload *upload);
void flmem_lane_free(struct flmem_lane *lane);

/* Returns true if the upload is one of the updates that are being combined. */
bool flmem_lane_is_member(const struct flmem_exchange *x, const struct flmem_upload *upload);

/* Returns the upload of a client that is being combined, or NULL. */
const struct flmem_upload *flmem_lockstep_member(const struct flmem_exchange *x,
						 const char *client);

/*
 * Adds an upload whose header is complete and was checked. The header of the last client starts the
 * combining of the round. Returns false if that has started without this upload.
 */
bool flmem_lockstep_join(struct flmem_exchange *x, struct flmem_upload *upload, uint64_t head);

/* Ends the wait of the request that works on an upload, so that it finishes. */
void flmem_lockstep_end_wait(struct flmem_exchange *x, const struct flmem_upload *upload);

/* Returns the offset to report for an upload. */
uint64_t flmem_lane_offset(const struct flmem_exchange *x, const struct flmem_upload *upload);

/* Called when the deadline has passed. Returns true, with the reason, if that ends the exchange. */
bool flmem_lockstep_check_deadline(struct flmem_exchange *x, struct flmem_error *err);

/* Called when the result is public: the uploads count from now on. */
void flmem_lockstep_publish(struct flmem_exchange *x);

/* Returns true if the result has this upload of the round before, whose file is then removed. */
bool flmem_lockstep_was_combined(const struct flmem_exchange *x, const struct flmem_upload *upload);

/* Ends the waits of all requests. */
void flmem_lockstep_end(struct flmem_exchange *x);

/* Returns the number of clients that have sent everything. */
size_t flmem_lockstep_complete(const struct flmem_exchange *x);

/* Returns the largest body of a request with a checksum; 0 without lockstep. */
uint64_t flmem_lockstep_request_bytes(const struct flmem_exchange *x);

#endif
