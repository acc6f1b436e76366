/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/server/concatenate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes/crc32c.h"
#include "base/bytes/fnv.h"
#include "base/cleanup.h"
#include "base/files/io.h"
#include "ops/exchange/server/answers.h"
#include "ops/exchange/server/update.h"
#include "ops/exchange/server/upload_body.h"
#include "ops/exchange/server/uploads.h"

#define BLOCK_BYTES ((size_t)1 << 20)

/*
 * Computes the sum of the parts' lengths. Called with x->lock held. Returns false if the request
 * was refused.
 */
static bool measure_parts(struct flmem_exchange *x, struct flmem_http_request *request,
			  struct flmem_upload_record *record, const struct flmem_tus_concat *concat)
{
	record->length = 0;
	for (size_t i = 0; i < concat->count; i++) {
		const struct flmem_upload *part = flmem_uploads_find(x, concat->ids[i]);
		const char *owner = part ? part->record.metadata.client : "";

		if (!part || strcmp(owner, record->metadata.client) != 0) {
			flmem_exchange_refuse(request, 404, NULL, "no such upload: '%s'",
					      concat->ids[i]);
			return false;
		}
		if (!part->record.partial || part->offset != part->record.length || part->writer ||
		    part->checking) {
			flmem_exchange_refuse(request, 409, NULL, "'%s' is not a complete part",
					      concat->ids[i]);
			return false;
		}
		if (__builtin_add_overflow(record->length, part->record.length, &record->length)) {
			flmem_exchange_refuse(request, 413, NULL, "the parts are too large");
			return false;
		}
	}
	return true;
}

