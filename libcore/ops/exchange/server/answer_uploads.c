/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/text.h"
#include "exchange/metadata.h"
#include "ops/exchange/server/answers.h"
#include "ops/exchange/server/concatenate.h"
#include "ops/exchange/server/lockstep.h"
#include "ops/exchange/server/upload_body.h"
#include "ops/exchange/server/uploads.h"
#include "ops/exchange/server/verified_round.h"

/* Limits of uploads: small ones cost a file each. */
#define UPLOADS_PER_CLIENT 1024U
#define UPLOADS_MAX	   20000U
_Static_assert(FLMEM_UPDATE_FILES_MAX < UPLOADS_PER_CLIENT, "an update can be complete");
/* Commits cost a record each: one per COMMIT_BYTES on average, and some more, are taken. */
#define COMMIT_BYTES  4096U
#define COMMITS_SMALL 65536U

static bool is_body_type(const struct flmem_http_request *request)
{
	const char *type = flmem_http_request_header(request, "Content-Type");

	return type && strcasecmp(type, FLMEM_TUS_BODY_TYPE) == 0;
}

/* Returns the length of the body; 0 if it is not announced. */
static uint64_t body_length(const struct flmem_http_request *request)
{
	const char *text = flmem_http_request_header(request, "Content-Length");
	uint64_t length;

	return text && flmem_tus_number_parse(text, &length) ? length : 0;
}

static bool is_body_allowed(struct flmem_exchange *x, struct flmem_http_request *request,
			    uint64_t left)
{
	uint64_t most = x->options->max_request_bytes, length = body_length(request);

	if (most && length > most) {
		flmem_exchange_refuse(request, 413, NULL,
				      "%" PRIu64 " bytes; at most %" PRIu64 " in one request",
				      length, most);
		return false;
	}
	if (length > left) {
		flmem_exchange_refuse(request, 413, NULL,
				      "%" PRIu64 " bytes; the upload lacks %" PRIu64, length, left);
		return false;
	}
	return true;
}

static void answer_options(struct flmem_exchange *x, struct flmem_http_request *request)
{
	struct flmem_http_answer answer = {.status = 204};

	flmem_http_answer_field(&answer, FLMEM_TUS_RESUMABLE, FLMEM_TUS_VERSION);
	flmem_http_answer_field(&answer, FLMEM_TUS_VERSIONS, FLMEM_TUS_VERSION);
	flmem_http_answer_field(&answer, FLMEM_TUS_MAX_SIZE, "%" PRIu64, x->quota_bytes);
	flmem_http_answer_field(&answer, FLMEM_TUS_EXTENSION,
				"creation,creation-with-upload,checksum,expiration,termination,"
				"concatenation");
	flmem_http_answer_field(&answer, FLMEM_TUS_CHECKSUM_NAMES, "sha1,sha256,crc32c");
	flmem_http_answer_field(&answer, "Allow", "%s", flmem_exchange_methods(request));
	flmem_http_request_answer(request, &answer);
}

/* Finds round and client of the new upload. Returns false if it was refused. */
static bool check_upload_owner(struct flmem_exchange *x, struct flmem_http_request *request,
			       const char *name, struct flmem_tus_metadata *metadata)
{
	if (name && *metadata->client && strcmp(metadata->client, name) != 0) {
		flmem_exchange_refuse(request, 403, NULL,
				      "this credential is not that of the client '%s'",
				      metadata->client);
		return false;
	}
	if (name)
		memcpy(metadata->client, name, strlen(name) + 1);
	if (!*metadata->client) {
		flmem_exchange_refuse(request, 400, NULL,
				      "Upload-Metadata lacks the name of the client");
		return false;
	}
	(void)x;
	return true;
}

