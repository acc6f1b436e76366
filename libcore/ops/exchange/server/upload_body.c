/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/server/upload_body.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes/crc32c.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "exchange/base64.h"
#include "exchange/digest.h"
#include "exchange/wire.h"
#include "ops/exchange/server/finite_stream.h"
#include "ops/exchange/server/update.h"
#include "ops/exchange/server/uploads.h"

#define US_PER_SECOND UINT64_C(1000000)
#define WRITE_BYTES   (UINT64_C(4) << 20)
/*
 * Sizes of writes: file systems keep what is written in pages as large as the write, if it begins
 * where such a page does, which halves the processor time of small writes. libmicrohttpd passes on
 * 256 KiB less a header, and records of TLS, which have 16 KiB.
 */
#define GATHER_BYTES ((size_t)128 << 10)
#define ALIGN_BYTES  ((size_t)64 << 10)

struct flmem_upload_transfer {
	struct flmem_exchange *x;
	char id[FLMEM_EXCHANGE_ID_DIGITS + 1];
	int fd;
	uint64_t begin, at, length; /* offsets in the upload, and its length */
	uint64_t started;	    /* the kernel was asked to write up to here */
	uint64_t flushed;	    /* the kernel has written up to here */
	uint32_t crc32c;
	uint32_t crc32c_before; /* CRC-32C of the upload up to `begin` */
	char *gathered;		/* bytes before `at` that are not written yet; NULL: never any */
	size_t gathered_bytes;
	bool creates, has_checksum, ended;
	struct flmem_tus_checksum checksum;
	struct flmem_digest digest;
	struct flmem_finite_stream values;
	unsigned failure; /* HTTP status of a refusal; the rest of the body is then ignored */
	int error;	  /* errno of the failure */
};

static bool open_transfer(struct flmem_upload_transfer *transfer,
			  const struct flmem_transfer_start *start, struct flmem_error *err)
{
	if (start->checksum) {
		transfer->has_checksum = true;
		transfer->checksum = *start->checksum;
		/* A CRC-32C needs no further digest: the journal's is used. */
		if (start->checksum->kind != FLMEM_DIGEST_CRC32C &&
		    flmem_digest_begin(&transfer->digest, start->checksum->kind, err))
			return false;
	}
	transfer->fd = flmem_uploads_open(transfer->x, transfer->id);
	if (transfer->fd < 0)
		flmem_error_set(err, FLMEM_EFAILED, -transfer->fd, "cannot open the upload");
	return transfer->fd >= 0;
}

struct flmem_upload_transfer *flmem_transfer_begin(struct flmem_exchange *x,
						   struct flmem_http_request *request,
						   const struct flmem_transfer_start *start)
{
	struct flmem_upload_transfer *transfer = calloc(1, sizeof(*transfer));
	struct flmem_error err = {.message = "no memory"};

	if (transfer) {
		*transfer = (struct flmem_upload_transfer){
			.x = x,
			.fd = -1,
			.begin = start->offset,
			.at = start->offset,
			.started = start->offset,
			.flushed = start->flushed,
			.length = start->length,
			.creates = start->creates,
			.digest = {.kind = FLMEM_DIGEST_NONE},
		};
		memcpy(transfer->id, start->id, sizeof(transfer->id));
		if (start->finite && x->options->aggregate.nan == FLMEM_NAN_SKIP_CLIENT)
			flmem_finite_stream_begin(&transfer->values, &x->layout, start->offset,
						  start->length);
		if (open_transfer(transfer, start, &err)) {
			flmem_http_request_set(request, transfer);
			return transfer;
		}
		flmem_digest_end(&transfer->digest, NULL);
		free(transfer);
	}
	flmem_uploads_unseize(x, start->id, request);
	if (flmem_upload_is_gone(x, start->id))
		flmem_exchange_refuse_gone(request);
	else
		flmem_exchange_refuse_failed(x, request, 500, start->id, err.message);
	return NULL;
}

/* Writes two pieces, one after the other, and empties them. Returns 0 or an errno. */
static int write_pieces(int fd, struct iovec pieces[2], uint64_t at)
{
	while (pieces[0].iov_len + pieces[1].iov_len) {
		ssize_t written = pwritev(fd, pieces, 2, (off_t)at);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return written < 0 ? errno : EIO;
		at += (uint64_t)written;
		for (unsigned i = 0; i < 2; i++) {
			size_t some = (size_t)written < pieces[i].iov_len ? (size_t)written
									  : pieces[i].iov_len;

			pieces[i].iov_base = (char *)pieces[i].iov_base + some;
			pieces[i].iov_len -= some;
			written -= (ssize_t)some;
		}
	}
	return 0;
}

