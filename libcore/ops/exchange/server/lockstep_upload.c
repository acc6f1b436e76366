/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/server/lockstep_upload.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes/crc32c.h"
#include "base/bytes/little_endian.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/files/io.h"
#include "ops/exchange/server/lockstep.h"
#include "ops/exchange/server/update.h"
#include "ops/exchange/server/upload_body.h"
#include "ops/exchange/server/uploads.h"

#define LENGTH_BYTES 8U			 /* length in front of a safetensors header */
#define HEAD_MORE    (UINT64_C(1) << 20) /* text that a header may have beyond that of the model */
/* Longest waits, below the timeouts of clients and proxies. */
#define ROOM_US	   20000000U
#define PUBLISH_US 45000000U

struct flmem_lockstep_upload {
	struct flmem_exchange *x;
	struct flmem_http_request *request;
	struct flmem_lane *lane;
	char id[FLMEM_EXCHANGE_ID_DIGITS + 1];
	int fd; /* file of the header */
	/* Head: length of the header, 0 until it is known. */
	uint64_t begin, at, length, head, arrived;
	uint64_t published; /* number of published rounds when the request began */
	bool creates, has_checksum, ended;
	struct flmem_tus_checksum checksum;
	struct flmem_digest digest;
	unsigned failure; /* HTTP status of a refusal; the rest of the body is then ignored */
	const char *title;
	struct flmem_error error;
};

static void fail_lane(struct flmem_lockstep_upload *transfer, unsigned status, const char *title,
		      const char *why)
{
	if (transfer->failure)
		return;
	transfer->failure = status;
	transfer->title = title;
	flmem_error_set(&transfer->error, FLMEM_EFAILED, 0, "%s", why);
}

static void fail_lane_file(struct flmem_lockstep_upload *transfer, int error)
{
	char why[160];

	snprintf(why, sizeof(why), "the server cannot write the upload: %s; try again later",
		 strerror(error));
	fail_lane(transfer, flmem_exchange_disk_status(error), NULL, why);
}

/* Updates the lane, and wakes threads that wait for bytes or room. */
static void set_received(struct flmem_lockstep_upload *transfer)
{
	struct flmem_lockstep *lockstep = transfer->x->lockstep;

	pthread_mutex_lock(&lockstep->lock);
	if (transfer->at > transfer->lane->received)
		transfer->lane->received = transfer->at;
	pthread_cond_broadcast(&lockstep->moved);
	pthread_mutex_unlock(&lockstep->lock);
}

/* Commits the whole header, so that a restarted server knows the upload. */
static int keep_head(struct flmem_lockstep_upload *transfer)
{
	struct flmem_upload_commit commit = {.end = transfer->head};
	FLMEM_AUTO_FREE char *text = malloc(transfer->head);

	if (!text || !flmem_io_read_at(transfer->fd, 0, text, transfer->head))
		return text ? -EIO : -ENOMEM;
	commit.crc32c = flmem_crc32c(0, text, transfer->head);
	/* Set the size to that of the whole file, although its data are read from the ring. */
	if (ftruncate(transfer->fd, (off_t)transfer->length) < 0 || fdatasync(transfer->fd) < 0)
		return -errno;
	return flmem_uploads_journal(transfer->x, transfer->id, &commit, true);
}

/* Called when the header is complete: compares it with that of the model, and joins the round. */
static void settle_head(struct flmem_lockstep_upload *transfer)
{
	struct flmem_exchange *x = transfer->x;
	FLMEM_AUTO_FREE char *path = NULL;
	struct flmem_upload *upload;
	bool joined;
	int rc;

	if (ftruncate(transfer->fd, (off_t)transfer->length) < 0) {
		fail_lane_file(transfer, errno);
		return;
	}
	if (asprintf(&path, "%s/uploads/%s.data", x->spool.path, transfer->id) < 0) {
		path = NULL;
		fail_lane(transfer, 500, NULL, "no memory");
		return;
	}
	rc = flmem_update_check(x, path, &transfer->error);
	if (rc) {
		transfer->failure = flmem_update_can_pass(&transfer->error) ? 503 : 422;
		return;
	}
	rc = keep_head(transfer);
	if (rc) {
		fail_lane_file(transfer, -rc);
		return;
	}
	pthread_mutex_lock(&x->lock);
	upload = flmem_uploads_find(x, transfer->id);
	joined = upload && flmem_lockstep_join(x, upload, transfer->head);
	pthread_mutex_unlock(&x->lock);
	if (!joined)
		fail_lane(transfer, 409, FLMEM_EXCHANGE_OVER_TITLE,
			  "the round is being combined without this update");
}

