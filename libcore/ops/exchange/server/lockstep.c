/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/server/lockstep.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "aggregate/algorithm.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/portable.h"
#include "base/text/text.h"
#include "ops/exchange/server/answers.h"
#include "ops/exchange/server/publish.h"
#include "ops/exchange/server/round_combiner.h"
#include "ops/exchange/server/update.h"
#include "ops/exchange/server/uploads.h"
#include "ops/exchange/server/verified_round.h"

/* Memory of all rings together, and the sizes by which the aggregation proceeds. */
#define WINDOWS_BYTES	  (UINT64_C(128) << 20)
#define STEP_BYTES	  (UINT64_C(64) << 10)
#define COMBINE_LARGEST	  (UINT64_C(1) << 20)
#define CLIENTS_MOST	  1024U
#define SAFETENSORS_LEAST UINT64_C(10) /* smallest file: the size of a header, and the header {} */
#define POSITION_US	  20000000U

int flmem_lockstep_check_options(const struct flmem_exchange_serve_options *options,
				 struct flmem_error *err)
{
	const struct flmem_aggregate_request *a = &options->aggregate;
	const char *name = a->algorithm ?: "fedavg";

	if (flmem_algorithm_find(name)->measures)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' compares whole updates before it combines them, and "
				       "lockstep keeps none; use --mode staged",
				       name);
	if (a->nan == FLMEM_NAN_SKIP_CLIENT)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "in lockstep an update is in the result in part when a NaN "
				       "is found, so it cannot be left out; use --nan reject, or "
				       "--mode staged");
	if (options->clients > CLIENTS_MOST)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "lockstep has a window in memory for each client: --clients "
				       "accepts at most %u; use --mode staged",
				       CLIENTS_MOST);
	return 0;
}

static int check_lockstep_model(struct flmem_exchange *x, struct flmem_error *err)
{
	int rc;

	if (x->shard_bytes || x->model.kind.format != FLMEM_FORMAT_SAFETENSORS)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "lockstep needs a model that is one safetensors file; "
				       "'flmem aggregate convert' writes one");
	rc = flmem_update_check(x, x->options->model, err);
	return rc ? flmem_error_prefix(err, rc, "--model") : 0;
}

static uint64_t to_step(uint64_t bytes)
{
	return bytes < STEP_BYTES ? STEP_BYTES : bytes / STEP_BYTES * STEP_BYTES;
}

/*
 * Computes the sizes. A request that waits for room means that more than window - request bytes of
 * the lane were not combined yet. That is at least a step of the aggregation, so not all lanes can
 * wait.
 */
static void size_windows(struct flmem_exchange *x, struct flmem_lockstep *lockstep)
{
	uint64_t each = WINDOWS_BYTES / x->options->clients;
	uint64_t combine = to_step(each / 4 < COMBINE_LARGEST ? each / 4 : COMBINE_LARGEST);
	uint64_t room = each > combine ? (each - combine) / 2 : 0;

	lockstep->combine_bytes = combine;
	lockstep->request_bytes = to_step(room < x->chunk_bytes ? room : x->chunk_bytes);
	lockstep->window_bytes = combine + 2 * lockstep->request_bytes;
	if (lockstep->request_bytes < x->chunk_bytes)
		x->chunk_bytes = lockstep->request_bytes;
}

int flmem_lockstep_open(struct flmem_exchange *x, struct flmem_error *err)
{
	struct flmem_lockstep *lockstep;

	if (!x->options->lockstep)
		return 0;
	lockstep = calloc(1, sizeof(*lockstep));
	if (!lockstep)
		return flmem_error_nomem(err, "cannot serve");
	size_windows(x, lockstep);
	pthread_mutex_init(&lockstep->lock, NULL);
	flmem_cond_init_monotonic(&lockstep->moved);
	lockstep->positioned = true;
	x->lockstep = lockstep;
	return check_lockstep_model(x, err);
}

void flmem_lockstep_close(struct flmem_exchange *x)
{
	if (!x->lockstep)
		return;
	pthread_cond_destroy(&x->lockstep->moved);
	pthread_mutex_destroy(&x->lockstep->lock);
	free(x->lockstep);
	x->lockstep = NULL;
}

