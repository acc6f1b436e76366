/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/server/uploads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes/crc32c.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/files/io.h"
#include "base/paused_time.h"
#include "ops/exchange/server/lockstep.h"

#define SEIZE_US 5000000U
#define NOT_KEPT 1 /* the files are of no upload of this round, and may be removed */

struct upload_name {
	char text[FLMEM_EXCHANGE_ID_DIGITS + sizeof(".journal")];
};

static struct upload_name upload_file_name(const char *id, const char *suffix)
{
	struct upload_name name;

	snprintf(name.text, sizeof(name.text), "%s%s", id, suffix);
	return name;
}

struct flmem_upload *flmem_uploads_find(struct flmem_exchange *x, const char *id)
{
	for (struct flmem_upload *u = x->uploads; u; u = u->next)
		if (memcmp(u->id, id, sizeof(u->id)) == 0)
			return u;
	return NULL;
}

struct flmem_upload *flmem_uploads_find_file(struct flmem_exchange *x,
					     const struct flmem_tus_metadata *metadata)
{
	for (struct flmem_upload *u = x->uploads; u; u = u->next)
		if (!u->record.partial && u->record.metadata.round == metadata->round &&
		    strcmp(u->record.metadata.client, metadata->client) == 0 &&
		    strcmp(u->record.metadata.filename, metadata->filename) == 0)
			return u;
	return NULL;
}

uint64_t flmem_uploads_announced(const struct flmem_exchange *x, const char *client)
{
	uint64_t sum = 0, bytes;

	for (const struct flmem_upload *u = x->uploads; u; u = u->next) {
		bytes = client ? u->record.length : u->record.length - u->offset;
		if (u->combined || (client && strcmp(u->record.metadata.client, client) != 0))
			continue;
		if (__builtin_add_overflow(sum, bytes, &sum))
			return UINT64_MAX;
	}
	return sum;
}

size_t flmem_uploads_count(const struct flmem_exchange *x, const char *client)
{
	size_t count = 0;

	for (const struct flmem_upload *u = x->uploads; u; u = u->next)
		count += !u->combined && strcmp(u->record.metadata.client, client) == 0;
	return count;
}

static struct flmem_upload *add_upload(struct flmem_exchange *x, const char *id,
				       const struct flmem_upload_record *record)
{
	struct flmem_upload *upload = calloc(1, sizeof(*upload));

	if (!upload)
		return NULL;
	memcpy(upload->id, id, sizeof(upload->id));
	upload->record = *record;
	upload->touched_us = flmem_clock_us();
	upload->next = x->uploads;
	x->uploads = upload;
	x->upload_count++;
	return upload;
}

static void drop_upload(struct flmem_exchange *x, struct flmem_upload *upload)
{
	struct flmem_upload **at = &x->uploads;

	while (*at != upload)
		at = &(*at)->next;
	*at = upload->next;
	x->upload_count--;
	flmem_lane_free(upload->lane);
	free(upload);
}

static void remove_files(const struct flmem_exchange *x, const char *id)
{
	/* Remove the record first: without it the other files mean nothing. */
	unlinkat(x->spool.uploads, upload_file_name(id, ".info").text, 0);
	unlinkat(x->spool.uploads, upload_file_name(id, ".journal").text, 0);
	unlinkat(x->spool.uploads, upload_file_name(id, ".data").text, 0);
}

/* Creates an empty file. Returns 0 or -errno. */
static int make_file(const struct flmem_exchange *x, const char *id, const char *suffix)
{
	int fd = flmem_spool_open_file(x->spool.uploads, upload_file_name(id, suffix).text,
				       O_WRONLY | O_CREAT | O_EXCL);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/* Creates the files of an upload. Returns 0 or -errno. */
static int make_files(const struct flmem_exchange *x, const char *id,
		      const struct flmem_upload_record *record)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	int rc;

	flmem_upload_record_print(record, &text);
	rc = text.failed ? -ENOMEM : make_file(x, id, ".data");
	if (!rc)
		rc = make_file(x, id, ".journal");
	return rc ? rc
		  : flmem_spool_write(x->spool.uploads, upload_file_name(id, ".info").text,
				      text.data, text.length);
}