static bool read_upload_record(struct flmem_exchange *x, struct flmem_http_request *request,
			       const char *name, struct flmem_upload_record *record)
{
	const char *header = flmem_http_request_header(request, FLMEM_TUS_METADATA);
	struct flmem_tus_metadata *m = &record->metadata;
	struct flmem_error err = {0};

	if (flmem_tus_metadata_parse(header ?: "", m, &err)) {
		flmem_exchange_refuse(request, 400, NULL, "%s", err.message);
		return false;
	}
	if (!check_upload_owner(x, request, name, m))
		return false;
	if (!record->partial && (!*m->filename || !m->has_round)) {
		flmem_exchange_refuse(request, 400, NULL, "Upload-Metadata lacks '%s'",
				      *m->filename ? "round" : "filename");
		return false;
	}
	return true;
}

/* Refuses an upload for another round. Called with x->lock held. */
static bool check_round(struct flmem_exchange *x, struct flmem_http_request *request,
			struct flmem_tus_metadata *metadata)
{
	if (!metadata->has_round)
		metadata->round = x->round;
	metadata->has_round = true;
	if (metadata->round > x->round && x->phase != FLMEM_PHASE_DONE) {
		flmem_exchange_refuse(request, 409, "round has not begun",
				      "round %" PRIu64 " has not begun; it is round %" PRIu64,
				      metadata->round, x->round);
		return false;
	}
	if (metadata->round < x->round) {
		flmem_exchange_refuse(request, 409, FLMEM_EXCHANGE_OVER_TITLE,
				      "round %" PRIu64 " is over; it is round %" PRIu64,
				      metadata->round, x->round);
		return false;
	}
	if (x->phase == FLMEM_PHASE_FAILED) {
		flmem_exchange_refuse(request, 409, FLMEM_EXCHANGE_FAILED_TITLE, "%s", x->reason);
		return false;
	}
	if (x->phase != FLMEM_PHASE_COLLECTING) {
		flmem_exchange_refuse(request, 409, FLMEM_EXCHANGE_OVER_TITLE,
				      "round %" PRIu64 " no longer receives updates",
				      metadata->round);
		return false;
	}
	return true;
}

static void refuse_complete(struct flmem_http_request *request,
			    const struct flmem_tus_metadata *metadata)
{
	flmem_exchange_refuse(request, 409, NULL, "the update of '%s' is complete already",
			      metadata->client);
}

/* All files of an update must have the same weight and number. Called with x->lock held. */
static bool check_siblings(struct flmem_exchange *x, struct flmem_http_request *request,
			   const struct flmem_tus_metadata *metadata)
{
	for (const struct flmem_upload *u = x->uploads; u; u = u->next) {
		const struct flmem_tus_metadata *m = &u->record.metadata;

		if (u->record.partial || m->round != metadata->round ||
		    strcmp(m->client, metadata->client) != 0)
			continue;
		if (m->files == metadata->files && m->weight == metadata->weight && !u->counted)
			continue;
		if (u->counted)
			refuse_complete(request, metadata);
		else
			flmem_exchange_refuse_begun(
				request, u->id,
				"an update of '%s' with another weight or number of files was "
				"begun; delete that upload first: " FLMEM_EXCHANGE_UPLOADS_PATH
				"/%s",
				metadata->client, u->id);
		return false;
	}
	return true;
}

