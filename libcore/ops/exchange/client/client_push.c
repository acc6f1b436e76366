/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <flmem/exchange_client.h>
#include <flmem/parse.h>
#include <flmem/text.h>

#include "base/bytes/crc32c.h"
#include "base/clock.h"
#include "base/text/buf.h"
#include "exchange/base64.h"
#include "exchange/metadata.h"
#include "exchange/valid_names.h"
#include "exchange/wire.h"
#include "ops/exchange/client/client.h"
#include "ops/exchange/client/client_files.h"
#include "ops/exchange/client/client_json.h"
#include "ops/exchange/client/client_reader.h"
#include "ops/exchange/client/client_upload.h"

/* The largest chunk that a server may propose without the user's consent. */
#define PROPOSED_MAX   (UINT64_C(16) << 20)
#define CHUNK_MAX      (UINT64_C(256) << 20)
#define CHUNK_SMALLEST (UINT64_C(16) << 10) /* if this size is refused, the push fails */
#define RECREATED_MAX  3U
#define ID_MAX	       128U
/*
 * The server checks an update before it answers the request that completes it; this is its time for
 * that.
 */
#define CHECK_SECONDS	       60U
#define CHECK_BYTES_PER_SECOND (UINT64_C(100) << 20)

#define ID_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

struct push_session {
	struct flmem_exchange_client *client;
	const struct flmem_exchange_push_request *request;
	/* Announce digests: they were requested, or nothing else identifies an update. */
	bool sha256;
	struct flmem_exchange_push_result *result;
	struct flmem_push_files files;
	struct flmem_connection_answer answer;
	struct flmem_push_reader reader;
	uint64_t chunk_bytes;
	uint64_t finished; /* bytes of files that are already complete */
};

static void clear_push_session(struct push_session *push)
{
	flmem_push_reader_clear(&push->reader);
	flmem_push_files_clear(&push->files);
	flmem_connection_answer_clear(&push->answer);
}

/* The upload of one file. */
struct file_upload {
	const struct flmem_push_file *file;
	char *url;
	uint64_t offset;
	uint64_t highest; /* highest offset that the server has confirmed */
	uint64_t ours;	  /* up to this offset the server certainly has the bytes of this file */
	uint32_t crc32c;  /* CRC-32C of these bytes */
	unsigned wait_seconds;
	bool known; /* `offset` is the server's offset */
	bool gone;  /* the server has forgotten the upload */
};

static void clear_file_upload(struct file_upload *upload)
{
	free(upload->url);
}

static void add_metadata(struct flmem_buf *line, const char *key, const char *value)
{
	char encoded[FLMEM_BASE64_ROOM(FLMEM_SHA256_HEX)];

	flmem_base64_print(value, strlen(value), encoded);
	flmem_buf_printf(line, "%s%s %s", line->data[line->length - 1] == ' ' ? "" : ",", key,
			 encoded);
}

static void make_metadata(const struct push_session *push, const struct flmem_push_file *file,
			  struct flmem_buf *line)
{
	char number[24];

	flmem_buf_puts(line, FLMEM_TUS_METADATA ": ");
	snprintf(number, sizeof(number), "%llu", (unsigned long long)push->result->round);
	add_metadata(line, "round", number);
	if (push->request->client)
		add_metadata(line, "client", push->request->client);
	add_metadata(line, "filename", file->name);
	if (push->request->weight)
		add_metadata(line, "weight", push->request->weight);
	snprintf(number, sizeof(number), "%zu", push->files.count);
	add_metadata(line, "files", number);
	if (push->sha256)
		add_metadata(line, "sha256", file->sha256);
}

/*
 * Takes only the identifier of the upload: an address could lead elsewhere, and proxies add
 * prefixes.
 */
static int take_location(const struct push_session *push, struct file_upload *upload,
			 struct flmem_error *err)
{
	const char *location = push->answer.reply.location, *slash = strrchr(location, '/');
	const char *id = slash ? slash + 1 : "";
	size_t length = strlen(id);