/* Called when the checksum of the arrived bytes was verified. */
static void settle_bytes(struct flmem_lockstep_upload *transfer)
{
	if (!transfer->failure && !transfer->lane->head && transfer->head &&
	    transfer->at >= transfer->head)
		settle_head(transfer);
	if (!transfer->failure)
		set_received(transfer);
}

static void read_head_length(struct flmem_lockstep_upload *transfer)
{
	unsigned char bytes[LENGTH_BYTES];
	uint64_t most = transfer->x->layout.header.length + HEAD_MORE, length;

	if (!flmem_io_read_at(transfer->fd, 0, bytes, sizeof(bytes))) {
		fail_lane_file(transfer, EIO);
		return;
	}
	length = flmem_read_little(bytes, LENGTH_BYTES);
	if (length > most || length > transfer->length - LENGTH_BYTES)
		fail_lane(transfer, 422, NULL,
			  "in lockstep an update is a safetensors file; this one has no header "
			  "that fits the model");
	else
		transfer->head = LENGTH_BYTES + length;
}

/* Writes bytes of the header, up to `end`, to the file. Returns the number of bytes taken. */
static size_t write_head(struct flmem_lockstep_upload *transfer, const char *bytes, size_t length,
			 uint64_t end)
{
	size_t some = end - transfer->at < length ? (size_t)(end - transfer->at) : length;
	ssize_t put = pwrite(transfer->fd, bytes, some, (off_t)transfer->at);

	if (put < 0 && errno == EINTR)
		return 0;
	if (put <= 0) {
		fail_lane_file(transfer, put < 0 ? errno : EIO);
		return length;
	}
	transfer->at += (uint64_t)put;
	if (transfer->at == LENGTH_BYTES)
		read_head_length(transfer);
	return (size_t)put;
}

/*
 * Waits for a change. Returns false if the request cannot go on, or has waited too long. Called
 * with lockstep->lock held.
 */
static bool wait_moved(struct flmem_lockstep_upload *transfer, const struct timespec *end)
{
	struct flmem_lockstep *lockstep = transfer->x->lockstep;

	if (lockstep->ended || transfer->lane->hurry)
		return false;
	return pthread_cond_timedwait(&lockstep->moved, &lockstep->lock, end) == 0;
}

/* Returns the free room of the ring. Called with lockstep->lock held. */
static uint64_t lane_room(const struct flmem_lockstep_upload *transfer)
{
	const struct flmem_lane *lane = transfer->lane;
	uint64_t base = lane->head ? lane->base : transfer->head;

	return base + transfer->x->lockstep->window_bytes - transfer->at;
}

/*
 * Waits, for some seconds at most, until the ring has room for `wanted` bytes more. Returns the
 * room.
 */
static uint64_t await_room(struct flmem_lockstep_upload *transfer, uint64_t wanted)
{
	struct flmem_lockstep *lockstep = transfer->x->lockstep;
	struct timespec end = flmem_clock_after_us(ROOM_US);
	bool waits = false;
	uint64_t room;

	pthread_mutex_lock(&lockstep->lock);
	while ((room = lane_room(transfer)) < wanted) {
		if (!waits)
			flmem_http_request_wait(transfer->request, true);
		waits = true;
		if (!wait_moved(transfer, &end))
			break;
	}
	pthread_mutex_unlock(&lockstep->lock);
	if (waits)
		flmem_http_request_wait(transfer->request, false);
	return room;
}