static void sum_piece(struct flmem_upload_transfer *transfer, const char *bytes, size_t length)
{
	transfer->crc32c = flmem_crc32c(transfer->crc32c, bytes, length);
	flmem_digest_add(&transfer->digest, bytes, length);
	flmem_finite_stream_add(&transfer->values, bytes, length);
}

/*
 * Writes the first `gathered` of the gathered bytes, then `length` bytes, and adds both to the
 * checksums.
 */
static void write_summed(struct flmem_upload_transfer *transfer, size_t gathered, const char *bytes,
			 size_t length)
{
	struct iovec pieces[2] = {{transfer->gathered, gathered}, {(char *)bytes, length}};
	uint64_t at = transfer->at - transfer->gathered_bytes;

	transfer->error = write_pieces(transfer->fd, pieces, at);
	if (transfer->error) {
		transfer->failure = flmem_exchange_disk_status(transfer->error);
		return;
	}
	if (gathered)
		sum_piece(transfer, transfer->gathered, gathered);
	if (length)
		sum_piece(transfer, bytes, length);
	transfer->at += length;
	transfer->gathered_bytes -= gathered;
	if (transfer->gathered && transfer->gathered_bytes)
		memmove(transfer->gathered, transfer->gathered + gathered,
			transfer->gathered_bytes);
}

static void write_gathered(struct flmem_upload_transfer *transfer)
{
	if (!transfer->failure && transfer->gathered_bytes)
		write_summed(transfer, transfer->gathered_bytes, NULL, 0);
}

static void gather_piece(struct flmem_upload_transfer *transfer, const char *bytes, size_t length)
{
	memcpy(transfer->gathered + transfer->gathered_bytes, bytes, length);
	transfer->gathered_bytes += length;
	transfer->at += length;
}

/* Returns how many bytes to write now, of the gathered ones and `length` more. */
static size_t choose_written(const struct flmem_upload_transfer *transfer, size_t length)
{
	size_t bytes = transfer->gathered_bytes + length;

	if (bytes < GATHER_BYTES)
		return 0;
	return bytes - (size_t)((transfer->at + length) % ALIGN_BYTES);
}

static void take_body_piece(struct flmem_upload_transfer *transfer, const char *bytes,
			    size_t length)
{
	size_t written = choose_written(transfer, length), direct = 0;

	if (!transfer->gathered)
		transfer->gathered = malloc(GATHER_BYTES + ALIGN_BYTES);
	if (!transfer->gathered) {
		write_summed(transfer, 0, bytes, length);
		return;
	}
	if (written > transfer->gathered_bytes) {
		direct = written - transfer->gathered_bytes;
		write_summed(transfer, transfer->gathered_bytes, bytes, direct);
		written = 0;
	}
	if (transfer->failure)
		return;
	gather_piece(transfer, bytes + direct, length - direct);
	if (written)
		write_summed(transfer, written, NULL, 0);
}

/* Starts to write early, so that the flush at the end has little to do. */
static void start_writing(struct flmem_upload_transfer *transfer, uint64_t least)
{
	uint64_t written = transfer->at - transfer->gathered_bytes;
	uint64_t bytes = written - transfer->started;

	if (bytes < least)
		return;
	sync_file_range(transfer->fd, (off_t)transfer->started, (off_t)bytes,
			SYNC_FILE_RANGE_WRITE);
	transfer->started = written;
}

bool flmem_transfer_read_checksum(struct flmem_http_request *request,
				  struct flmem_tus_checksum *ret_checksum, bool *ret_given)
{
	const char *header = flmem_http_request_header(request, FLMEM_TUS_CHECKSUM);
	const char *trailer = flmem_http_request_header(request, "Trailer");
	struct flmem_error err = {0};

	*ret_given = header;
	/* Otherwise bytes would be kept whose checksum was sent, and is wrong. */
	if (trailer && strcasestr(trailer, FLMEM_TUS_CHECKSUM)) {
		flmem_exchange_refuse(request, 400, NULL,
				      FLMEM_TUS_CHECKSUM " is announced as a trailer, which is not "
							 "verified; send it before the body");
		return false;
	}
	if (!header || !flmem_tus_checksum_parse(header, ret_checksum, &err))
		return true;
	flmem_exchange_refuse(request, 400, NULL, "%s", err.message);
	return false;
}

bool flmem_transfer_add(struct flmem_upload_transfer *transfer, const char *bytes, size_t length)
{
	uint64_t most = transfer->x->options->max_request_bytes ?: UINT64_MAX;

	if (transfer->failure)
		return true;
	if (length > transfer->length - transfer->at ||
	    length > most - (transfer->at - transfer->begin)) {
		transfer->failure = 413;
		return true;
	}
	take_body_piece(transfer, bytes, length);
	start_writing(transfer, WRITE_BYTES);
	return true;
}

