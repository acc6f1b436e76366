/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/server/update.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "base/files/file_place.h"
#include "base/text/shorten.h"
#include "base/text/text.h"
#include "ops/aggregate/output.h"
#include "ops/exchange/server/answers.h"
#include "ops/exchange/server/special_updates.h"
#include "ops/exchange/server/uploads.h"

/*
 * Round and client, which all files of an update share; kept apart, because uploads may be removed
 * meanwhile.
 */
struct update_key {
	uint64_t round;
	char client[FLMEM_EXCHANGE_NAME_MAX + 1];
};

static bool is_of_update(const struct flmem_upload *upload, const struct update_key *key)
{
	return !upload->record.partial && upload->record.metadata.round == key->round &&
	       strcmp(upload->record.metadata.client, key->client) == 0;
}

/* Returns the number of files of an update that are in their final place. */
static size_t count_placed(const struct flmem_exchange *x, const struct update_key *key)
{
	size_t count = 0;

	for (const struct flmem_upload *u = x->uploads; u; u = u->next)
		count += is_of_update(u, key) && u->placed;
	return count;
}

static void mark_update(struct flmem_exchange *x, const struct update_key *key, bool checking,
			bool counted)
{
	for (struct flmem_upload *u = x->uploads; u; u = u->next)
		if (is_of_update(u, key)) {
			u->checking = checking;
			u->counted = counted;
		}
	pthread_cond_broadcast(&x->changed);
}

/*
 * Postpones the recovery of an update until all others were recovered: it may have counted because
 * of them.
 */
static void postpone_update(struct flmem_exchange *x, const struct update_key *key)
{
	for (struct flmem_upload *u = x->uploads; u; u = u->next)
		u->postponed |= is_of_update(u, key);
}

static void remove_update(struct flmem_exchange *x, const struct update_key *key)
{
	for (struct flmem_upload *u = x->uploads, *next; u; u = next) {
		next = u->next;
		if (is_of_update(u, key)) {
			u->checking = false;
			u->writer = NULL;
			flmem_uploads_remove(x, u);
		}
	}
	pthread_cond_broadcast(&x->changed);
}

/* Returns the path of an update: the file if it has one file, else the folder. */
static char *update_path(const struct flmem_exchange *x, const struct flmem_upload_record *record)
{
	const struct flmem_tus_metadata *m = &record->metadata;
	char *path;

	if (asprintf(&path, "%s/rounds/%" PRIu64 "/updates/%s%s%s", x->spool.path, m->round,
		     m->client, m->files > 1 ? "" : "/", m->files > 1 ? "" : m->filename) < 0)
		return NULL;
	return path;
}

void flmem_update_hide_paths(const struct flmem_exchange *x, char *text)
{
	for (char *at = text; *at;) {
		size_t length =
			at > text && at[-1] == '\'' ? flmem_text_fit_match(at, x->spool.path) : 0;

		/* Requires a slash in the path: a plain name could be a word of the message. */
		if (!length && strchr(x->spool.path, '/') && flmem_text_starts(at, x->spool.path))
			length = strlen(x->spool.path);
		if (length)
			length += at[length] == '/';
		if (length)
			memmove(at, at + length, strlen(at + length) + 1);
		else
			at++;
	}
}

/*
 * Checks tensors that share bytes: the next model is a copy of any of the updates with other
 * tensors.
 */
static int check_tied(const struct flmem_exchange *x, const struct flmem_input *update,
		      struct flmem_error *err)
{
	const struct flmem_input both[] = {x->model, *update};
	struct flmem_split_tensors split;
	char shown[100], other[100];
	int found = flmem_output_find_split(&x->layout, both, &split);

	if (found < 0)
		return flmem_error_nomem(err, "cannot check it");
	return found ? flmem_error_set(
			       err, FLMEM_EUSAGE, 0,
			       "tensors '%s' and '%s' share bytes in one of the model and "
			       "the update, and not in the other, so no checkpoint could be "
			       "made of both; share them as the model does",
			       flmem_text_escape(split.names[0], shown, sizeof(shown)),
			       flmem_text_escape(split.names[1], other, sizeof(other)))
		     : 0;
}

/* Rewords --key for the client, which has an option of that name for its certificate. */
static void explain_key(struct flmem_error *err)
{
	struct flmem_error why = *err;

	if (strstr(err->message, "--key"))
		flmem_error_set(err, why.code, why.sys_errno,
				"%s (an option of the server, 'flmem exchange serve'; or save that "
				"dict alone)",
				why.message);
}