static size_t put_ring(struct flmem_lockstep_upload *transfer, const char *bytes, size_t length)
{
	uint64_t window = transfer->x->lockstep->window_bytes, at = transfer->at % window;
	uint64_t room = await_room(transfer, 1), some = window - at;

	if (!room) {
		fail_lane(transfer, 503, FLMEM_EXCHANGE_AHEAD_TITLE,
			  "the window of this client is full until others have sent more");
		return length;
	}
	some = some < room ? some : room;
	some = some < length ? some : length;
	memcpy(transfer->lane->ring + at, bytes, some);
	transfer->at += some;
	return (size_t)some;
}

/* Takes some bytes of the body; returns their number. */
static size_t take_body_bytes(struct flmem_lockstep_upload *transfer, const char *bytes,
			      size_t length)
{
	uint64_t received = transfer->lane->received; /* no lock: only this thread changes it */
	size_t some;

	if (transfer->at < received && transfer->lane->head) {
		some = received - transfer->at < length ? (size_t)(received - transfer->at)
							: length;
		transfer->at += some;
	} else if (transfer->at < LENGTH_BYTES) {
		some = write_head(transfer, bytes, length, LENGTH_BYTES);
	} else if (transfer->at < transfer->head) {
		some = write_head(transfer, bytes, length, transfer->head);
	} else {
		some = put_ring(transfer, bytes, length);
	}
	if (!transfer->has_checksum)
		settle_bytes(transfer);
	return some;
}

void flmem_lockstep_upload_add(struct flmem_lockstep_upload *transfer, const char *bytes,
			       size_t length)
{
	uint64_t most = transfer->x->options->max_request_bytes ?: UINT64_MAX;

	if (transfer->has_checksum && transfer->x->lockstep->request_bytes < most)
		most = transfer->x->lockstep->request_bytes;
	transfer->arrived += length;
	if (transfer->arrived > transfer->length - transfer->begin || transfer->arrived > most)
		fail_lane(transfer, 413, NULL,
			  "the body exceeds the length of the upload, or the largest request");
	flmem_digest_add(&transfer->digest, bytes, length);
	while (length && !transfer->failure) {
		size_t some = take_body_bytes(transfer, bytes, length);

		bytes += some;
		length -= some;
	}
}

static bool open_lockstep_upload(struct flmem_lockstep_upload *transfer,
				 const struct flmem_transfer_start *start)
{
	transfer->fd = flmem_uploads_open(transfer->x, transfer->id);
	if (transfer->fd < 0)
		return flmem_error_set(&transfer->error, FLMEM_EFAILED, -transfer->fd,
				       "cannot open the upload") == 0;
	if (start->checksum) {
		transfer->has_checksum = true;
		transfer->checksum = *start->checksum;
		if (flmem_digest_begin(&transfer->digest, start->checksum->kind, &transfer->error))
			return false;
	}
	transfer->head = transfer->lane->head;
	if (!transfer->head && start->offset >= LENGTH_BYTES)
		read_head_length(transfer);
	return true;
}

/* Returns the lane of the upload, and makes this request its writer. */
static struct flmem_lane *seize_lane(struct flmem_exchange *x, const char *id, uint64_t *ret_rounds,
				     bool *ret_late)
{
	struct flmem_upload *upload;
	struct flmem_lane *lane;

	pthread_mutex_lock(&x->lock);
	upload = flmem_uploads_find(x, id);
	lane = upload ? flmem_lane_of(x, upload) : NULL;
	*ret_late = x->gathered && (!lane || !lane->member);
	pthread_mutex_lock(&x->lockstep->lock);
	if (lane)
		lane->hurry = false;
	*ret_rounds = x->lockstep->published;
	pthread_mutex_unlock(&x->lockstep->lock);
	pthread_mutex_unlock(&x->lock);
	return lane;
}

static void refuse_lane(struct flmem_exchange *x, struct flmem_http_request *request,
			const char *id, bool late)
{
	flmem_uploads_unseize(x, id, request);
	if (late)
		flmem_exchange_refuse(request, 409, FLMEM_EXCHANGE_OVER_TITLE,
				      "the round is being combined without this update");
	else
		flmem_exchange_refuse(request, 503, NULL,
				      "the round has as many updates as clients, or one of this "
				      "client");
}