static bool is_of_round(const struct flmem_exchange *x, const struct flmem_upload *upload)
{
	return upload->lane && !upload->combined && upload->record.metadata.round == x->round;
}

bool flmem_lane_is_member(const struct flmem_exchange *x, const struct flmem_upload *upload)
{
	return is_of_round(x, upload) && upload->lane->member;
}

const struct flmem_upload *flmem_lockstep_member(const struct flmem_exchange *x, const char *client)
{
	for (const struct flmem_upload *u = x->uploads; u; u = u->next)
		if (flmem_lane_is_member(x, u) && strcmp(u->record.metadata.client, client) == 0)
			return u;
	return NULL;
}

/*
 * Lets an upload replace another one of the same client and round: a client that was killed may go
 * on with a file of another name. That is possible until the round begins to be combined, unless a
 * request works on the other upload. Returns false if the other upload stays.
 */
static bool replace_lane(struct flmem_exchange *x, const struct flmem_upload *upload)
{
	for (struct flmem_upload *u = x->uploads; u; u = u->next) {
		if (u == upload || !is_of_round(x, u) ||
		    strcmp(u->record.metadata.client, upload->record.metadata.client) != 0)
			continue;
		if (x->gathered || u->writer || u->checking)
			return false;
		flmem_uploads_remove(x, u);
		return true; /* no client has more than one other upload */
	}
	return true;
}

static uint64_t count_lanes(const struct flmem_exchange *x)
{
	uint64_t count = 0;

	for (const struct flmem_upload *u = x->uploads; u; u = u->next)
		count += is_of_round(x, u);
	return count;
}

struct flmem_lane *flmem_lane_of(struct flmem_exchange *x, struct flmem_upload *upload)
{
	struct flmem_lane *lane = upload->lane;

	if (lane || !replace_lane(x, upload) || count_lanes(x) >= x->options->clients)
		return lane;
	lane = calloc(1, sizeof(*lane));
	if (lane)
		lane->ring = malloc(x->lockstep->window_bytes);
	if (lane && !lane->ring) {
		free(lane);
		lane = NULL;
	}
	upload->lane = lane;
	return lane;
}

void flmem_lane_free(struct flmem_lane *lane)
{
	if (!lane)
		return;
	free(lane->ring);
	free(lane);
}

/*
 * Takes all updates whose header is complete, with the path of the file that has the header, and
 * begins to combine them.
 */
static bool gather_updates(struct flmem_exchange *x)
{
	for (struct flmem_upload *u = x->uploads; u; u = u->next) {
		const struct flmem_tus_metadata *m = &u->record.metadata;
		struct flmem_update *update = &x->updates[x->update_count];

		if (!is_of_round(x, u) || !u->lane->head)
			continue;
		*update = (struct flmem_update){.weight = m->weight};
		memcpy(update->client, m->client, sizeof(update->client));
		if (asprintf(&update->path, "%s/uploads/%s.data", x->spool.path, u->id) < 0) {
			update->path = NULL;
			flmem_update_clear(x);
			return false;
		}
		x->update_count++;
		u->lane->member = true;
	}
	x->counters.updates += x->update_count;
	x->gathered = true;
	/* Renew the deadline: what is beyond their windows can only be sent now. */
	flmem_combiner_renew_deadline(x);
	flmem_exchange_wake(x);
	return true;
}

static size_t count_joined(const struct flmem_exchange *x)
{
	size_t count = 0;

	for (const struct flmem_upload *u = x->uploads; u; u = u->next)
		count += is_of_round(x, u) && u->lane->head;
	return count;
}

bool flmem_lockstep_join(struct flmem_exchange *x, struct flmem_upload *upload, uint64_t head)
{
	struct flmem_lockstep *lockstep = x->lockstep;

	if (x->gathered || x->phase != FLMEM_PHASE_COLLECTING)
		return false;
	pthread_mutex_lock(&lockstep->lock);
	upload->lane->head = upload->lane->base = head;
	pthread_mutex_unlock(&lockstep->lock);
	return count_joined(x) < x->options->clients || gather_updates(x);
}