int flmem_update_check(struct flmem_exchange *x, const char *path, struct flmem_error *err)
{
	struct flmem_input input = {.key = x->options->aggregate.key};
	struct flmem_error place = {0};
	int moved, rc = flmem_input_open(path, NULL, &x->layout, &input, err);

	if (rc)
		explain_key(err);
	if (!rc && x->needs_checkpoint && input.kind.format != FLMEM_FORMAT_CHECKPOINT)
		rc = flmem_error_set(err, FLMEM_EUSAGE, 0,
				     "the model is a PyTorch checkpoint, so updates have to be, "
				     "too");
	if (!rc && x->needs_checkpoint)
		rc = check_tied(x, &input, err);
	if (!rc && x->lockstep && input.offsets)
		rc = flmem_error_set(err, FLMEM_EUSAGE, 0,
				     "in lockstep the tensors have to be in the order in which "
				     "safetensors writes them; 'flmem aggregate convert' does so");
	flmem_inputs_clear(&input, 1);
	/*
	 * Check that the state directory is still in place: what was read, or missing, may be of
	 * another one.
	 */
	moved = flmem_spool_check_place(&x->spool, &place);
	if (moved)
		*err = place;
	else if (rc)
		flmem_update_hide_paths(x, err->message);
	return moved ? moved : rc;
}

bool flmem_update_can_pass(const struct flmem_error *err)
{
	switch (err->sys_errno) {
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOSPC:
	case EDQUOT:
	case EIO:
	/* errors of network file systems, or of file systems in user space. */
	case ESTALE:
	case ETIMEDOUT:
	case ENOTCONN:
	case EACCES:
	case EPERM:
		return true;
	default:
		return false;
	}
}

static int check_digest(struct flmem_exchange *x, const char *id,
			const struct flmem_upload_record *record, struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int fd = -1;
	unsigned char sha256[FLMEM_SHA256_BYTES];
	int rc;

	if (!record->metadata.has_sha256)
		return 0;
	fd = flmem_uploads_open(x, id);
	if (fd == -ENOENT) /* the file is at its place already, so its digest was verified */
		return 0;
	if (fd < 0)
		return flmem_error_set(err, FLMEM_EFAILED, -fd, "cannot read the upload");
	rc = flmem_digest_file(fd, "the upload", sha256, err);
	if (!rc && memcmp(sha256, record->metadata.sha256, sizeof(sha256)) != 0)
		rc = flmem_error_set(err, FLMEM_EUSAGE, 0,
				     "'%s' does not have the SHA-256 that was announced; send it "
				     "again",
				     record->metadata.filename);
	return rc;
}

/*
 * Moves a file into the folder of its update, whose descriptor is `client`. Called with x->lock
 * held: the files in the folder during a check are those that count, so no other one must appear
 * and disappear meanwhile. Returns 0 or -errno.
 */
static int place_file(struct flmem_exchange *x, struct flmem_upload *upload, int client)
{
	char name[FLMEM_EXCHANGE_ID_DIGITS + sizeof(".data")];

	if (client < 0)
		return client;
	snprintf(name, sizeof(name), "%s.data", upload->id);
	if (renameat(x->spool.uploads, name, client, upload->record.metadata.filename) < 0)
		return -errno;
	upload->placed = true;
	return 0;
}

/*
 * Moves a file back among the uploads. If that fails, the upload is removed, since it would seem to
 * be complete. Files that an earlier server has confirmed stay where they are: this server then
 * does not start.
 */
static unsigned displace_file(struct flmem_exchange *x, const char *id,
			      const struct flmem_upload_record *record, int client)
{
	const struct flmem_tus_metadata *m = &record->metadata;
	FLMEM_AUTO_CLOSE int own =
		client < 0 ? flmem_uploads_open_client(x, m->round, m->client) : -1;
	struct flmem_upload *upload = flmem_uploads_find(x, id);
	char name[FLMEM_EXCHANGE_ID_DIGITS + sizeof(".data")];

	if (!upload || !upload->placed || !x->server)
		return 503;
	client = client < 0 ? own : client;
	snprintf(name, sizeof(name), "%s.data", id);
	if (client >= 0 && renameat(client, m->filename, x->spool.uploads, name) == 0)
		upload->placed = false;
	else
		flmem_uploads_remove(x, upload);
	return 503;
}