int flmem_uploads_create(struct flmem_exchange *x, const struct flmem_upload_record *record,
			 struct flmem_upload **ret_upload, struct flmem_error *err)
{
	unsigned char random[FLMEM_EXCHANGE_ID_DIGITS / 2];
	char id[FLMEM_EXCHANGE_ID_DIGITS + 1];
	struct flmem_upload *upload;
	int rc;

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot make an upload");
	flmem_hex_print(random, sizeof(random), id);
	upload = add_upload(x, id, record);
	if (!upload)
		return flmem_error_nomem(err, "cannot make an upload");
	/* Mark it as in use, so that no other request takes it; its size counts from now on. */
	upload->checking = true;
	pthread_mutex_unlock(&x->lock);
	rc = make_files(x, id, record);
	pthread_mutex_lock(&x->lock);
	upload = flmem_uploads_find(x, id);
	if (upload && rc)
		drop_upload(x, upload);
	if (!upload || rc) {
		remove_files(x, id);
		return flmem_error_set(err, FLMEM_EFAILED, rc ? -rc : ECANCELED,
				       "cannot make an upload");
	}
	upload->checking = false;
	x->counters.uploads++;
	*ret_upload = upload;
	return 0;
}

int flmem_uploads_open_client(const struct flmem_exchange *x, uint64_t round, const char *client)
{
	FLMEM_AUTO_CLOSE int at = flmem_spool_open_round(&x->spool, round);
	FLMEM_AUTO_CLOSE int updates = at < 0 ? at : flmem_spool_open_directory(at, "updates");

	return updates < 0 ? updates : flmem_spool_open_directory(updates, client);
}

void flmem_uploads_remove(struct flmem_exchange *x, struct flmem_upload *upload)
{
	const struct flmem_tus_metadata *m = &upload->record.metadata;

	remove_files(x, upload->id);
	if (upload->placed) {
		FLMEM_AUTO_CLOSE int client = flmem_uploads_open_client(x, m->round, m->client);

		if (client >= 0)
			unlinkat(client, m->filename, 0);
	}
	drop_upload(x, upload);
	pthread_cond_broadcast(&x->changed);
}

int flmem_uploads_delete(struct flmem_exchange *x, struct flmem_upload *upload)
{
	/* If the record stayed, the upload would be back after a restart. */
	if (unlinkat(x->spool.uploads, upload_file_name(upload->id, ".info").text, 0) < 0 &&
	    errno != ENOENT)
		return -errno;
	flmem_uploads_remove(x, upload);
	return 0;
}

bool flmem_upload_is_gone(struct flmem_exchange *x, const char *id)
{
	bool gone;

	pthread_mutex_lock(&x->lock);
	gone = !flmem_uploads_find(x, id);
	pthread_mutex_unlock(&x->lock);
	return gone;
}

/* Waits for a change until `time` of the monotonic clock. */
static bool wait_change(struct flmem_exchange *x, const struct timespec *time)
{
	return pthread_cond_timedwait(&x->changed, &x->lock, time) == 0;
}

bool flmem_upload_is_unchecked(const struct flmem_upload *upload)
{
	return upload->offset == upload->record.length && !upload->record.partial &&
	       !upload->counted && !upload->combined && (upload->writer || upload->checking);
}

struct flmem_upload *flmem_uploads_await_checked(struct flmem_exchange *x, const char *id)
{
	struct timespec end = flmem_clock_after_us(SEIZE_US);
	struct flmem_upload *upload;
	bool patient = true;

	while ((upload = flmem_uploads_find(x, id)) && flmem_upload_is_unchecked(upload) &&
	       patient && !x->stopping)
		patient = wait_change(x, &end);
	return upload;
}

bool flmem_uploads_seize(struct flmem_exchange *x, const char *id,
			 struct flmem_http_request *request)
{
	struct timespec end = flmem_clock_after_us(SEIZE_US);
	struct flmem_upload *upload;
	bool patient = true;

	while ((upload = flmem_uploads_find(x, id)) && upload->writer && patient) {
		flmem_http_request_cut(upload->writer);
		flmem_lockstep_end_wait(x, upload);
		patient = wait_change(x, &end);
	}
	if (!upload || upload->writer || upload->checking)
		return false;
	upload->writer = request;
	upload->touched_us = flmem_clock_us();
	return true;
}

void flmem_uploads_release(struct flmem_exchange *x, struct flmem_upload *upload)
{
	upload->writer = NULL;
	upload->touched_us = flmem_clock_us();
	pthread_cond_broadcast(&x->changed);
}