	if (!length || length > ID_MAX || id[strspn(id, ID_CHARACTERS)])
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "'%s' does not report where to send '%s'",
				       push->client->name, upload->file->name);
	free(upload->url);
	upload->url = NULL;
	if (asprintf(&upload->url, "%s" FLMEM_EXCHANGE_UPLOADS_PATH "/%s", push->client->base, id) <
	    0) {
		upload->url = NULL;
		return flmem_error_nomem(err, "cannot send '%s'", upload->file->name);
	}
	return 0;
}

static bool is_gone(const struct flmem_reply *reply)
{
	return reply->status == 404 || reply->status == 410;
}

/*
 * Returns true if an unfinished upload may be deleted: only one from before this call, because two
 * clients of one name must not delete each other's uploads in turns.
 */
static bool may_replace(const struct push_session *push, const struct file_upload *upload)
{
	return push->request->replace && !upload->highest;
}

static int delete_upload(struct push_session *push, struct file_upload *upload,
			 struct flmem_error *err)
{
	int rc = flmem_push_delete(push->client, upload->url, &push->answer, err);

	upload->gone = !rc;
	return rc;
}

/* Handles a refusal that may name an unfinished upload. Sets `gone` if that was deleted. */
static int handle_begun(struct push_session *push, struct file_upload *upload,
			struct flmem_error *err)
{
	int rc = flmem_exchange_client_refused(push->client, "the update is not accepted",
					       &push->answer, err);

	if (push->answer.reply.status != 409 || !push->answer.reply.location[0] ||
	    !may_replace(push, upload))
		return rc;
	rc = take_location(push, upload, err);
	return rc ? rc : delete_upload(push, upload, err);
}

/* Creates the upload. If an earlier push has begun it, the server returns that one. */
static int create_file_upload(struct push_session *push, struct file_upload *upload,
			      struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf metadata = FLMEM_BUF_INIT;
	FLMEM_AUTO_FREE char *url = NULL;
	char length[64];
	int rc;

	make_metadata(push, upload->file, &metadata);
	snprintf(length, sizeof(length), FLMEM_TUS_LENGTH ": %llu",
		 (unsigned long long)upload->file->bytes);
	if (metadata.failed ||
	    asprintf(&url, "%s" FLMEM_EXCHANGE_UPLOADS_PATH, push->client->base) < 0) {
		url = NULL;
		return flmem_error_nomem(err, "cannot send '%s'", upload->file->name);
	}
	const char *const headers[] = {FLMEM_TUS_RESUMABLE ": " FLMEM_TUS_VERSION, length,
				       metadata.data, NULL};
	const struct flmem_connection_request request = {
		.method = "POST",
		.url = url,
		.name = push->client->name,
		.headers = headers,
		.answer_max = FLMEM_EXCHANGE_ANSWER_MAX,
	};

	upload->gone = upload->known = false;
	upload->ours = upload->crc32c = 0;
	rc = flmem_exchange_client_ask(push->client, &request, &push->answer, err);
	if (rc)
		return rc;
	return push->answer.reply.status == 201 ? take_location(push, upload, err)
						: handle_begun(push, upload, err);
}

static void note_offset(struct push_session *push, struct file_upload *upload, uint64_t offset)
{
	upload->offset = offset;
	upload->known = true;
	push->client->progress.done_bytes = push->finished + offset;
	if (offset > upload->highest) {
		upload->highest = offset;
		flmem_exchange_client_progressed(push->client);
	}
}

/* Handles an upload that holds bytes of another file with this name and length. */
static int handle_other(struct push_session *push, struct file_upload *upload, uint64_t offset,
			struct flmem_error *err)
{
	const struct flmem_push_file *file = upload->file;

	if (offset == file->bytes && push->files.count == 1)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' has all %llu bytes of another '%s' of this client and "
				       "round: that update is complete, and counts",
				       push->client->name, (unsigned long long)offset, file->name);
	if (may_replace(push, upload))
		return delete_upload(push, upload, err);
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "'%s' has %llu bytes of another '%s' of this client and round; "
			       "add --replace to send this one in its place (%s)",
			       push->client->name, (unsigned long long)offset, file->name,
			       upload->url);
}

/*
 * Compares what the server has, which may be of another file with this name and length. Afterwards
 * only requests for the next offset are sent, so bytes of two files are never mixed.
 */
