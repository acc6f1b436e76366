/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_UPLOADS_H
#define FLMEM_OPS_EXCHANGE_UPLOADS_H

/* The uploads of a server, in memory and in its state directory. All with the lock unless noted. */

#include "ops/exchange/server/server_state.h"

struct flmem_upload *flmem_uploads_find(struct flmem_exchange *x, const char *id);

/* One of this file of this client and round; NULL if there is none. Parts are not found. */
struct flmem_upload *flmem_uploads_find_file(struct flmem_exchange *x,
					     const struct flmem_tus_metadata *metadata);

/* Bytes that a client announced in the current round; `client` NULL: all that are yet to come. */
uint64_t flmem_uploads_announced(const struct flmem_exchange *x, const char *client);

/* How many a client has, combined ones excepted. */
size_t flmem_uploads_count(const struct flmem_exchange *x, const char *client);

/*
 * Makes one and its files; the lock is released meanwhile. FLMEM_EFAILED, with ENOSPC for a full
 * disk.
 */
int flmem_uploads_create(struct flmem_exchange *x, const struct flmem_upload_record *record,
			 struct flmem_upload **ret_upload, struct flmem_error *err);

/* Removes it and its files. It must have no writer. */
void flmem_uploads_remove(struct flmem_exchange *x, struct flmem_upload *upload);

/* The same, or a negative errno, and it stays, if its record cannot be removed. */
int flmem_uploads_delete(struct flmem_exchange *x, struct flmem_upload *upload);

/* Removed: its round is over, or another file of its update counts or was refused. No lock. */
bool flmem_upload_is_gone(struct flmem_exchange *x, const char *id);

/* Its bytes are there, but the request that completed it may still be refused. */
bool flmem_upload_is_unchecked(const struct flmem_upload *upload);

/*
 * Waits until it is checked, at most as long as flmem_uploads_seize(). NULL if it was removed. The
 * lock is released meanwhile.
 */
struct flmem_upload *flmem_uploads_await_checked(struct flmem_exchange *x, const char *id);

/*
 * Makes `request` the writer, and ends an earlier one. False if that one does not end in time, or
 * the upload is in use otherwise. The lock is released meanwhile: find the upload again.
 */
bool flmem_uploads_seize(struct flmem_exchange *x, const char *id,
			 struct flmem_http_request *request);
void flmem_uploads_release(struct flmem_exchange *x, struct flmem_upload *upload);

/*
 * Releases the upload that `request` (NULL: any request) has seized, and removes it if its round is
 * over. Call it without the lock.
 */
void flmem_uploads_let(struct flmem_exchange *x, const char *id,
		       const struct flmem_http_request *request);

/* Bytes of an upload that may be confirmed before they are flushed to the disk. */
#define FLMEM_UPLOAD_UNFLUSHED_MAX (UINT64_C(256) << 20)

/* Appends a commit to the journal. Without the lock, by the writer. Negative errno. */
int flmem_uploads_journal(struct flmem_exchange *x, const char *id,
			  const struct flmem_upload_commit *commit, bool last);

/*
 * Takes the last commit back, or all of them where `before` ends at 0: the client sends them again.
 * Without the lock, by the writer.
 */
void flmem_uploads_take_back(struct flmem_exchange *x, const char *id,
			     const struct flmem_upload_commit *before);

/* Opens its data; negative errno. By the writer. */
int flmem_uploads_open(struct flmem_exchange *x, const char *id);

/* Reads all that are on the disk. Before any other thread. */
int flmem_uploads_load(struct flmem_exchange *x, struct flmem_error *err);

/* Removes those without progress. */
void flmem_uploads_expire(struct flmem_exchange *x);

/* The server did not run for this time, which does not count for the expiration. */
void flmem_uploads_resume(struct flmem_exchange *x, uint64_t paused_us);

/* After round `r` was published as r + 1: keeps only what was counted, without its bytes. */
void flmem_uploads_retire(struct flmem_exchange *x, uint64_t round);

void flmem_uploads_clear(struct flmem_exchange *x);

/* rounds/R/updates/CLIENT, made if it does not exist. Negative errno. */
int flmem_uploads_open_client(const struct flmem_exchange *x, uint64_t round, const char *client);

#endif