static void end_round(struct flmem_exchange *x)
{
	if (x->phase != FLMEM_PHASE_COLLECTING || x->update_count < x->options->clients)
		return;
	x->phase = FLMEM_PHASE_COMBINING;
	flmem_exchange_wake(x);
}

void flmem_update_clear(struct flmem_exchange *x)
{
	while (x->update_count)
		free(x->updates[--x->update_count].path);
}

/*
 * Removes files beyond those of the update: after a restart it would not be known which of them
 * counted.
 */
static void remove_spare(struct flmem_exchange *x, const struct update_key *key)
{
	for (struct flmem_upload *u = x->uploads, *next; u; u = next) {
		next = u->next;
		if (is_of_update(u, key) && !u->placed)
			flmem_uploads_remove(x, u);
	}
}

/* Adds an update to those that count. Called with x->lock held. Takes ownership of update.path. */
static unsigned accept_update(struct flmem_exchange *x, const struct update_key *key,
			      struct flmem_update update, struct flmem_error *err)
{
	if (x->phase != FLMEM_PHASE_COLLECTING || key->round != x->round) {
		free(update.path);
		remove_update(x, key);
		flmem_error_set(err, FLMEM_EUSAGE, 0,
				"round %" PRIu64 " ended before the update was complete",
				key->round);
		return 409;
	}
	memcpy(update.client, key->client, sizeof(update.client));
	x->updates[x->update_count++] = update;
	x->counters.updates++;
	remove_spare(x, key);
	mark_update(x, key, false, true);
	flmem_exchange_log(x, &(struct flmem_exchange_note){
				      .event = "update-complete",
				      .round = key->round,
				      .client = key->client,
			      });
	end_round(x);
	return 0;
}

static unsigned refuse_update(struct flmem_exchange *x, const struct update_key *key,
			      const struct flmem_error *err)
{
	x->counters.refused_updates++;
	remove_update(x, key);
	flmem_exchange_log(x, &(struct flmem_exchange_note){
				      .event = "update-refused",
				      .warning = true,
				      .round = key->round,
				      .client = key->client,
				      .detail = err->message,
			      });
	return 422;
}

/* Checks an update whose last file is at its place, and accepts or refuses it. */
static unsigned take_update(struct flmem_exchange *x, const char *id,
			    const struct flmem_upload_record *record, const struct update_key *key,
			    struct flmem_error *err)
{
	struct flmem_update update = {.weight = record->metadata.weight,
				      .path = update_path(x, record)};
	int rc = update.path ? flmem_update_check(x, update.path, err)
			     : flmem_error_nomem(err, "cannot check it");
	const struct flmem_upload *upload;
	unsigned status;

	pthread_mutex_lock(&x->lock);
	upload = flmem_uploads_find(x, id);
	if (!rc)
		rc = flmem_special_judge(x, update.path, upload && upload->finite == record->length,
					 &update.values, err);
	if (!rc) {
		status = accept_update(x, key, update, err);
	} else if (update.values == FLMEM_VALUES_SPECIAL && x->recovering) {
		free(update.path);
		mark_update(x, key, false, false);
		postpone_update(x, key);
		status = 422;
	} else {
		bool later = flmem_update_can_pass(err);

		free(update.path);
		mark_update(x, key, false, false);
		status = later ? displace_file(x, id, record, -1) : refuse_update(x, key, err);
	}
	pthread_mutex_unlock(&x->lock);
	return status;
}

/* Returns true if the update has enough files: it is being checked, or counts. */
static bool is_update_settled(const struct flmem_exchange *x, const struct update_key *key)
{
	for (const struct flmem_upload *u = x->uploads; u; u = u->next)
		if (is_of_update(u, key) && u->placed && (u->checking || u->counted))
			return true;
	return false;
}