/* Refuses an upload that exceeds a limit. Called with x->lock held. */
static bool check_limits(struct flmem_exchange *x, struct flmem_http_request *request,
			 const struct flmem_upload_record *record)
{
	const char *client = record->metadata.client;
	uint64_t announced = flmem_uploads_announced(x, client);
	uint64_t coming = flmem_uploads_announced(x, NULL), needed;
	uint64_t free_bytes = flmem_spool_free_bytes(&x->spool);
	uint64_t spooled = x->lockstep ? 0 : record->length;
	uint64_t next = flmem_exchange_verifies(x) ? 0 : x->model_bytes;

	coming = x->lockstep ? 0 : coming;
	if (announced > x->quota_bytes || record->length > x->quota_bytes - announced) {
		flmem_exchange_refuse(request, 413, NULL,
				      "'%s' would send %" PRIu64 " bytes more in this round than "
				      "its quota of %" PRIu64,
				      client, announced + record->length - x->quota_bytes,
				      x->quota_bytes);
		return false;
	}
	if (flmem_uploads_count(x, client) >= UPLOADS_PER_CLIENT ||
	    x->upload_count >= UPLOADS_MAX) {
		flmem_exchange_refuse(request, 503, NULL, "too many uploads at a time");
		return false;
	}
	if (__builtin_add_overflow(coming, spooled, &needed) ||
	    __builtin_add_overflow(needed, x->reserve_bytes, &needed) ||
	    __builtin_add_overflow(needed, next, &needed) || needed > free_bytes) {
		flmem_exchange_log(x, &(struct flmem_exchange_note){
					      .event = "upload-refused",
					      .warning = true,
					      .round = x->round,
					      .client = client,
					      .bytes = record->length,
					      .detail = "not enough free disk space",
				      });
		flmem_exchange_refuse(request, 507, NULL,
				      "the server has not enough free disk space for this upload "
				      "and the next model");
		return false;
	}
	return true;
}

static bool is_same_upload(const struct flmem_upload_record *a, const struct flmem_upload_record *b)
{
	const struct flmem_tus_metadata *m = &a->metadata, *n = &b->metadata;

	return a->length == b->length && a->concat == b->concat && m->has_sha256 == n->has_sha256 &&
	       memcmp(m->sha256, n->sha256, sizeof(m->sha256)) == 0 && m->files == n->files &&
	       m->weight == n->weight;
}

struct flmem_upload *flmem_upload_obtain(struct flmem_exchange *x,
					 struct flmem_http_request *request,
					 struct flmem_upload_record *record)
{
	struct flmem_upload *upload =
		record->partial ? NULL : flmem_uploads_find_file(x, &record->metadata);
	struct flmem_error err = {0};
	int rc;

	/* An ended round accepts it, too: a client may have lost the answer that it is complete. */
	if (upload && is_same_upload(&upload->record, record))
		return upload;
	if (!check_round(x, request, &record->metadata))
		return NULL;
	if (upload && upload->counted) {
		refuse_complete(request, &record->metadata);
		return NULL;
	}
	if (upload) {
		flmem_exchange_refuse_begun(
			request, upload->id,
			"'%s' of this update was begun with another length, weight "
			"or SHA-256; delete that upload first: " FLMEM_EXCHANGE_UPLOADS_PATH "/%s",
			record->metadata.filename, upload->id);
		return NULL;
	}
	if (x->lockstep && !flmem_lockstep_admits(x, request, record))
		return NULL;
	if ((!record->partial && !check_siblings(x, request, &record->metadata)) ||
	    !check_limits(x, request, record))
		return NULL;
	rc = flmem_uploads_create(x, record, &upload, &err);
	if (!rc)
		return upload;
	if (err.sys_errno == ECANCELED)
		flmem_exchange_refuse(request, 503, NULL, "%s", err.message);
	else
		flmem_exchange_refuse_failed_client(x, request,
						    flmem_exchange_disk_status(err.sys_errno),
						    record->metadata.client, err.message);
	return NULL;
}

/* Refuses a second request for an upload. Called with x->lock held; releases it. */
static void refuse_writer(struct flmem_exchange *x, struct flmem_http_request *request)
{
	pthread_mutex_unlock(&x->lock);
	flmem_exchange_refuse(request, 423, NULL, "another request works on this upload");
}

/* Answers with the upload. Called with x->lock held; releases it. */
static void answer_upload(struct flmem_exchange *x, struct flmem_http_request *request,
			  const struct flmem_upload *upload)
{
	struct flmem_http_answer answer = {.status = 201};

	flmem_transfer_fill(x, upload, true, &answer);
	pthread_mutex_unlock(&x->lock);
	flmem_http_request_answer(request, &answer);
}