/* Checks the room for a body with a checksum, which is taken whole or not at all. */
static bool has_room_for_body(struct flmem_lockstep_upload *transfer,
			      struct flmem_http_request *request)
{
	const char *text = flmem_http_request_header(request, "Content-Length");
	uint64_t bytes = 0;

	if (!transfer->has_checksum || !transfer->lane->head || !text ||
	    !flmem_tus_number_parse(text, &bytes) || bytes > transfer->x->lockstep->request_bytes ||
	    transfer->at + bytes <= transfer->lane->received)
		return true; /* a larger body is refused elsewhere */
	if (await_room(transfer, bytes) >= bytes)
		return true;
	flmem_uploads_unseize(transfer->x, transfer->id, request);
	flmem_exchange_refuse(request, 503, FLMEM_EXCHANGE_AHEAD_TITLE,
			      "the window of this client is full until others have sent more");
	return false;
}

void flmem_lockstep_upload_begin(struct flmem_exchange *x, struct flmem_http_request *request,
				 const struct flmem_transfer_start *start)
{
	uint64_t published;
	bool late;
	struct flmem_lane *lane = seize_lane(x, start->id, &published, &late);
	struct flmem_lockstep_upload *transfer;

	if (!lane || late) {
		refuse_lane(x, request, start->id, late);
		return;
	}
	transfer = calloc(1, sizeof(*transfer));
	if (!transfer) {
		refuse_lane(x, request, start->id, false);
		return;
	}
	*transfer = (struct flmem_lockstep_upload){
		.x = x,
		.request = request,
		.lane = lane,
		.fd = -1,
		.begin = start->offset,
		.at = start->offset,
		.length = start->length,
		.published = published,
		.creates = start->creates,
		.digest = {.kind = FLMEM_DIGEST_NONE},
	};
	memcpy(transfer->id, start->id, sizeof(transfer->id));
	if (open_lockstep_upload(transfer, start)) {
		if (has_room_for_body(transfer, request)) {
			flmem_http_request_set(request, transfer);
			return;
		}
	} else {
		flmem_uploads_unseize(x, start->id, request);
		if (flmem_upload_is_gone(x, start->id))
			flmem_exchange_refuse_gone(request);
		else
			flmem_exchange_refuse_failed(x, request, 500, start->id,
						     transfer->error.message);
	}
	transfer->ended = true;
	flmem_lockstep_upload_free(transfer);
}

/*
 * Answers that the round ended. The same command of the server continues it, unless the exchange
 * has failed.
 */
static void fail_ended_lane(struct flmem_lockstep_upload *transfer)
{
	struct flmem_exchange *x = transfer->x;

	pthread_mutex_lock(&x->lock);
	if (x->phase == FLMEM_PHASE_FAILED)
		fail_lane(transfer, 409, FLMEM_EXCHANGE_FAILED_TITLE, x->reason);
	else
		fail_lane(transfer, 503, NULL,
			  "the server is stopping; after a restart it continues the round");
	pthread_mutex_unlock(&x->lock);
}

/* Waits for the result to be published, since the last byte is confirmed only then. */
static void await_published(struct flmem_lockstep_upload *transfer)
{
	struct flmem_lockstep *lockstep = transfer->x->lockstep;
	struct timespec end = flmem_clock_after_us(PUBLISH_US);
	bool ended, published;

	pthread_mutex_lock(&lockstep->lock);
	while (lockstep->published == transfer->published && wait_moved(transfer, &end))
		;
	ended = lockstep->ended;
	published = lockstep->published != transfer->published;
	pthread_mutex_unlock(&lockstep->lock);
	if (!published && ended)
		fail_ended_lane(transfer);
	else if (!published)
		fail_lane(transfer, 503, FLMEM_EXCHANGE_AHEAD_TITLE,
			  "the upload is complete; the round waits for other clients");
}