static int compare_sent(struct push_session *push, struct file_upload *upload, uint64_t offset,
			struct flmem_error *err)
{
	const struct flmem_push_file *file = upload->file;
	const char *text = push->answer.reply.upload_checksum;
	uint64_t span[2] = {offset < upload->ours ? 0 : upload->ours, offset};
	uint32_t crc = span[0] ? upload->crc32c : 0;
	struct flmem_tus_checksum theirs;
	unsigned char value[4];
	int rc;

	if (push->sha256 || !offset)
		return 0;
	if (!*text || flmem_tus_checksum_parse(text, &theirs, NULL) ||
	    theirs.kind != FLMEM_DIGEST_CRC32C)
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "'%s' does not report the checksum of what it has of '%s'; "
				       "add --sha256",
				       push->client->name, file->name);
	rc = flmem_push_reader_sum(&push->reader, push->client, file, span, &crc, err);
	if (rc)
		return rc;
	flmem_push_print_crc32c(crc, value);
	if (memcmp(value, theirs.value, sizeof(value)) != 0)
		return handle_other(push, upload, offset, err);
	upload->ours = offset;
	upload->crc32c = crc;
	return 0;
}

/*
 * Asks how much of the file the server has. Status 423: an earlier request of this client is still
 * ending there.
 */
static int ask_offset(struct push_session *push, struct file_upload *upload,
		      struct flmem_error *err)
{
	static const char *const headers[] = {FLMEM_TUS_RESUMABLE ": " FLMEM_TUS_VERSION, NULL};
	const struct flmem_connection_request request = {
		.method = "HEAD",
		.url = upload->url,
		.name = push->client->name,
		.headers = headers,
		.answer_max = FLMEM_EXCHANGE_ANSWER_MAX,
	};
	const struct flmem_reply *reply = &push->answer.reply;
	int rc = flmem_exchange_client_ask(push->client, &request, &push->answer, err);
	uint64_t offset;

	if (rc)
		return rc;
	upload->gone = is_gone(reply);
	if (upload->gone)
		return 0;
	if (reply->status == 423) {
		flmem_exchange_client_refused(push->client, "the upload is in use", &push->answer,
					      err);
		return flmem_exchange_client_pause(push->client, &push->answer, err);
	}
	if (reply->status != 200 && reply->status != 204)
		return flmem_exchange_client_refused(push->client, "the upload cannot continue",
						     &push->answer, err);
	if (!reply->upload_offset.known || reply->upload_offset.value > upload->file->bytes ||
	    (reply->upload_length.seen &&
	     (!reply->upload_length.known || reply->upload_length.value != upload->file->bytes)))
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "'%s' reports an invalid offset or length of the upload of "
				       "'%s'",
				       push->client->name, upload->file->name);
	offset = reply->upload_offset.value;
	rc = compare_sent(push, upload, offset, err);
	if (!rc && !upload->gone)
		note_offset(push, upload, offset);
	return rc;
}

static void read_next_chunk(void *context)
{
	struct push_session *push = context;

	flmem_push_reader_ahead(&push->reader);
}

static enum flmem_connection_step send_body(struct push_session *push,
					    const struct file_upload *upload,
					    const struct flmem_push_chunk *chunk,
					    struct flmem_error *err)
{
	unsigned char big_endian[4];
	char encoded[FLMEM_BASE64_ROOM(sizeof(big_endian))], offset[64], checksum[64];
	const char *const headers[] = {FLMEM_TUS_RESUMABLE ": " FLMEM_TUS_VERSION,
				       "Content-Type: " FLMEM_TUS_BODY_TYPE, offset, checksum,
				       NULL};
	const struct flmem_connection_request request = {
		.method = "PATCH",
		.url = upload->url,
		.name = push->client->name,
		.headers = headers,
		.body = chunk->data,
		.body_bytes = chunk->bytes,
		.wait_seconds = upload->offset + chunk->bytes == upload->file->bytes
					? upload->wait_seconds
					: 0,
		.answer_max = FLMEM_EXCHANGE_ANSWER_MAX,
		.waits = read_next_chunk,
		.context = push,
	};