/* Answers with an upload that exists or is in use. Called with x->lock held; releases it. */
static void answer_existing(struct flmem_exchange *x, struct flmem_http_request *request,
			    const char *id)
{
	const struct flmem_upload *upload = flmem_uploads_await_checked(x, id);

	if (upload && flmem_upload_is_unchecked(upload)) {
		refuse_writer(x, request);
	} else if (upload) {
		answer_upload(x, request, upload);
	} else {
		pthread_mutex_unlock(&x->lock);
		flmem_exchange_refuse(request, 503, NULL, "the upload was removed meanwhile");
	}
}

/* Creates the upload, and receives the body that the request may have. */
static void create_upload(struct flmem_exchange *x, struct flmem_http_request *request,
			  struct flmem_upload_record *record)
{
	struct flmem_tus_checksum checksum;
	bool has_checksum, has_body = is_body_type(request);
	struct flmem_transfer_start start = {
		.creates = true,
		.length = record->length,
		.finite = record->metadata.files == 1,
	};
	char id[FLMEM_EXCHANGE_ID_DIGITS + 1];
	struct flmem_upload *upload;

	if (!flmem_transfer_read_checksum(request, &checksum, &has_checksum) ||
	    (has_body && !is_body_allowed(x, request, record->length)))
		return;
	pthread_mutex_lock(&x->lock);
	upload = flmem_upload_obtain(x, request, record);
	if (!upload) {
		pthread_mutex_unlock(&x->lock);
		return;
	}
	memcpy(id, upload->id, sizeof(id));
	/* An empty file needs no body: it is complete. */
	if (upload->offset || upload->placed || upload->combined || (!has_body && record->length) ||
	    !flmem_uploads_seize(x, id, request)) {
		answer_existing(x, request, id);
		return;
	}
	/* An earlier request may have left bytes, and this body begins before them. */
	upload = flmem_uploads_find(x, id);
	if (upload->offset || upload->placed) {
		flmem_uploads_release(x, upload);
		answer_upload(x, request, upload);
		return;
	}
	start.id = id;
	start.checksum = has_checksum ? &checksum : NULL;
	pthread_mutex_unlock(&x->lock);
	flmem_exchange_receive(x, request, &start);
}

static void answer_create(struct flmem_exchange *x, struct flmem_http_request *request,
			  const char *name)
{
	const char *length = flmem_http_request_header(request, FLMEM_TUS_LENGTH);
	const char *header = flmem_http_request_header(request, FLMEM_TUS_CONCAT);
	struct flmem_upload_record record = {0};
	struct flmem_tus_concat concat = {0};
	struct flmem_error err = {0};

	if (header && flmem_tus_concat_parse(header, &concat, &err)) {
		flmem_exchange_refuse(request, 400, NULL, "%s", err.message);
		return;
	}
	record.partial = concat.partial;
	if (!read_upload_record(x, request, name, &record)) {
		flmem_tus_concat_clear(&concat);
		return;
	}
	if (concat.count)
		flmem_exchange_concatenate(x, request, &record, &concat);
	else if (!length || !flmem_tus_number_parse(length, &record.length) ||
		 record.length > INT64_MAX)
		flmem_exchange_refuse(request, 400, NULL,
				      "Upload-Length is missing or not a number");
	else
		create_upload(x, request, &record);
	flmem_tus_concat_clear(&concat);
}

static void refuse_unknown(struct flmem_http_request *request)
{
	flmem_exchange_refuse(request, 404, NULL,
			      "no such upload: never created, expired, or its round is over");
}