static void note_refused(struct flmem_lockstep_upload *transfer,
			 const struct flmem_http_request *request)
{
	struct flmem_exchange *x = transfer->x;
	struct flmem_upload *upload;

	pthread_mutex_lock(&x->lock);
	upload = flmem_uploads_find(x, transfer->id);
	x->counters.refused_updates++;
	if (upload && upload->writer == request) {
		flmem_exchange_log(x, &(struct flmem_exchange_note){
					      .event = "update-refused",
					      .warning = true,
					      .round = upload->record.metadata.round,
					      .client = upload->record.metadata.client,
					      .detail = transfer->error.message,
				      });
		flmem_uploads_release(x, upload);
		flmem_uploads_remove(x, upload); /* removes its lane, too */
	}
	pthread_mutex_unlock(&x->lock);
	transfer->lane = NULL;
}

/* Publishes the new offset, and lets the next request work on the upload. */
static void release_lockstep_upload(struct flmem_lockstep_upload *transfer,
				    const struct flmem_http_request *request,
				    struct flmem_http_answer *answer)
{
	struct flmem_exchange *x = transfer->x;
	struct flmem_upload *upload;

	pthread_mutex_lock(&x->lock);
	upload = flmem_uploads_find(x, transfer->id);
	if (upload && upload->lane && !upload->counted)
		upload->offset = flmem_lane_offset(x, upload);
	if (upload)
		upload->touched_us = flmem_clock_us();
	x->counters.received_bytes += transfer->failure ? 0 : transfer->arrived;
	if (upload && answer)
		flmem_transfer_fill(x, upload, transfer->creates, answer);
	pthread_mutex_unlock(&x->lock);
	flmem_uploads_unseize(x, transfer->id, request);
	transfer->lane = NULL;
}

static bool is_right_body(struct flmem_lockstep_upload *transfer)
{
	unsigned char value[FLMEM_DIGEST_MAX];

	if (!transfer->has_checksum)
		return true;
	flmem_digest_end(&transfer->digest, value);
	return memcmp(value, transfer->checksum.value,
		      flmem_digest_bytes(transfer->checksum.kind)) == 0;
}

/*
 * Returns true for a failure of the server; 503 is none if the request waits for others or the
 * server ends.
 */
static bool is_server_failure(const struct flmem_lockstep_upload *transfer)
{
	return transfer->failure == 500 || transfer->failure == 507 ||
	       (transfer->failure == 503 && transfer->error.sys_errno);
}

void flmem_lockstep_upload_end(struct flmem_lockstep_upload *transfer,
			       struct flmem_http_request *request)
{
	struct flmem_http_answer answer = {.status = transfer->creates ? 201 : 204};
	struct flmem_exchange *x = transfer->x;

	transfer->ended = true;
	if (!transfer->failure && !is_right_body(transfer)) {
		fail_lane(transfer, FLMEM_STATUS_CHECKSUM, NULL,
			  "the body does not have the checksum of Upload-Checksum; nothing of it "
			  "was kept");
		pthread_mutex_lock(&x->lock);
		x->counters.checksum_errors++;
		pthread_mutex_unlock(&x->lock);
	}
	settle_bytes(transfer);
	if (!transfer->failure && transfer->at == transfer->length)
		await_published(transfer);
	if (transfer->failure == 422)
		note_refused(transfer, request);
	else
		release_lockstep_upload(transfer, request, transfer->failure ? NULL : &answer);
	if (is_server_failure(transfer))
		flmem_exchange_refuse_failed(x, request, transfer->failure, transfer->id,
					     transfer->error.message);
	else if (transfer->failure)
		flmem_exchange_refuse(request, transfer->failure, transfer->title, "%s",
				      transfer->error.message);
	else
		flmem_http_request_answer(request, &answer);
}

void flmem_lockstep_upload_free(struct flmem_lockstep_upload *transfer)
{
	if (!transfer)
		return;
	/*
	 * The body was cut off. Without a checksum to verify, the bytes that arrived count like a
	 * whole body.
	 */
	if (!transfer->ended)
		release_lockstep_upload(transfer, NULL, NULL);
	flmem_digest_end(&transfer->digest, NULL);
	flmem_cleanup_close(&transfer->fd);
	free(transfer);
}