	flmem_push_print_crc32c(chunk->crc32c, big_endian);
	flmem_base64_print(big_endian, sizeof(big_endian), encoded);
	snprintf(offset, sizeof(offset), FLMEM_TUS_OFFSET ": %llu",
		 (unsigned long long)upload->offset);
	snprintf(checksum, sizeof(checksum), FLMEM_TUS_CHECKSUM ": crc32c %s", encoded);
	push->result->sent_bytes += chunk->bytes;
	return flmem_exchange_client_try(push->client, &request, &push->answer, err);
}

/*
 * Handles status 409, which has several reasons: continuing makes sense only if the server has
 * another offset.
 */
static int handle_conflict(struct push_session *push, struct file_upload *upload,
			   struct flmem_error *err)
{
	struct flmem_error why = {0};
	uint64_t offset = upload->offset;
	int rc, refused = flmem_exchange_client_refused(push->client, "the update is not accepted",
							&push->answer, &why);

	rc = ask_offset(push, upload, err);
	if (rc)
		return rc;
	if (upload->gone || (upload->known && upload->offset == offset)) {
		*err = why;
		return refused;
	}
	*err = why;
	return flmem_exchange_client_pause(push->client, &push->answer, err);
}

/*
 * Halves the chunk size, because a proxy may have a limit that it does not announce. Returns false
 * if the chunk is already small.
 */
static bool shrink_chunk(struct push_session *push, size_t bytes)
{
	if (bytes <= CHUNK_SMALLEST)
		return false;
	push->chunk_bytes = bytes / 2 > CHUNK_SMALLEST ? bytes / 2 : CHUNK_SMALLEST;
	return true;
}

/* Handles the answer to a chunk. */
static int handle_answer(struct push_session *push, struct file_upload *upload,
			 const struct flmem_push_chunk *chunk, struct flmem_error *err)
{
	const struct flmem_reply *reply = &push->answer.reply;
	size_t bytes = chunk->bytes;

	upload->known = false;
	switch (reply->status) {
	case 200:
	case 204:
		if (reply->upload_offset.known &&
		    reply->upload_offset.value == upload->offset + bytes) {
			upload->crc32c = flmem_crc32c_join(upload->crc32c, chunk->crc32c, bytes);
			upload->ours = upload->offset + bytes;
			note_offset(push, upload, upload->ours);
			return 0;
		}
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "'%s' does not confirm the offset of '%s'",
				       push->client->name, upload->file->name);
	case 404:
	case 410:
		upload->gone = true;
		return 0;
	case 409:
		return handle_conflict(push, upload, err);
	case 413:
		if (shrink_chunk(push, bytes))
			return 0;
		break;
	case 423:
	case FLMEM_STATUS_CHECKSUM:
		flmem_exchange_client_refused(push->client, "a chunk was not accepted",
					      &push->answer, err);
		return flmem_exchange_client_pause(push->client, &push->answer, err);
	default:
		break;
	}
	return flmem_exchange_client_refused(push->client, "the update is not accepted",
					     &push->answer, err);
}

static int send_chunk(struct push_session *push, struct file_upload *upload,
		      struct flmem_error *err)
{
	uint64_t left = upload->file->bytes - upload->offset;
	size_t bytes = (size_t)(left < push->chunk_bytes ? left : push->chunk_bytes);
	const struct flmem_push_chunk *chunk;
	int rc = flmem_push_reader_get(&push->reader, upload->file, upload->offset, bytes, &chunk,
				       err);

	if (rc)
		return rc;
	switch (send_body(push, upload, chunk, err)) {
	case FLMEM_CONNECTION_OK:
		return handle_answer(push, upload, chunk, err);
	case FLMEM_CONNECTION_RETRY:
		upload->known = false;
		return flmem_exchange_client_pause(push->client, &push->answer, err);
	default:
		return err->code;
	}
}

/* Sends chunks until the server has the file, or has forgotten the upload. */
static int send_chunks(struct push_session *push, struct file_upload *upload,
		       struct flmem_error *err)
{
	bool first = true;

	while (!upload->known || upload->offset < upload->file->bytes) {
		int rc = upload->known ? send_chunk(push, upload, err)
				       : ask_offset(push, upload, err);

		if (rc || upload->gone)
			return rc;
		if (first && upload->known)
			push->result->resumed_bytes += upload->offset;
		first = first && !upload->known;
	}
	return 0;
}