static bool has_right_checksum(struct flmem_upload_transfer *transfer)
{
	unsigned char value[FLMEM_DIGEST_MAX];
	struct flmem_digest crc = {.kind = FLMEM_DIGEST_CRC32C, .crc32c = transfer->crc32c};

	flmem_digest_end(transfer->checksum.kind == FLMEM_DIGEST_CRC32C ? &crc : &transfer->digest,
			 value);
	return memcmp(value, transfer->checksum.value,
		      flmem_digest_bytes(transfer->checksum.kind)) == 0;
}

/*
 * Removes an upload after a failed flush: the kernel then takes for written what it could not
 * write, so another flush would confirm bytes that only the page cache has.
 */
static void forget_unflushed(const struct flmem_upload_transfer *transfer)
{
	const struct flmem_upload_commit none = {0};

	if (transfer->flushed < transfer->begin)
		flmem_uploads_take_back(transfer->x, transfer->id, &none);
}

/*
 * Commits bytes: first the bytes, then the record of them; both survive the end of this process. A
 * power failure may take those since the last flush, which is why flmem_uploads_load() reads them
 * back. Returns 0 or an errno.
 */
static int commit_bytes(struct flmem_upload_transfer *transfer)
{
	const struct flmem_upload_commit commit = {transfer->at, transfer->crc32c};
	bool last = transfer->at == transfer->length;
	int rc;

	if (transfer->at == transfer->begin)
		return 0;
	start_writing(transfer, 1);
	if (last || transfer->at - transfer->flushed >= FLMEM_UPLOAD_UNFLUSHED_MAX) {
		if (fdatasync(transfer->fd) < 0) {
			rc = errno;
			forget_unflushed(transfer);
			return rc;
		}
		transfer->flushed = transfer->at;
	}
	rc = flmem_uploads_journal(transfer->x, transfer->id, &commit, last);
	return -rc;
}

/*
 * Publishes the offset of what is on the disk. Returns false if the upload or its round no longer
 * exists.
 */
static bool publish_offset(struct flmem_upload_transfer *transfer)
{
	struct flmem_exchange *x = transfer->x;
	struct flmem_upload *upload;
	bool current;

	pthread_mutex_lock(&x->lock);
	upload = flmem_uploads_find(x, transfer->id);
	current = upload && upload->record.metadata.round == x->round &&
		  x->phase == FLMEM_PHASE_COLLECTING;
	if (upload) {
		upload->commits += transfer->at > transfer->begin;
		upload->offset = transfer->at;
		upload->flushed = transfer->flushed;
		upload->finite = flmem_finite_stream_end(&transfer->values) ? transfer->at : 0;
		transfer->crc32c_before = upload->crc32c;
		upload->crc32c = flmem_crc32c_join(upload->crc32c, transfer->crc32c,
						   transfer->at - transfer->begin);
		upload->touched_us = flmem_clock_us();
	}
	x->counters.received_bytes += transfer->at - transfer->begin;
	pthread_mutex_unlock(&x->lock);
	return current;
}

/* Adds the checksum to an answer; a client that continues compares it with its own file. */
static void fill_checksum(const struct flmem_upload *upload, struct flmem_http_answer *answer)
{
	struct flmem_digest crc = {.kind = FLMEM_DIGEST_CRC32C, .crc32c = upload->crc32c};
	unsigned char value[FLMEM_DIGEST_MAX];
	char encoded[FLMEM_BASE64_ROOM(sizeof(value))];

	flmem_digest_end(&crc, value);
	flmem_base64_print(value, flmem_digest_bytes(FLMEM_DIGEST_CRC32C), encoded);
	flmem_http_answer_field(answer, FLMEM_TUS_CHECKSUM, "crc32c %s", encoded);
}

void flmem_transfer_fill(const struct flmem_exchange *x, const struct flmem_upload *upload,
			 bool creates, struct flmem_http_answer *answer)
{
	uint64_t passed_us = flmem_clock_us() - upload->touched_us;
	uint64_t left_us = x->expire_us > passed_us ? x->expire_us - passed_us : 0;
	time_t at = time(NULL) + (time_t)(left_us / US_PER_SECOND);
	char expires[64];
	struct tm utc;

	flmem_http_answer_field(answer, FLMEM_TUS_RESUMABLE, FLMEM_TUS_VERSION);
	flmem_http_answer_field(answer, FLMEM_TUS_OFFSET, "%" PRIu64, upload->offset);
	if (!x->lockstep)
		fill_checksum(upload, answer);
	flmem_http_answer_field(answer, "Cache-Control", "no-store");
	/* strftime() gives English names of days and months: the library never sets a locale. */
	if (upload->offset < upload->record.length && gmtime_r(&at, &utc) &&
	    strftime(expires, sizeof(expires), "%a, %d %b %Y %H:%M:%S GMT", &utc))
		flmem_http_answer_field(answer, FLMEM_TUS_EXPIRES, "%s", expires);
	if (creates)
		flmem_http_answer_field(answer, "Location", FLMEM_EXCHANGE_UPLOADS_PATH "/%s",
					upload->id);
}