/* Appends a part to a file. Returns 0 or an errno. */
static int append_part(int to, uint64_t *at, int from, char *block, uint32_t *crc32c)
{
	for (off_t offset = 0;;) {
		ssize_t got = pread(from, block, BLOCK_BYTES, offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? errno : 0;
		if (lseek(to, (off_t)*at, SEEK_SET) < 0)
			return errno;
		if (flmem_io_write_all(to, block, (size_t)got) < 0)
			return errno ?: EIO;
		/* Otherwise the disk would start at the flush, when all parts are copied. */
		sync_file_range(to, (off_t)*at, got, SYNC_FILE_RANGE_WRITE);
		*crc32c = flmem_crc32c(*crc32c, block, (size_t)got);
		*at += (uint64_t)got;
		offset += got;
	}
}

/* Writes all parts to the final file and flushes it to the disk. Returns 0 or an errno. */
static int assemble_parts(struct flmem_exchange *x, const char *id, uint64_t length,
			  const struct flmem_tus_concat *concat, uint32_t *ret_crc32c)
{
	FLMEM_AUTO_CLOSE int to = flmem_uploads_open(x, id);
	FLMEM_AUTO_FREE char *block = malloc(BLOCK_BYTES);
	struct flmem_upload_commit commit = {0};
	int error = to < 0 ? -to : block ? 0 : ENOMEM;

	for (size_t i = 0; i < concat->count && !error; i++) {
		FLMEM_AUTO_CLOSE int from = flmem_uploads_open(x, concat->ids[i]);

		error = from < 0 ? -from
				 : append_part(to, &commit.end, from, block, &commit.crc32c);
	}
	*ret_crc32c = commit.crc32c;
	if (!error && commit.end != length)
		error = EIO;
	if (!error && fdatasync(to) < 0)
		error = errno;
	return error ? error : length ? -flmem_uploads_journal(x, id, &commit, true) : 0;
}

/*
 * Marks parts as used, or removes them. Called with x->lock held. No other request takes the parts
 * while they are read.
 */
static void mark_parts(struct flmem_exchange *x, const struct flmem_tus_concat *concat, bool used,
		       bool remove)
{
	for (size_t i = 0; i < concat->count; i++) {
		struct flmem_upload *part = flmem_uploads_find(x, concat->ids[i]);

		if (!part)
			continue;
		part->checking = used;
		if (remove)
			flmem_uploads_remove(x, part);
	}
}

static void remove_final(struct flmem_exchange *x, const char *id)
{
	struct flmem_upload *upload;

	pthread_mutex_lock(&x->lock);
	upload = flmem_uploads_find(x, id);
	if (upload)
		flmem_uploads_remove(x, upload);
	pthread_mutex_unlock(&x->lock);
}

/* Finishes the final upload, on which the request works. Called without x->lock. */
static void finish_final(struct flmem_exchange *x, struct flmem_http_request *request,
			 const char *id, const struct flmem_tus_concat *concat,
			 const struct flmem_upload_record *record)
{
	uint32_t crc32c;
	int error = assemble_parts(x, id, record->length, concat, &crc32c);
	struct flmem_error err = {0};
	struct flmem_upload *upload;
	unsigned status = 0;
	bool gone;

	pthread_mutex_lock(&x->lock);
	upload = flmem_uploads_find(x, id);
	if (upload && !error) {
		upload->offset = upload->flushed = record->length;
		upload->crc32c = crc32c;
		upload->commits = 1;
	}
	mark_parts(x, concat, false, !error);
	pthread_mutex_unlock(&x->lock);
	if (!error) {
		status = flmem_update_finish(x, id, &err);
	} else {
		status = flmem_exchange_disk_status(error);
		flmem_error_set(&err, FLMEM_EFAILED, error, "the parts could not be assembled");
	}
	/*
	 * If the final upload is gone, so are its parts, and the client must begin again. Without a
	 * reason, another request removed it.
	 */
	gone = flmem_upload_is_gone(x, id) &&
	       (!status || (status >= 500 && !flmem_update_can_pass(&err)));
	if (status >= 500)
		remove_final(x, id);
	if (gone)
		flmem_exchange_refuse_gone(request);
	else if (status >= 500)
		flmem_exchange_refuse_failed_client(x, request, status, record->metadata.client,
						    err.message);
	else if (status)
		flmem_exchange_refuse(request, status,
				      status == 409 ? FLMEM_EXCHANGE_OVER_TITLE : NULL, "%s",
				      err.message);
	else
		flmem_transfer_answer(x, request, id, true);
}

static uint64_t mix_parts(const struct flmem_tus_concat *concat)
{
	uint64_t hash = FLMEM_FNV_START;

	for (size_t i = 0; i < concat->count; i++)
		hash = flmem_fnv_mix(hash, concat->ids[i], sizeof(concat->ids[i]));
	return hash ? hash : 1;
}

/*
 * Finds or creates the final upload, and seizes it. Returns false if the request was answered.
 * Called with x->lock held.
 */
static bool obtain_final(struct flmem_exchange *x, struct flmem_http_request *request,
			 struct flmem_upload_record *record, const struct flmem_tus_concat *concat,
			 char id[FLMEM_EXCHANGE_ID_DIGITS + 1])
{
	struct flmem_upload *upload = flmem_uploads_find_file(x, &record->metadata);
	bool unchecked;

	/* The upload was completed before, so its parts are gone: only the answer was lost. */
	if (upload && upload->record.concat == record->concat)
		record->length = upload->record.length;
	else if (!measure_parts(x, request, record, concat))
		return false;
	upload = flmem_upload_obtain(x, request, record);
	if (!upload)
		return false;
	memcpy(id, upload->id, sizeof(upload->id));
	upload = flmem_uploads_await_checked(x, id);
	unchecked = upload && flmem_upload_is_unchecked(upload);
	if (upload && !unchecked && (upload->placed || upload->combined || upload->counted))
		return true;
	if (!unchecked && flmem_uploads_seize(x, id, request)) {
		if (measure_parts(x, request, record, concat)) {
			mark_parts(x, concat, true, false);
			return true;
		}
		flmem_uploads_release(x, flmem_uploads_find(x, id));
		return false;
	}
	flmem_exchange_refuse(request, 423, NULL, "another request works on this upload");
	return false;
}

void flmem_exchange_concatenate(struct flmem_exchange *x, struct flmem_http_request *request,
				struct flmem_upload_record *record,
				const struct flmem_tus_concat *concat)
{
	char id[FLMEM_EXCHANGE_ID_DIGITS + 1];
	struct flmem_upload *upload;
	bool seized = false, obtained;

	record->concat = mix_parts(concat);
	pthread_mutex_lock(&x->lock);
	obtained = obtain_final(x, request, record, concat, id);
	upload = obtained ? flmem_uploads_find(x, id) : NULL;
	seized = upload && upload->writer == request;
	pthread_mutex_unlock(&x->lock);
	if (!obtained)
		return;
	if (!seized) {
		flmem_transfer_answer(x, request, id, true);
		return;
	}
	finish_final(x, request, id, concat, record);
	pthread_mutex_lock(&x->lock);
	upload = flmem_uploads_find(x, id);
	if (upload && upload->writer == request)
		flmem_uploads_release(x, upload);
	pthread_mutex_unlock(&x->lock);
}