/* Recovers the lane of an upload of an earlier server whose header is complete. */
static void recover_lane(struct flmem_exchange *x, struct flmem_upload *upload)
{
	FLMEM_AUTO_FREE char *path = NULL;
	struct flmem_error why;
	struct flmem_lane *lane;

	if (upload->combined || !upload->offset)
		return;
	if (asprintf(&path, "%s/uploads/%s.data", x->spool.path, upload->id) < 0)
		path = NULL;
	if (!path || flmem_update_check(x, path, &why)) {
		upload->offset = 0;
		return;
	}
	lane = flmem_lane_of(x, upload);
	if (lane)
		lane->head = lane->base = lane->received = upload->offset;
}

void flmem_lockstep_recover(struct flmem_exchange *x)
{
	pthread_mutex_lock(&x->lock);
	for (struct flmem_upload *u = x->uploads; u; u = u->next)
		recover_lane(x, u);
	for (struct flmem_upload *u = x->uploads; x->gathered && u; u = u->next)
		for (size_t i = 0; i < x->update_count && u->lane; i++)
			u->lane->member |= strstr(x->updates[i].path, u->id) != NULL;
	x->lockstep->positioned = !x->gathered;
	if (x->phase == FLMEM_PHASE_COLLECTING && !x->gathered &&
	    count_joined(x) == x->options->clients)
		gather_updates(x);
	pthread_mutex_unlock(&x->lock);
}

static void refuse_late(const struct flmem_exchange *x, struct flmem_http_request *request,
			const char *client)
{
	const struct flmem_upload *member = flmem_lockstep_member(x, client);

	if (member)
		flmem_exchange_refuse(request, 409, FLMEM_EXCHANGE_OVER_TITLE,
				      "round %" PRIu64 " is being combined with '%s' of '%s', "
				      "whose rest may still be sent; another file is too late",
				      x->round, member->record.metadata.filename, client);
	else
		flmem_exchange_refuse(request, 409, FLMEM_EXCHANGE_OVER_TITLE,
				      "round %" PRIu64 " is being combined without '%s'", x->round,
				      client);
}

bool flmem_lockstep_admits(struct flmem_exchange *x, struct flmem_http_request *request,
			   const struct flmem_upload_record *record)
{
	if (record->partial || record->concat || record->metadata.files > 1) {
		flmem_exchange_refuse(request, 400, NULL,
				      "in lockstep an update is one file in one upload, in its "
				      "order");
		return false;
	}
	if (record->length < SAFETENSORS_LEAST) { /* such a file never gets a complete header */
		flmem_exchange_refuse(request, 422, NULL,
				      "%" PRIu64 " bytes are too short for a safetensors file",
				      record->length);
		return false;
	}
	if (!x->gathered)
		return flmem_verified_admits(x, request, record);
	refuse_late(x, request, record->metadata.client);
	return false;
}

bool flmem_lockstep_await_position(struct flmem_exchange *x)
{
	struct flmem_lockstep *lockstep = x->lockstep;
	struct timespec end = flmem_clock_after_us(POSITION_US);
	bool known;

	pthread_mutex_lock(&lockstep->lock);
	while (!lockstep->positioned && !lockstep->ended)
		if (pthread_cond_timedwait(&lockstep->moved, &lockstep->lock, &end))
			break;
	known = lockstep->positioned || lockstep->ended;
	pthread_mutex_unlock(&lockstep->lock);
	return known;
}

bool flmem_lockstep_holds(const struct flmem_exchange *x, const struct flmem_upload *upload)
{
	return x->gathered && flmem_lane_is_member(x, upload);
}

void flmem_lockstep_end_wait(struct flmem_exchange *x, const struct flmem_upload *upload)
{
	if (!x->lockstep || !upload->lane)
		return;
	pthread_mutex_lock(&x->lockstep->lock);
	upload->lane->hurry = true;
	pthread_cond_broadcast(&x->lockstep->moved);
	pthread_mutex_unlock(&x->lockstep->lock);
}