/* Locks x and finds an upload. NULL, refused and unlocked, if the client has no such upload. */
static struct flmem_upload *lock_upload(struct flmem_exchange *x,
					struct flmem_http_request *request, const char *rest,
					const char *name)
{
	char id[FLMEM_EXCHANGE_ID_DIGITS + 1];
	struct flmem_upload *upload = NULL;

	pthread_mutex_lock(&x->lock);
	if (flmem_tus_id_parse(rest, id))
		upload = flmem_uploads_find(x, id);
	if (upload && (!name || strcmp(upload->record.metadata.client, name) == 0))
		return upload;
	pthread_mutex_unlock(&x->lock);
	refuse_unknown(request);
	return NULL;
}

static void answer_offset(struct flmem_exchange *x, struct flmem_http_request *request,
			  const char *rest, const char *name)
{
	struct flmem_http_answer answer = {.status = 200};
	const struct flmem_upload *upload = lock_upload(x, request, rest, name);

	if (!upload)
		return;
	/* Wait: a client takes the full length for success, but the upload may still be refused. */
	upload = flmem_uploads_await_checked(x, rest);
	if (!upload) {
		pthread_mutex_unlock(&x->lock);
		refuse_unknown(request);
		return;
	}
	if (flmem_upload_is_unchecked(upload)) {
		refuse_writer(x, request);
		return;
	}
	flmem_transfer_fill(x, upload, false, &answer);
	flmem_http_answer_field(&answer, FLMEM_TUS_LENGTH, "%" PRIu64, upload->record.length);
	if (upload->record.partial)
		flmem_http_answer_field(&answer, FLMEM_TUS_CONCAT, "partial");
	pthread_mutex_unlock(&x->lock);
	flmem_http_request_answer(request, &answer);
}

/* Receives a body for the upload. Called with x->lock held; releases it. */
static void begin_patch(struct flmem_exchange *x, struct flmem_http_request *request,
			struct flmem_upload *upload, const struct flmem_tus_checksum *checksum)
{
	struct flmem_transfer_start start = {
		.offset = upload->offset,
		.flushed = upload->flushed,
		.length = upload->record.length,
		.finite = upload->record.metadata.files == 1 && upload->finite == upload->offset,
		.checksum = checksum,
	};
	char id[FLMEM_EXCHANGE_ID_DIGITS + 1];
	bool many = upload->commits > upload->record.length / COMMIT_BYTES + COMMITS_SMALL;
	bool allowed = !many && is_body_allowed(x, request, start.length - start.offset);

	if (many)
		flmem_exchange_refuse(request, 429, NULL,
				      "too many small parts; send at least 4 KiB at once");
	if (!allowed)
		flmem_uploads_release(x, upload);
	memcpy(id, upload->id, sizeof(id));
	pthread_mutex_unlock(&x->lock);
	start.id = id;
	if (allowed)
		flmem_exchange_receive(x, request, &start);
}

static void answer_patch(struct flmem_exchange *x, struct flmem_http_request *request,
			 const char *rest, const char *name)
{
	const char *text = flmem_http_request_header(request, FLMEM_TUS_OFFSET);
	struct flmem_tus_checksum checksum;
	struct flmem_upload *upload;
	bool has_checksum;
	uint64_t offset;

	if (!is_body_type(request)) {
		flmem_exchange_refuse(request, 415, NULL, "Content-Type is " FLMEM_TUS_BODY_TYPE);
		return;
	}
	if (!text || !flmem_tus_number_parse(text, &offset)) {
		flmem_exchange_refuse(request, 400, NULL,
				      "Upload-Offset is missing or not a number");
		return;
	}
	if (!flmem_transfer_read_checksum(request, &checksum, &has_checksum))
		return;
	upload = lock_upload(x, request, rest, name);
	if (!upload)
		return;
	if (upload->record.concat) {
		pthread_mutex_unlock(&x->lock);
		flmem_exchange_refuse(request, 403, NULL, "this upload is made of its parts");
		return;
	}
	if (!check_round(x, request, &upload->record.metadata)) {
		pthread_mutex_unlock(&x->lock);
		return;
	}
	if (!flmem_uploads_seize(x, rest, request)) {
		refuse_writer(x, request);
		return;
	}
	upload = flmem_uploads_find(x, rest);
	if (upload->offset == offset && !upload->placed) {
		begin_patch(x, request, upload, has_checksum ? &checksum : NULL);
		return;
	}
	offset = upload->offset;
	flmem_uploads_release(x, upload);
	pthread_mutex_unlock(&x->lock);
	flmem_exchange_refuse(request, 409, NULL, "the offset of this upload is %" PRIu64, offset);
}

