/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_UPLOADS_H
#define FLMEM_OPS_EXCHANGE_UPLOADS_H

/*
 * The uploads of a server, in memory and in its state directory. Unless a comment says otherwise,
 * these functions are called with x->lock held.
 */

#include "ops/exchange/server/server_state.h"

struct flmem_upload *flmem_uploads_find(struct flmem_exchange *x, const char *id);

/*
 * Finds the upload of a file of a client in a round; NULL if there is none. Partial uploads are not
 * found.
 */
struct flmem_upload *flmem_uploads_find_file(struct flmem_exchange *x,
					     const struct flmem_tus_metadata *metadata);

/*
 * Returns the bytes that a client announced in the current round; `client` NULL: the bytes that all
 * clients have yet to send.
 */
uint64_t flmem_uploads_announced(const struct flmem_exchange *x, const char *client);

/* Returns the number of a client's uploads, without combined ones. */
size_t flmem_uploads_count(const struct flmem_exchange *x, const char *client);

/*
 * Creates an upload and its files; x->lock is released meanwhile. FLMEM_EFAILED, with ENOSPC in
 * err->sys_errno if the disk is full.
 */
int flmem_uploads_create(struct flmem_exchange *x, const struct flmem_upload_record *record,
			 struct flmem_upload **ret_upload, struct flmem_error *err);

/* Removes an upload and its files. It must have no writer. */
void flmem_uploads_remove(struct flmem_exchange *x, struct flmem_upload *upload);

/*
 * Removes an upload and its files. If its record cannot be removed, the upload stays. Returns 0 or
 * -errno.
 */
int flmem_uploads_delete(struct flmem_exchange *x, struct flmem_upload *upload);

/*
 * Returns true if the upload was removed: its round is over, or another file of its update counts
 * or was refused. Called without x->lock.
 */
bool flmem_upload_is_gone(struct flmem_exchange *x, const char *id);

/*
 * Returns true if all bytes of the upload are there, but the request that completed it may still be
 * refused.
 */
bool flmem_upload_is_unchecked(const struct flmem_upload *upload);

/*
 * Waits until the upload is checked, at most as long as flmem_uploads_seize() waits. NULL if it was
 * removed. x->lock is released meanwhile.
 */
struct flmem_upload *flmem_uploads_await_checked(struct flmem_exchange *x, const char *id);

/*
 * Makes `request` the writer of the upload, and ends an earlier writer. Returns false if that one
 * does not end in time, or if the upload is in use otherwise. x->lock is released meanwhile: find
 * the upload again.
 */
bool flmem_uploads_seize(struct flmem_exchange *x, const char *id,
			 struct flmem_http_request *request);
void flmem_uploads_release(struct flmem_exchange *x, struct flmem_upload *upload);

/*
 * Releases the upload that `request` (NULL: any request) has seized, and removes it if its round is
 * over. Called without x->lock.
 */
void flmem_uploads_unseize(struct flmem_exchange *x, const char *id,
			   const struct flmem_http_request *request);

/* Limit of an upload's bytes that may be confirmed before they are flushed to the disk. */
#define FLMEM_UPLOAD_UNFLUSHED_MAX (UINT64_C(256) << 20)

/* Appends a commit to the journal. Called by the writer without x->lock. Returns 0 or -errno. */
int flmem_uploads_journal(struct flmem_exchange *x, const char *id,
			  const struct flmem_upload_commit *commit, bool last);

/*
 * Takes the last commit back, or all commits if `before` ends at 0: the client sends the bytes
 * again. Called by the writer without x->lock.
 */
void flmem_uploads_take_back(struct flmem_exchange *x, const char *id,
			     const struct flmem_upload_commit *before);

/* Opens the data of an upload, for its writer. Returns a descriptor or -errno. */
int flmem_uploads_open(struct flmem_exchange *x, const char *id);

/* Loads all uploads from the disk. Call it before other threads start. */
int flmem_uploads_load(struct flmem_exchange *x, struct flmem_error *err);

/* Removes uploads without progress. */
void flmem_uploads_expire(struct flmem_exchange *x);

/* The server did not run for this time, which does not count for the expiration. */
void flmem_uploads_resume(struct flmem_exchange *x, uint64_t paused_us);

/*
 * Called after round `round` was published as the next one: keeps only uploads that counted,
 * without their bytes.
 */
void flmem_uploads_retire(struct flmem_exchange *x, uint64_t round);

void flmem_uploads_clear(struct flmem_exchange *x);

/*
 * Opens rounds/R/updates/CLIENT, and creates it if it does not exist. Returns a descriptor or
 * -errno.
 */
int flmem_uploads_open_client(const struct flmem_exchange *x, uint64_t round, const char *client);

#endif