/* Places the file. Returns true if it was the last one of its update. */
static bool place_upload(struct flmem_exchange *x, const char *id,
			 const struct flmem_upload_record *record, const struct update_key *key,
			 int *ret_error)
{
	FLMEM_AUTO_CLOSE int client = flmem_uploads_open_client(x, key->round, key->client);
	struct flmem_upload *upload;
	bool last = false, settled;

	pthread_mutex_lock(&x->lock);
	upload = flmem_uploads_find(x, id);
	settled = is_update_settled(x, key);
	*ret_error = upload ? 0 : -ENOENT;
	if (upload && !upload->placed && settled)
		flmem_uploads_remove(x, upload); /* it does not belong to the update */
	else if (upload && !upload->placed)
		*ret_error = place_file(x, upload, client);
	if (!*ret_error && !settled)
		last = count_placed(x, key) == record->metadata.files;
	if (last)
		mark_update(x, key, true, false);
	pthread_mutex_unlock(&x->lock);
	if (!*ret_error && client >= 0)
		*ret_error = flmem_file_place_sync(client);
	if (!*ret_error)
		*ret_error = flmem_file_place_sync(x->spool.uploads);
	if (!*ret_error || !upload)
		return last;
	/* The last byte was not confirmed, so the client sends it again. */
	pthread_mutex_lock(&x->lock);
	if (last)
		mark_update(x, key, false, false);
	displace_file(x, id, record, client);
	pthread_mutex_unlock(&x->lock);
	return false;
}

/*
 * Refuses a file: alone if its update is being checked or counts without it, else with the update.
 * Called with x->lock held.
 */
static unsigned refuse_file(struct flmem_exchange *x, const char *id, const struct update_key *key,
			    const struct flmem_error *err)
{
	struct flmem_upload *upload = flmem_uploads_find(x, id);

	if (!is_update_settled(x, key))
		return refuse_update(x, key, err);
	if (upload && !upload->placed)
		flmem_uploads_remove(x, upload);
	return 422;
}

static unsigned finish_file(struct flmem_exchange *x, const char *id,
			    const struct flmem_upload_record *record, struct flmem_error *err)
{
	struct update_key key = {.round = record->metadata.round};
	int rc = check_digest(x, id, record, err), error = 0;
	unsigned status;

	memcpy(key.client, record->metadata.client, sizeof(key.client));
	if (rc == FLMEM_EUSAGE) {
		pthread_mutex_lock(&x->lock);
		status = refuse_file(x, id, &key, err);
		pthread_mutex_unlock(&x->lock);
		return status;
	}
	if (rc)
		return 500;
	if (place_upload(x, id, record, &key, &error))
		return take_update(x, id, record, &key, err);
	if (!error)
		return 0;
	flmem_error_set(err, FLMEM_EFAILED, -error, "cannot keep the upload");
	return flmem_exchange_disk_status(-error);
}

unsigned flmem_update_finish(struct flmem_exchange *x, const char *id, struct flmem_error *ret_why)
{
	struct flmem_error unused, *err = ret_why ?: &unused;
	struct flmem_upload_record record;
	const struct flmem_upload *upload;

	pthread_mutex_lock(&x->lock);
	upload = flmem_uploads_find(x, id);
	if (upload)
		record = upload->record;
	pthread_mutex_unlock(&x->lock);
	return !upload || record.partial ? 0 : finish_file(x, id, &record, err);
}

/* Returns a complete upload whose update was not checked; NULL if there is none. */
static const struct flmem_upload *find_unchecked(const struct flmem_exchange *x)
{
	for (const struct flmem_upload *u = x->uploads; u; u = u->next) {
		struct update_key key = {.round = u->record.metadata.round};

		memcpy(key.client, u->record.metadata.client, sizeof(key.client));
		if (u->record.partial || u->combined || u->counted || u->postponed ||
		    u->offset != u->record.length)
			continue;
		if (!u->placed || count_placed(x, &key) == u->record.metadata.files)
			return u;
	}
	return NULL;
}

static int recover_updates(struct flmem_exchange *x, struct flmem_error *err)
{
	const struct flmem_upload *upload;

	while ((upload = find_unchecked(x))) {
		struct flmem_error why = {0};
		char id[FLMEM_EXCHANGE_ID_DIGITS + 1], client[FLMEM_EXCHANGE_NAME_MAX + 1];

		memcpy(id, upload->id, sizeof(id));
		memcpy(client, upload->record.metadata.client, sizeof(client));
		/* The upload was confirmed, so the server must not start without it. */
		if (flmem_update_finish(x, id, &why) >= 500)
			return flmem_error_set(err, FLMEM_EFAILED, why.sys_errno,
					       "cannot check the update of '%s' in '%s'", client,
					       x->spool.path);
	}
	return 0;
}

int flmem_update_recover(struct flmem_exchange *x, struct flmem_error *err)
{
	int rc;

	x->recovering = true;
	rc = recover_updates(x, err);
	x->recovering = false;
	for (struct flmem_upload *u = x->uploads; u; u = u->next)
		u->postponed = false;
	return rc ? rc : recover_updates(x, err);
}