int flmem_uploads_open(struct flmem_exchange *x, const char *id)
{
	return flmem_spool_open_file(x->spool.uploads, upload_file_name(id, ".data").text, O_RDWR);
}

int flmem_uploads_journal(struct flmem_exchange *x, const char *id,
			  const struct flmem_upload_commit *commit, bool last)
{
	FLMEM_AUTO_CLOSE int fd = flmem_spool_open_file(
		x->spool.uploads, upload_file_name(id, ".journal").text, O_WRONLY | O_APPEND);
	unsigned char bytes[FLMEM_UPLOAD_JOURNAL_BYTES];
	struct stat before;
	int rc;

	if (fd < 0)
		return fd;
	if (fstat(fd, &before) < 0)
		return -errno;
	flmem_upload_commit_print(commit, bytes);
	rc = flmem_io_write_all(fd, bytes, sizeof(bytes));
	/* A lost record costs its bytes again, but a complete upload was confirmed: flush it. */
	if (!rc && last && fdatasync(fd) < 0)
		rc = -errno;
	/* Cut off the unconfirmed record; records after a partial one would not count. */
	if (rc)
		(void)!ftruncate(fd, before.st_size);
	return rc;
}

void flmem_uploads_take_back(struct flmem_exchange *x, const char *id,
			     const struct flmem_upload_commit *before)
{
	struct flmem_upload *upload;

	pthread_mutex_lock(&x->lock);
	upload = flmem_uploads_find(x, id);
	if (upload && upload->commits) {
		FLMEM_AUTO_CLOSE int fd = flmem_spool_open_file(
			x->spool.uploads, upload_file_name(id, ".journal").text, O_WRONLY);

		upload->commits = before->end ? upload->commits - 1 : 0;
		upload->offset = before->end;
		upload->crc32c = before->crc32c;
		upload->flushed = before->end < upload->flushed ? before->end : upload->flushed;
		/* If the truncation fails, the record that stays equals the one that follows. */
		if (fd >= 0)
			(void)!ftruncate(fd, (off_t)(upload->commits * FLMEM_UPLOAD_JOURNAL_BYTES));
	}
	pthread_mutex_unlock(&x->lock);
}

/* Returns true if the file has the bytes of a commit as they were written. */
static bool is_commit_intact(int fd, uint64_t begin, const struct flmem_upload_commit *commit)
{
	char block[16384];
	uint32_t crc = 0;

	for (uint64_t at = begin, bytes; at < commit->end; at += bytes) {
		bytes = commit->end - at < sizeof(block) ? commit->end - at : sizeof(block);
		if (!flmem_io_read_at(fd, at, block, (size_t)bytes))
			return false;
		crc = flmem_crc32c(crc, block, (size_t)bytes);
	}
	return crc == commit->crc32c;
}

/* Returns how many commits from `first` on are intact, before the first one that is not. */
static size_t count_intact_from(int fd, const struct flmem_upload_commit *commits, size_t count,
				size_t first)
{
	size_t i;

	for (i = first; i < count; i++)
		if (!is_commit_intact(fd, i ? commits[i - 1].end : 0, &commits[i]))
			break;
	return i - first;
}

/* Returns how many commits have their bytes; those that a power failure may have taken are read. */
static size_t count_intact(int fd, const struct flmem_upload_commit *commits, size_t count)
{
	uint64_t end = count ? commits[count - 1].end : 0;
	size_t first = count ? count - 1 : 0, intact;

	while (first && end - commits[first - 1].end < FLMEM_UPLOAD_UNFLUSHED_MAX)
		first--;
	intact = count_intact_from(fd, commits, count, first);
	/* If all of these are damaged, a disk that reports false flushes has lost more. */
	for (; first && !intact; first--)
		intact = count_intact_from(fd, commits, first, first - 1);
	return first + intact;
}

static uint32_t join_commits(const struct flmem_upload_commit *commits, size_t count)
{
	uint32_t crc = 0;

	for (size_t i = 0; i < count; i++)
		crc = flmem_crc32c_join(crc, commits[i].crc32c,
					commits[i].end - (i ? commits[i - 1].end : 0));
	return crc;
}