/* Returns true if it refused to delete an upload that counts, and then has released x->lock. */
static bool refuse_counted(struct flmem_exchange *x, struct flmem_http_request *request,
			   const struct flmem_upload *upload)
{
	if (!upload->counted && !flmem_lockstep_holds(x, upload))
		return false;
	pthread_mutex_unlock(&x->lock);
	flmem_exchange_refuse(request, 409, NULL,
			      "the update is complete, or is being combined, and counts for its "
			      "round");
	return true;
}

static void answer_delete(struct flmem_exchange *x, struct flmem_http_request *request,
			  const char *rest, const char *name)
{
	struct flmem_http_answer answer = {.status = 204};
	struct flmem_upload *upload = lock_upload(x, request, rest, name);
	struct flmem_error err = {0};
	int rc;

	if (!upload || refuse_counted(x, request, upload))
		return;
	if (!flmem_uploads_seize(x, rest, request)) {
		refuse_writer(x, request);
		return;
	}
	upload = flmem_uploads_find(x, rest);
	flmem_uploads_release(x, upload);
	/* The request that this one waited for may have made the upload count for its round. */
	if (refuse_counted(x, request, upload))
		return;
	rc = flmem_uploads_delete(x, upload);
	pthread_mutex_unlock(&x->lock);
	if (rc) {
		flmem_error_set(&err, FLMEM_EFAILED, -rc, "cannot delete it");
		flmem_exchange_refuse_failed(x, request, 500, rest, err.message);
		return;
	}
	flmem_http_answer_field(&answer, FLMEM_TUS_RESUMABLE, FLMEM_TUS_VERSION);
	flmem_http_request_answer(request, &answer);
}

/* Clients that can only POST send the method in a header, as tus defines. */
static const char *tus_method(const struct flmem_http_request *request)
{
	const char *method = flmem_http_request_method(request);
	const char *other = flmem_http_request_header(request, "X-HTTP-Method-Override");

	return other && strcmp(method, "POST") == 0 ? other : method;
}

void flmem_exchange_uploads(struct flmem_exchange *x, struct flmem_http_request *request,
			    const char *rest, const char *name)
{
	const char *version = flmem_http_request_header(request, FLMEM_TUS_RESUMABLE);
	const char *method = tus_method(request);

	if (strcmp(method, "OPTIONS") == 0)
		answer_options(x, request);
	else if (!version || strcmp(version, FLMEM_TUS_VERSION) != 0)
		flmem_exchange_refuse(request, 412, NULL,
				      FLMEM_TUS_RESUMABLE ": " FLMEM_TUS_VERSION " is required");
	else if (x->lockstep && !flmem_lockstep_await_position(x))
		flmem_exchange_refuse(request, 503, FLMEM_EXCHANGE_AHEAD_TITLE,
				      "the server still reads what it has combined before");
	else if (!*rest && strcmp(method, "POST") == 0)
		answer_create(x, request, name);
	else if (*rest && strcmp(method, "HEAD") == 0)
		answer_offset(x, request, rest, name);
	else if (*rest && strcmp(method, "PATCH") == 0)
		answer_patch(x, request, rest, name);
	else if (*rest && strcmp(method, "DELETE") == 0)
		answer_delete(x, request, rest, name);
	else
		flmem_exchange_refuse(request, 405, NULL,
				      *rest ? "use HEAD, PATCH or DELETE" : "use POST or OPTIONS");
}
