/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_LOCKSTEP_H
#define FLMEM_OPS_EXCHANGE_LOCKSTEP_H

/*
 * Lockstep: the updates of a round are combined while they arrive, chunk by chunk as all clients
 * have sent it. Of an update the disk has the header, and memory a window of the data: a client
 * that is ahead waits. The last bytes are confirmed when the result is published, so every client
 * can send again what a killed server had in memory.
 *
 * Functions without another word are called with the lock of the exchange; they do nothing, or
 * return false, when it is staged.
 */

#include <pthread.h>

#include "ops/exchange/server/server_state.h"

/* The data of an upload on their way to the aggregation. Offsets are those of the file. */
struct flmem_lane {
	uint64_t head;	   /* bytes of its header, when that was checked; else 0 */
	uint64_t base;	   /* bytes before this offset were combined */
	uint64_t received; /* what is before it is in the ring, or in the file of the header */
	char *ring;
	bool member; /* of the round */
	bool hurry;  /* another request wants the upload */
};

struct flmem_lockstep {
	uint64_t combine_bytes; /* that are combined at once */
	uint64_t request_bytes; /* of a body with a checksum, at most */
	uint64_t window_bytes;	/* of a ring */
	pthread_mutex_t
		lock; /* of all lanes, and of what follows; taken after that of the exchange */
	pthread_cond_t moved;
	uint64_t published; /* rounds */
	bool positioned;    /* it is known what was combined before this start */
	bool ended;	    /* the exchange has failed, or stops */
};

/* Refuses what needs whole updates. No lock. */
int flmem_lockstep_check_options(const struct flmem_exchange_serve_options *options,
				 struct flmem_error *err);

/* After the limits are set. No lock. */
int flmem_lockstep_open(struct flmem_exchange *x, struct flmem_error *err);
void flmem_lockstep_close(struct flmem_exchange *x);

/* Continues what an earlier server has left. Call it before other threads start. */
void flmem_lockstep_recover(struct flmem_exchange *x);

/* False, after an answer, for uploads that lockstep cannot combine, or of a client too many. */
bool flmem_lockstep_admits(struct flmem_exchange *x, struct flmem_http_request *request,
			   const struct flmem_upload_record *record);

/* False after some seconds without knowing where the uploads are. Without the lock. */
bool flmem_lockstep_await_position(struct flmem_exchange *x);

/* Whether an upload must stay, since it is being combined. */
bool flmem_lockstep_holds(const struct flmem_exchange *x, const struct flmem_upload *upload);

/* A lane for an upload, or NULL if there are too many. */
struct flmem_lane *flmem_lane_of(struct flmem_exchange *x, struct flmem_upload *upload);
void flmem_lane_free(struct flmem_lane *lane);

/* Of the updates that are being combined. */
bool flmem_lane_is_member(const struct flmem_exchange *x, const struct flmem_upload *upload);

/* The one of a client, or NULL. */
const struct flmem_upload *flmem_lockstep_member(const struct flmem_exchange *x,
						 const char *client);

/*
 * The header of an upload is complete and was checked: with that of the last client the round
 * starts to be combined. False if it has started without this one.
 */
bool flmem_lockstep_join(struct flmem_exchange *x, struct flmem_upload *upload, uint64_t head);

/* Ends the wait of the request that works on an upload: it has to finish. */
void flmem_lockstep_hurry(struct flmem_exchange *x, const struct flmem_upload *upload);

/* The offset to report. */
uint64_t flmem_lane_offset(const struct flmem_exchange *x, const struct flmem_upload *upload);

/* The deadline has passed: true with the reason if that ends the exchange. */
bool flmem_lockstep_check_deadline(struct flmem_exchange *x, struct flmem_error *err);

/* The result is public: the uploads count. */
void flmem_lockstep_publish(struct flmem_exchange *x);

/* Of an upload of the round before: whether the result has it. Its file is removed then. */
bool flmem_lockstep_was_combined(const struct flmem_exchange *x, const struct flmem_upload *upload);

/* Ends the waits of all requests. */
void flmem_lockstep_end(struct flmem_exchange *x);

/* Clients that have sent everything. */
size_t flmem_lockstep_complete(const struct flmem_exchange *x);

/* The largest body with a checksum; 0: staged. */
uint64_t flmem_lockstep_request_bytes(const struct flmem_exchange *x);

#endif