/* Loads the journal, and cuts it off after its last valid record. */
static int load_journal(struct flmem_exchange *x, struct flmem_upload *upload, int data)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct upload_name name = upload_file_name(upload->id, ".journal");
	FLMEM_AUTO_CLOSE int fd = flmem_spool_open_file(x->spool.uploads, name.text, O_RDWR);
	size_t count;
	int rc = fd < 0 ? fd : flmem_spool_read(x->spool.uploads, name.text, &text);
	FLMEM_AUTO_FREE struct flmem_upload_commit *commits = NULL;

	if (rc)
		return rc;
	count = text.length / FLMEM_UPLOAD_JOURNAL_BYTES;
	commits = calloc(count + 1, sizeof(*commits));
	if (!commits)
		return -ENOMEM;
	count = flmem_upload_journal_parse((unsigned char *)text.data, count, upload->record.length,
					   commits);
	if (data >= 0)
		count = count_intact(data, commits, count);
	upload->commits = count;
	upload->offset = count ? commits[count - 1].end : 0;
	upload->crc32c = join_commits(commits, count);
	return ftruncate(fd, (off_t)(count * FLMEM_UPLOAD_JOURNAL_BYTES)) < 0 ? -errno : 0;
}

/* Returns true for an error of the file itself; after others it may be readable later. */
static bool is_no_file(int rc)
{
	return rc == -ENOENT || rc == -EINVAL || rc == -ELOOP || rc == -EISDIR || rc == -EFBIG;
}

/* Loads a record. Returns 0, NOT_KEPT, or -errno. */
static int load_record(const struct flmem_exchange *x, const char *id,
		       struct flmem_upload_record *record)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	const struct flmem_tus_metadata *m = &record->metadata;
	int rc = flmem_spool_read(x->spool.uploads, upload_file_name(id, ".info").text, &text);

	if (rc)
		return is_no_file(rc) ? NOT_KEPT : rc;
	if (!flmem_upload_record_parse(text.data, record))
		return NOT_KEPT;
	return m->round == x->round || m->round + 1 == x->round ? 0 : NOT_KEPT;
}

/* Finds the bytes of an upload in the folder of its update. Returns 0, NOT_KEPT, or -errno. */
static int load_placed(const struct flmem_exchange *x, struct flmem_upload *upload)
{
	const struct flmem_tus_metadata *m = &upload->record.metadata;
	FLMEM_AUTO_CLOSE int client = flmem_uploads_open_client(x, m->round, m->client);
	FLMEM_AUTO_CLOSE int placed =
		client < 0 ? client : flmem_spool_open_file(client, m->filename, O_RDONLY);

	upload->placed = placed >= 0;
	if (upload->placed)
		return 0;
	return is_no_file(placed) ? NOT_KEPT : placed;
}

/* Finds out how far an upload was, by the place of its bytes. Returns 0, NOT_KEPT, or -errno. */
static int load_progress(struct flmem_exchange *x, struct flmem_upload *upload)
{
	FLMEM_AUTO_CLOSE int data = flmem_uploads_open(x, upload->id);
	int rc = data < 0 && !is_no_file(data) ? data : 0;

	if (!rc && data < 0 && !upload->combined)
		rc = load_placed(x, upload);
	if (!rc)
		rc = load_journal(x, upload, data);
	if (rc)
		return is_no_file(rc) ? NOT_KEPT : rc;
	/* Beyond its round only an upload that counted is kept, without its bytes. */
	if (upload->combined && data >= 0 && !flmem_lockstep_was_combined(x, upload))
		return NOT_KEPT;
	upload->counted = upload->combined;
	if (upload->combined)
		upload->offset = upload->record.length; /* whatever the journal has */
	return 0;
}

static int load_upload(struct flmem_exchange *x, const char *id)
{
	struct flmem_upload_record record;
	struct flmem_upload *upload;
	int rc = load_record(x, id, &record);

	if (rc)
		return rc;
	upload = add_upload(x, id, &record);
	if (!upload)
		return -ENOMEM;
	upload->combined = record.metadata.round != x->round || x->verified;
	rc = load_progress(x, upload);
	if (rc)
		drop_upload(x, upload);
	return rc;
}

/* Returns the next entry. Returns false at the end with 0 in *ret_rc, or with -errno. */
static bool next_spooled(DIR *list, struct dirent **ret_entry, int *ret_rc)
{
	errno = 0;
	*ret_entry = readdir(list);
	*ret_rc = *ret_entry ? 0 : -errno;
	return *ret_entry;
}