static uint64_t lane_received(const struct flmem_exchange *x, const struct flmem_lane *lane)
{
	uint64_t received;

	pthread_mutex_lock(&x->lockstep->lock);
	received = lane->received;
	pthread_mutex_unlock(&x->lockstep->lock);
	return received;
}

uint64_t flmem_lane_offset(const struct flmem_exchange *x, const struct flmem_upload *upload)
{
	uint64_t received = lane_received(x, upload->lane);

	return received < upload->record.length ? received : upload->record.length - 1;
}

/* Lists the clients that the others wait for, or those that have joined. */
static void list_behind(struct flmem_exchange *x, struct flmem_buf *names)
{
	for (const struct flmem_upload *u = x->uploads; u; u = u->next)
		if (flmem_lane_is_member(x, u) && lane_received(x, u->lane) < u->record.length)
			flmem_buf_printf(names, "%s%s", names->length ? ", " : "",
					 u->record.metadata.client);
}

bool flmem_lockstep_check_deadline(struct flmem_exchange *x, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf names = FLMEM_BUF_INIT;
	size_t joined = count_joined(x);

	if (!x->gathered && joined >= x->quorum && gather_updates(x))
		return false;
	if (!x->gathered) {
		flmem_error_set(err, FLMEM_EFAILED, 0,
				"round %" PRIu64 " had %zu of %" PRIu64 " clients at its deadline; "
				"the same command of the server gives it that time again",
				x->round, joined, x->quorum);
		return true;
	}
	list_behind(x, &names);
	if (!names.length)
		return false;
	flmem_error_set(err, FLMEM_EFAILED, 0,
			"at the deadline round %" PRIu64 " still waited for the data of %.200s; "
			"the same command continues where they are, with that time again",
			x->round, names.data);
	return true;
}

static void remove_head(const struct flmem_exchange *x, const struct flmem_upload *upload)
{
	char name[FLMEM_EXCHANGE_ID_DIGITS + sizeof(".data")];

	snprintf(name, sizeof(name), "%s.data", upload->id);
	unlinkat(x->spool.uploads, name, 0);
}

bool flmem_lockstep_was_combined(const struct flmem_exchange *x, const struct flmem_upload *upload)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	FLMEM_AUTO_CLOSE int round = -1;

	if (!x->options->lockstep)
		return false;
	round = flmem_spool_open_round(&x->spool, upload->record.metadata.round);
	if (round < 0 || flmem_spool_read(round, "inputs", &text) || !strstr(text.data, upload->id))
		return false;
	remove_head(x, upload);
	return true;
}

void flmem_lockstep_publish(struct flmem_exchange *x)
{
	if (!x->lockstep)
		return;
	for (struct flmem_upload *u = x->uploads; u; u = u->next) {
		if (!flmem_lane_is_member(x, u))
			continue;
		u->counted = true;
		u->offset = u->record.length;
		remove_head(x, u);
	}
	pthread_mutex_lock(&x->lockstep->lock);
	for (const struct flmem_upload *u = x->uploads; u; u = u->next)
		if (u->lane && u->counted) {
			free(u->lane->ring);
			u->lane->ring = NULL;
		}
	x->lockstep->published++;
	x->lockstep->positioned = true;
	pthread_cond_broadcast(&x->lockstep->moved);
	pthread_mutex_unlock(&x->lockstep->lock);
}

void flmem_lockstep_end(struct flmem_exchange *x)
{
	if (!x->lockstep)
		return;
	pthread_mutex_lock(&x->lockstep->lock);
	x->lockstep->ended = true;
	pthread_cond_broadcast(&x->lockstep->moved);
	pthread_mutex_unlock(&x->lockstep->lock);
}

size_t flmem_lockstep_complete(const struct flmem_exchange *x)
{
	size_t count = 0;

	for (const struct flmem_upload *u = x->uploads; u; u = u->next)
		count += is_of_round(x, u) && lane_received(x, u->lane) == u->record.length;
	return count;
}

uint64_t flmem_lockstep_request_bytes(const struct flmem_exchange *x)
{
	uint64_t most = x->options->max_request_bytes;

	if (!x->lockstep)
		return 0;
	return most && most < x->lockstep->request_bytes ? most : x->lockstep->request_bytes;
}
