/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/server/lockstep_combine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text/shorten.h"
#include "ops/aggregate/call.h"
#include "ops/exchange/server/lockstep.h"
#include "ops/exchange/server/verified_round.h"

/* One lane of the aggregation. */
struct lane_reader {
	struct flmem_exchange *x;
	struct flmem_lane *lane;
};

/*
 * Learns the position of an earlier server: the first read after a start follows what was combined
 * before. The clients continue there, whatever they had sent to the killed server.
 */
static void set_position(struct flmem_exchange *x, uint64_t done)
{
	pthread_mutex_lock(&x->lock);
	pthread_mutex_lock(&x->lockstep->lock);
	for (struct flmem_upload *u = x->uploads; u && !x->lockstep->positioned; u = u->next) {
		struct flmem_lane *lane = u->lane;

		if (!flmem_lane_is_member(x, u))
			continue;
		lane->base = lane->received = u->offset = lane->head + done;
	}
	x->lockstep->positioned = true;
	pthread_cond_broadcast(&x->lockstep->moved);
	pthread_mutex_unlock(&x->lockstep->lock);
	pthread_mutex_unlock(&x->lock);
}

/*
 * Skips bytes that were combined before: after a chunk that a power failure took, later ones may be
 * intact. Their data are not read again, so the clients must not wait for that. Called with
 * lockstep->lock held.
 */
static void skip_combined(struct flmem_lockstep *lockstep, struct flmem_lane *lane, uint64_t offset)
{
	if (offset <= lane->base)
		return;
	lane->base = offset;
	pthread_cond_broadcast(&lockstep->moved);
}

static int read_lane(void *context, uint64_t offset, uint64_t bytes, char *out,
		     struct flmem_error *err)
{
	const struct lane_reader *reader = context;
	struct flmem_lockstep *lockstep = reader->x->lockstep;
	struct flmem_lane *lane = reader->lane;
	uint64_t window = lockstep->window_bytes;
	bool ended, lost;

	if (!lockstep->positioned)
		set_position(reader->x, offset - lane->head);
	pthread_mutex_lock(&lockstep->lock);
	lost = offset < lane->base;
	skip_combined(lockstep, lane, offset);
	while (lane->received < offset + bytes && !lockstep->ended)
		pthread_cond_wait(&lockstep->moved, &lockstep->lock);
	ended = lockstep->ended;
	pthread_mutex_unlock(&lockstep->lock);
	if (ended || lost)
		return flmem_error_set(err, FLMEM_EFAILED, 0, "%s",
				       lost ? "data that were combined are needed again"
					    : "stopped before all updates were complete");
	/* No lock: received bytes stay in the ring until they are released. */
	while (bytes) {
		uint64_t at = offset % window, some = window - at < bytes ? window - at : bytes;

		memcpy(out, lane->ring + at, some);
		out += some;
		offset += some;
		bytes -= some;
	}
	return 0;
}

static void release_lane(void *context, uint64_t offset)
{
	const struct lane_reader *reader = context;
	struct flmem_lockstep *lockstep = reader->x->lockstep;

	pthread_mutex_lock(&lockstep->lock);
	if (offset > reader->lane->base)
		reader->lane->base = offset;
	pthread_cond_broadcast(&lockstep->moved);
	pthread_mutex_unlock(&lockstep->lock);
}

/*
 * Fills the readers in the order of the updates. Returns false if a lane is missing. Called with
 * x->lock held.
 */
static bool find_lanes(struct flmem_exchange *x, struct lane_reader *readers,
		       struct flmem_input_stream *streams)
{
	for (size_t i = 0; i < x->update_count; i++) {
		const struct flmem_upload *u = flmem_lockstep_member(x, x->updates[i].client);

		if (!u)
			return false;
		readers[i] = (struct lane_reader){.x = x, .lane = u->lane};
		streams[i] = (struct flmem_input_stream){
			.read = read_lane,
			.release = release_lane,
			.context = &readers[i],
			.data_offset = u->lane->head,
		};
	}
	return true;
}

/*
 * Returns the client whose update has the path after a quote. NULL if no update has it, or if the
 * part that distinguishes it was cut off.
 */
static const char *find_named_client(const struct flmem_exchange *x,
				     const struct flmem_aggregate_request *request,
				     const char *quoted, size_t *ret_length)
{
	const char *client = NULL;

	for (size_t i = 0; i < x->update_count; i++) {
		size_t length = flmem_text_fit_match(quoted, request->inputs[i]);

		if (!length || quoted[length] != '\'')
			continue;
		if (client)
			return NULL;
		client = x->updates[i].client;
		*ret_length = length;
	}
	return client;
}

/* Replaces quoted paths in a message by clients: they know their names, not files of this host. */
static void name_clients(const struct flmem_exchange *x,
			 const struct flmem_aggregate_request *request, struct flmem_error *err)
{
	char text[FLMEM_ERROR_MESSAGE_MAX];
	const char *client;
	size_t length;

	for (char *at = err->message; (at = strchr(at, '\'')); at++) {
		client = find_named_client(x, request, at + 1, &length);
		if (!client)
			continue;
		snprintf(text, sizeof(text), "%.*s%s%s", (int)(at + 1 - err->message), err->message,
			 client, at + 1 + length);
		memcpy(err->message, text, sizeof(text));
	}
}

int flmem_lockstep_combine(struct flmem_exchange *x, struct flmem_aggregate_request *request,
			   struct flmem_aggregate_result *ret_result, struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct lane_reader *readers = calloc(x->update_count, sizeof(*readers));
	FLMEM_AUTO_FREE struct flmem_input_stream *streams =
		calloc(x->update_count, sizeof(*streams));
	bool found;
	int rc;

	if (!readers || !streams)
		return flmem_error_nomem(err, "cannot combine the updates");
	/* If the output exists, it is complete: only the index of the round was missing. */
	if (!request->state && !flmem_exchange_verifies(x) && access(request->output, F_OK) == 0)
		return 0;
	pthread_mutex_lock(&x->lock);
	found = find_lanes(x, readers, streams);
	pthread_mutex_unlock(&x->lock);
	if (!found)
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "an update of round %" PRIu64 " is missing in '%s'",
				       x->round, x->spool.path);
	request->threads = 1;
	request->chunk_bytes = x->lockstep->combine_bytes;
	rc = flmem_aggregate_streamed(request, streams, ret_result, err);
	if (rc)
		name_clients(x, request, err);
	return rc;
}