/* Loads the upload of one name in the directory. Returns 0 or -errno. */
static int load_name(struct flmem_exchange *x, const char *name)
{
	size_t length = strcspn(name, ".");
	char text[FLMEM_EXCHANGE_ID_DIGITS + 1] = "", id[sizeof(text)];
	bool valid = length == FLMEM_EXCHANGE_ID_DIGITS;
	int rc = 0;

	if (valid) {
		memcpy(text, name, length);
		valid = flmem_tus_id_parse(text, id);
	}
	if (!valid && name[0] == '.')
		return 0; /* "." and ".."; temporary files, which are few and small */
	if (valid && strcmp(name + length, ".info") == 0)
		rc = load_upload(x, id);
	if (!valid || rc == NOT_KEPT)
		flmem_spool_remove(x->spool.uploads, name);
	return rc == NOT_KEPT ? 0 : rc;
}

/* Removes what an interrupted creation or removal left: files of no loaded upload. */
static void remove_rest(struct flmem_exchange *x, DIR *list)
{
	struct dirent *entry;
	char id[FLMEM_EXCHANGE_ID_DIGITS + 1];

	rewinddir(list);
	while ((entry = readdir(list))) {
		snprintf(id, sizeof(id), "%.*s", (int)FLMEM_EXCHANGE_ID_DIGITS, entry->d_name);
		if (entry->d_name[0] != '.' && !flmem_uploads_find(x, id))
			flmem_spool_remove(x->spool.uploads, entry->d_name);
	}
}

int flmem_uploads_load(struct flmem_exchange *x, struct flmem_error *err)
{
	FLMEM_AUTO_DIR DIR *list = flmem_io_open_dir(x->spool.uploads, ".");
	struct dirent *entry;
	int rc;

	if (!list)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot list '%s/uploads'",
				       x->spool.path);
	while (next_spooled(list, &entry, &rc)) {
		rc = load_name(x, entry->d_name);
		if (rc)
			return flmem_error_set(err, FLMEM_EFAILED, -rc,
					       "cannot read the upload '%s/uploads/%s'",
					       x->spool.path, entry->d_name);
	}
	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot list '%s/uploads'",
				       x->spool.path);
	remove_rest(x, list);
	return 0;
}

void flmem_uploads_unseize(struct flmem_exchange *x, const char *id,
			   const struct flmem_http_request *request)
{
	struct flmem_upload *upload;

	pthread_mutex_lock(&x->lock);
	upload = flmem_uploads_find(x, id);
	if (upload && (!request || upload->writer == request)) {
		flmem_uploads_release(x, upload);
		/* The round of the upload ended while it was in use. */
		if (upload->record.metadata.round < x->round && !upload->combined)
			flmem_uploads_remove(x, upload);
	}
	pthread_mutex_unlock(&x->lock);
}

void flmem_uploads_expire(struct flmem_exchange *x)
{
	uint64_t now_us = flmem_clock_us();

	for (struct flmem_upload *u = x->uploads, *next; u; u = next) {
		next = u->next;
		if (u->writer || u->checking || u->placed || u->combined ||
		    flmem_lockstep_holds(x, u) || now_us - u->touched_us < x->expire_us)
			continue;
		flmem_exchange_log(x, &(struct flmem_exchange_note){
					      .event = "upload-expired",
					      .warning = true,
					      .round = u->record.metadata.round,
					      .client = u->record.metadata.client,
					      .bytes = u->offset,
				      });
		flmem_uploads_remove(x, u);
	}
}

void flmem_uploads_resume(struct flmem_exchange *x, uint64_t paused_us)
{
	for (struct flmem_upload *u = x->uploads; u; u = u->next)
		u->touched_us = flmem_paused_time_later(u->touched_us, paused_us);
}

void flmem_uploads_retire(struct flmem_exchange *x, uint64_t round)
{
	for (struct flmem_upload *u = x->uploads, *next; u; u = next) {
		next = u->next;
		if (u->record.metadata.round > round)
			continue;
		if (u->record.metadata.round == round && u->counted) {
			u->combined = true;
			u->placed = false;
		} else if (!u->writer && !u->checking) {
			flmem_uploads_remove(x, u);
		}
	}
}

void flmem_uploads_clear(struct flmem_exchange *x)
{
	while (x->uploads)
		drop_upload(x, x->uploads);
}