static void refuse_transfer(struct flmem_upload_transfer *transfer,
			    struct flmem_http_request *request)
{
	struct flmem_error err = {0};

	if (transfer->failure == 413) {
		flmem_exchange_refuse(request, 413, NULL,
				      "the body exceeds the length of the upload, or the largest "
				      "request");
		return;
	}
	flmem_error_set(&err, FLMEM_EFAILED, 0,
			"the server cannot write the upload: %s; try again later",
			strerror(transfer->error));
	flmem_exchange_refuse_failed(transfer->x, request, transfer->failure, transfer->id,
				     err.message);
}

void flmem_transfer_answer(struct flmem_exchange *x, struct flmem_http_request *request,
			   const char *id, bool creates)
{
	struct flmem_http_answer answer = {.status = creates ? 201 : 204};
	const struct flmem_upload *upload;

	pthread_mutex_lock(&x->lock);
	upload = flmem_uploads_find(x, id);
	if (upload)
		flmem_transfer_fill(x, upload, creates, &answer);
	pthread_mutex_unlock(&x->lock);
	if (upload)
		flmem_http_request_answer(request, &answer);
	else
		flmem_exchange_refuse_gone(request);
}

/*
 * Finishes a complete upload. If it cannot be kept or checked now, it is not confirmed. Returns 0
 * or the HTTP status of the refusal.
 */
static unsigned finish_transfer(struct flmem_upload_transfer *transfer, struct flmem_error *err)
{
	const struct flmem_upload_commit before = {transfer->begin, transfer->crc32c_before};
	unsigned status = flmem_update_finish(transfer->x, transfer->id, err);

	if (status >= 500)
		flmem_uploads_take_back(transfer->x, transfer->id, &before);
	return status;
}

static void end_checked(struct flmem_upload_transfer *transfer, struct flmem_http_request *request)
{
	struct flmem_error err = {0};
	unsigned status;

	transfer->error = commit_bytes(transfer);
	if (transfer->error && !flmem_upload_is_gone(transfer->x, transfer->id)) {
		transfer->failure = flmem_exchange_disk_status(transfer->error);
		refuse_transfer(transfer, request);
		return;
	}
	if (transfer->error || !publish_offset(transfer)) {
		flmem_exchange_refuse_gone(request);
		return;
	}
	status = transfer->at == transfer->length ? finish_transfer(transfer, &err) : 0;
	/* The client must send an upload again that the disk did not keep. */
	if (status >= 500 && !flmem_update_can_pass(&err) &&
	    flmem_upload_is_gone(transfer->x, transfer->id))
		flmem_exchange_refuse_gone(request);
	else if (status >= 500)
		flmem_exchange_refuse_failed(transfer->x, request, status, transfer->id,
					     err.message);
	else if (status)
		flmem_exchange_refuse(request, status,
				      status == 409 ? FLMEM_EXCHANGE_OVER_TITLE : NULL, "%s",
				      err.message);
	else
		flmem_transfer_answer(transfer->x, request, transfer->id, transfer->creates);
}

void flmem_transfer_end(struct flmem_upload_transfer *transfer, struct flmem_http_request *request)
{
	struct flmem_exchange *x = transfer->x;

	transfer->ended = true;
	write_gathered(transfer);
	if (transfer->failure) {
		refuse_transfer(transfer, request);
	} else if (transfer->has_checksum && !has_right_checksum(transfer)) {
		flmem_exchange_refuse(request, FLMEM_STATUS_CHECKSUM, NULL,
				      "the body does not have the checksum of Upload-Checksum; "
				      "nothing of it was kept");
		pthread_mutex_lock(&x->lock);
		x->counters.checksum_errors++;
		pthread_mutex_unlock(&x->lock);
	} else {
		end_checked(transfer, request);
	}
	flmem_uploads_unseize(x, transfer->id, request);
}

void flmem_transfer_free(struct flmem_upload_transfer *transfer)
{
	if (!transfer)
		return;
	/*
	 * The body was cut off. Without a checksum to verify, the bytes that arrived count like a
	 * whole body.
	 */
	if (!transfer->ended) {
		write_gathered(transfer);
		if (!transfer->failure && !transfer->has_checksum && !commit_bytes(transfer) &&
		    publish_offset(transfer) && transfer->at == transfer->length)
			finish_transfer(transfer, NULL);
		flmem_uploads_unseize(transfer->x, transfer->id, NULL);
	}
	flmem_digest_end(&transfer->digest, NULL);
	flmem_cleanup_close(&transfer->fd);
	free(transfer->gathered);
	free(transfer);
}