static int send_file(struct push_session *push, const struct flmem_push_file *file,
		     struct flmem_error *err)
{
	FLMEM_AUTO(clear_file_upload)
	struct file_upload upload = {
		.file = file,
		.wait_seconds =
			CHECK_SECONDS + (unsigned)(push->files.bytes / CHECK_BYTES_PER_SECOND),
	};
	int rc;

	for (unsigned i = 0; i < RECREATED_MAX; i++) {
		rc = create_file_upload(push, &upload, err);
		if (!rc && !upload.gone)
			rc = send_chunks(push, &upload, err);
		if (rc || !upload.gone) {
			push->finished += rc ? 0 : file->bytes;
			return rc;
		}
	}
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "'%s' forgot the upload of '%s' %u times: the update was refused "
			       "while the connection was lost (the server's log has the reason), "
			       "or is too slow for the time that the server keeps one",
			       push->client->name, file->name, RECREATED_MAX);
}

static int choose_push_chunk(struct push_session *push, const struct flmem_exchange_status *status,
			     struct flmem_error *err)
{
	uint64_t asked = push->request->chunk_bytes, chunk = asked;

	if (asked > CHUNK_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "--chunk accepts at most %llu bytes",
				       (unsigned long long)CHUNK_MAX);
	if (!asked)
		chunk = status->chunk_bytes ? status->chunk_bytes : FLMEM_EXCHANGE_CHUNK_BYTES;
	if (!asked && chunk > PROPOSED_MAX)
		chunk = PROPOSED_MAX;
	if (status->has_request_limit && chunk > status->max_request_bytes)
		chunk = status->max_request_bytes;
	push->chunk_bytes = chunk;
	return flmem_push_reader_init(&push->reader, chunk, err);
}

static int push_files(struct push_session *push, struct flmem_error *err)
{
	struct flmem_exchange_status status;
	int rc = flmem_push_choose_round(push->client, push->request, &status, err);

	if (rc)
		return rc;
	push->result->round = push->request->has_round ? push->request->round : status.round;
	rc = choose_push_chunk(push, &status, err);
	/*
	 * In lockstep the server keeps no data, so it cannot compute their checksum after a
	 * restart.
	 */
	push->sha256 = push->request->sha256 || (!rc && status.lockstep);
	if (!rc && push->sha256)
		rc = flmem_push_files_digest(&push->files, push->client, err);
	if (rc)
		return rc;
	flmem_exchange_client_show(push->client, push->files.bytes);
	for (size_t i = 0; i < push->files.count && !rc; i++) {
		rc = flmem_push_file_open(&push->files, &push->files.files[i], err);
		if (!rc)
			rc = send_file(push, &push->files.files[i], err);
		flmem_push_reader_idle(&push->reader);
		flmem_push_file_close(&push->files.files[i]);
	}
	return rc;
}

int flmem_exchange_push(const struct flmem_exchange_push_request *request,
			struct flmem_exchange_push_result *ret_result, struct flmem_error *err)
{
	FLMEM_AUTO_EXCHANGE_CLIENT struct flmem_exchange_client client = {0};
	struct flmem_exchange_push_result result = {0};
	FLMEM_AUTO(clear_push_session)
	struct push_session push = {
		.client = &client,
		.request = request,
		.result = &result,
		.files = FLMEM_PUSH_FILES_INIT,
		.answer = FLMEM_CONNECTION_ANSWER_INIT,
	};
	uint64_t began_us = flmem_clock_us();
	struct flmem_error why = {0};
	int rc = flmem_push_check(request, &why);

	if (!rc)
		rc = flmem_push_files_list(request->path, &push.files, &why);
	if (!rc)
		rc = flmem_exchange_client_open(&client, request->server, &why);
	if (!rc)
		rc = push_files(&push, &why);
	if (rc && err)
		*err = why;
	if (rc)
		return rc;
	result.files = push.files.count;
	result.bytes = push.files.bytes;
	result.chunk_bytes = push.chunk_bytes;
	result.retries = client.retries;
	result.took_us = flmem_clock_us() - began_us;
	*ret_result = result;
	return 0;
}
