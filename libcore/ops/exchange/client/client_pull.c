/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <flmem/exchange_client.h>

#include "base/clock.h"
#include "base/files/file_place.h"
#include "base/files/io.h"
#include "base/text/text.h"
#include "exchange/wire.h"
#include "model/shards.h"
#include "ops/exchange/client/client.h"
#include "ops/exchange/client/client_json.h"
#include "ops/exchange/client/client_target.h"

#define INDEX_MAX (8U << 20)
/*
 * Progress that resets the count of failures, unless half of the rest is less: with smaller steps a
 * pull might never end.
 */
#define PROGRESS_BYTES (UINT64_C(64) << 10)

struct pull_session {
	struct flmem_exchange_client *client;
	const struct flmem_exchange_pull_request *request;
	struct flmem_exchange_pull_result *result;
	struct flmem_exchange_index index;
	struct flmem_connection_answer answer;
	struct flmem_file_place place; /* place of the output file */
	int directory;		       /* the output directory; -1: the output is a file */
	struct flmem_pull_target *targets;
	uint64_t finished; /* bytes of files that are complete */
};

static void clear_pull_session(struct pull_session *pull)
{
	for (size_t i = 0; pull->targets && i < pull->index.count; i++)
		flmem_pull_target_clear(&pull->targets[i]);
	free(pull->targets);
	flmem_exchange_index_clear(&pull->index);
	flmem_connection_answer_clear(&pull->answer);
	flmem_file_place_close(&pull->place);
	if (pull->directory >= 0)
		close(pull->directory);
}

static int fetch_index(struct pull_session *pull, struct flmem_error *err)
{
	const struct flmem_connection_request options = {
		.name = "cannot fetch the model",
		.answer_max = INDEX_MAX,
	};
	const struct flmem_exchange_pull_request *request = pull->request;
	char path[64] = FLMEM_EXCHANGE_ROUNDS_PATH "latest/model";
	int rc;

	if (request->has_round)
		snprintf(path, sizeof(path), FLMEM_EXCHANGE_ROUNDS_PATH "%llu/model",
			 (unsigned long long)request->round);
	rc = flmem_exchange_client_get(pull->client, path, &options, &pull->answer, err);
	if (!rc)
		rc = flmem_exchange_index_parse(&pull->answer.body, pull->client->name,
						&pull->index, err);
	if (!rc && request->has_round && pull->index.round != request->round)
		rc = flmem_error_set(err, FLMEM_EFAILED, 0,
				     "'%s' sends the files of round %llu for round %llu",
				     pull->client->name, (unsigned long long)pull->index.round,
				     (unsigned long long)request->round);
	pull->result->round = pull->index.round;
	return rc;
}

static bool compares_only(const struct pull_session *pull)
{
	return strcmp(pull->request->output, FLMEM_AGGREGATE_VERIFY) == 0;
}

/*
 * Locks the output directory: complete parts are closed, because a model may have more files than
 * can be open, and closing one releases its lock. Some network file systems cannot lock a
 * directory.
 */
static int lock_output(const struct pull_session *pull, struct flmem_error *err)
{
	int kind = pull->index.count > 1 ? LOCK_EX : LOCK_SH;

	if (pull->directory < 0 || flock(pull->directory, kind | LOCK_NB) == 0 ||
	    errno != EWOULDBLOCK)
		return 0;
	return flmem_error_set(err, FLMEM_EUNSAFE, 0, "another process fetches files to '%s' now",
			       pull->request->output);
}

/* Opens the output: a directory that exists, a new one for several files, or a file. */
static int open_output(struct pull_session *pull, struct flmem_error *err)
{
	const char *output = pull->request->output;
	int rc;

	if (compares_only(pull))
		return 0;
	pull->directory = open(output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (pull->directory >= 0)
		return 0;
	if (pull->index.count == 1 && !flmem_text_ends(output, "/")) {
		rc = flmem_file_place_open(output, &pull->place);
		return rc ? flmem_error_set(err, flmem_code_of_open(-rc), -rc, "cannot write '%s'",
					    output)
			  : 0;
	}
	if (mkdir(output, 0777) && errno != EEXIST)
		return flmem_error_set(err, flmem_code_of_open(errno), errno,
				       "cannot make the folder '%s'", output);
	pull->directory = open(output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (pull->directory < 0 && flmem_code_of_open(errno) == FLMEM_EFAILED)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot open the folder '%s'",
				       output);
	if (pull->directory < 0)
		return flmem_error_set(err, flmem_code_of_open(errno), errno,
				       "round %llu has %zu files; '%s' is not a folder for them",
				       (unsigned long long)pull->index.round, pull->index.count,
				       output);
	return 0;
}

/* A request for the missing bytes of a part. */
struct part_request {
	struct pull_session *pull;
	struct flmem_pull_target *target;
	/* Highest offset so far; progress above it resets the count of failures. */
	uint64_t highest;
	bool checked;	/* the headers of this answer were checked */
	bool restarted; /* the server sends the file from its start */
	struct flmem_error why;
	int rc; /* why the received bytes are rejected; 0: they are not */
};

static int refuse_part(struct part_request *part, const char *why)
{
	return flmem_error_set(&part->why, FLMEM_EFAILED, 0, "'%s' sends %s for '%s'",
			       part->pull->client->name, why, part->target->file->name);
}

static int check_part_reply(struct part_request *part, const struct flmem_reply *reply)
{
	const struct flmem_exchange_file *file = part->target->file;
	uint64_t left = file->bytes - part->target->at;
	char etag[FLMEM_SHA256_HEX + 2];

	snprintf(etag, sizeof(etag), "\"%s\"", file->sha256);
	if (reply->etag[0] && strcmp(reply->etag, etag) != 0)
		return refuse_part(part, "a version that differs from its list");
	if (reply->encoded)
		return refuse_part(part, "compressed data, which were not requested,");
	if (reply->status == 200) {
		part->restarted = part->target->at;
		left = file->bytes;
	} else if (!reply->has_range || reply->invalid_range || reply->first != part->target->at ||
		   reply->size != file->bytes || reply->last + 1 != file->bytes) {
		return refuse_part(part, "a range that was not requested");
	}
	if (reply->has_length && reply->length != left)
		return refuse_part(part, "more or fewer bytes than announced");
	return part->restarted ? flmem_pull_target_restart(part->target, &part->why) : 0;
}

/*
 * Notes progress of at least PROGRESS_BYTES; otherwise a server that closes after each byte would
 * be asked for each.
 */
static void note_part(struct part_request *part)
{
	uint64_t at = part->target->at, left = part->target->file->bytes - part->highest;

	if (at <= part->highest ||
	    (at - part->highest < PROGRESS_BYTES && at - part->highest < left / 2))
		return;
	part->highest = at;
	flmem_exchange_client_progressed(part->pull->client);
}

static bool take_part(void *context, const struct flmem_reply *reply, const char *bytes,
		      size_t length)
{
	struct part_request *part = context;
	struct flmem_pull_target *target = part->target;
	struct flmem_exchange_client *client = part->pull->client;

	if (!part->checked)
		part->rc = check_part_reply(part, reply);
	part->checked = true;
	if (!part->rc && length > target->file->bytes - target->at)
		part->rc = refuse_part(part, "more bytes than announced");
	if (!part->rc)
		part->rc = flmem_pull_target_append(target, bytes, length, &part->why);
	if (part->rc)
		return false;
	client->progress.done_bytes = part->pull->finished + target->at;
	note_part(part);
	return true;
}

/* Sends one request. FLMEM_CONNECTION_OK: continue if the part is not complete. */
static enum flmem_connection_step request_part(struct part_request *part, const char *url,
					       struct flmem_error *err)
{
	const struct flmem_pull_target *target = part->target;
	struct pull_session *pull = part->pull;
	char range[64], condition[FLMEM_SHA256_HEX + 32];
	const char *const headers[] = {range, condition, NULL};
	const struct flmem_connection_request request = {
		.method = "GET",
		.url = url,
		.name = pull->client->name,
		.headers = target->at ? headers : NULL,
		.answer_max = FLMEM_EXCHANGE_ANSWER_MAX,
		.take = take_part,
		.context = part,
	};
	enum flmem_connection_step step;
	unsigned status;

	snprintf(range, sizeof(range), "Range: bytes=%llu-", (unsigned long long)target->at);
	snprintf(condition, sizeof(condition), "If-Range: \"%s\"", target->file->sha256);
	part->checked = part->restarted = false;
	part->rc = 0;
	step = flmem_exchange_client_try(pull->client, &request, &pull->answer, err);
	if (part->rc) {
		*err = part->why;
		return FLMEM_CONNECTION_FAIL;
	}
	status = pull->answer.reply.status;
	if (step != FLMEM_CONNECTION_OK || status == 200 || status == 206)
		return step;
	flmem_exchange_client_refused(pull->client, "cannot fetch the model", &pull->answer, err);
	return FLMEM_CONNECTION_FAIL;
}

static int fetch_part(struct part_request *part, const char *url, struct flmem_error *err)
{
	const struct flmem_pull_target *target = part->target;
	struct pull_session *pull = part->pull;
	int rc;

	while (target->at < target->file->bytes) {
		enum flmem_connection_step step = request_part(part, url, err);

		if (step == FLMEM_CONNECTION_FAIL)
			return err->code;
		if (target->at == target->file->bytes)
			break;
		if (step == FLMEM_CONNECTION_OK)
			refuse_part(part, "fewer bytes than announced");
		if (step == FLMEM_CONNECTION_OK)
			*err = part->why;
		rc = flmem_exchange_client_pause(pull->client, &pull->answer, err);
		if (rc)
			return rc;
	}
	return 0;
}

/*
 * Fetches a file and verifies it. Data of an earlier run that turn out to be damaged are fetched
 * again, once.
 */
static int fetch_verified(struct part_request *part, const char *url, struct flmem_error *err)
{
	struct flmem_pull_target *target = part->target;
	bool resumed = target->resumed;
	int rc = fetch_part(part, url, err);

	if (!rc)
		rc = flmem_pull_target_finish(target, err);
	if (rc && !target->complete && resumed && target->at == target->file->bytes) {
		part->pull->result->resumed_bytes = 0;
		flmem_pull_target_clear(target);
		target->at = 0;
		rc = flmem_pull_target_open(target, err);
		part->highest = target->at;
		if (!rc)
			rc = fetch_part(part, url, err);
		if (!rc)
			rc = flmem_pull_target_finish(target, err);
	}
	return rc;
}

static int fetch_file(struct pull_session *pull, size_t number, struct flmem_error *err)
{
	const struct flmem_exchange_file *file = &pull->index.files[number];
	struct flmem_pull_target *target = &pull->targets[number];
	struct part_request part = {.pull = pull, .target = target};
	FLMEM_AUTO_FREE char *url = NULL;
	int rc;

	target->directory = pull->directory >= 0 ? pull->directory : pull->place.directory;
	target->unwritten = compares_only(pull);
	target->name = pull->directory >= 0 || target->unwritten ? file->name : pull->place.name;
	target->file = file;
	rc = flmem_pull_target_open(target, err);
	if (rc)
		return rc;
	pull->result->resumed_bytes += target->at;
	part.highest = target->at;
	if (asprintf(&url, "%s" FLMEM_EXCHANGE_ROUNDS_PATH "%llu/model/%s", pull->client->base,
		     (unsigned long long)pull->index.round, file->name) < 0) {
		url = NULL;
		return flmem_error_nomem(err, "cannot fetch '%s'", file->name);
	}
	rc = fetch_verified(&part, url, err);
	if (!rc && pull->index.count > 1)
		flmem_pull_target_clear(target);
	pull->finished += rc ? 0 : file->bytes;
	return rc;
}

/* Checks that the received file is at the path where the user expects it. */
static int check_output_place(const struct pull_session *pull, struct flmem_error *err)
{
	struct stat there, here;

	if (pull->directory < 0)
		return flmem_file_place_check(&pull->place, err);
	if (stat(pull->request->output, &there) < 0 || fstat(pull->directory, &here) < 0) {
		if (flmem_code_of_open(errno) == FLMEM_EFAILED)
			return flmem_error_set(err, FLMEM_EFAILED, errno,
					       "cannot find the folder '%s'",
					       pull->request->output);
	} else if (flmem_file_is_same(&there, &here)) {
		return 0;
	}
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "the folder '%s' was moved, replaced or closed to this user while "
			       "the model was received; run the command again",
			       pull->request->output);
}

/*
 * Renames all files. The index of shards is written last: through it readers of the folder see
 * either old or new shards.
 */
static int rename_targets(struct pull_session *pull, struct flmem_error *err)
{
	int rc;

	if (compares_only(pull))
		return 0;
	rc = check_output_place(pull, err);
	for (unsigned last = 0; last < 2; last++)
		for (size_t i = 0; i < pull->index.count && !rc; i++)
			if ((strcmp(pull->targets[i].name, FLMEM_SHARDS_INDEX) == 0) == (last == 1))
				rc = flmem_pull_target_rename(&pull->targets[i], err);
	return rc;
}

static int pull_files(struct pull_session *pull, struct flmem_error *err)
{
	int rc = fetch_index(pull, err);

	if (!rc)
		rc = open_output(pull, err);
	if (!rc)
		rc = lock_output(pull, err);
	if (rc)
		return rc;
	pull->targets = calloc(pull->index.count, sizeof(*pull->targets));
	if (!pull->targets)
		return flmem_error_nomem(err, "cannot fetch the model");
	for (size_t i = 0; i < pull->index.count; i++)
		pull->targets[i] = (struct flmem_pull_target)FLMEM_PULL_TARGET_INIT;
	flmem_exchange_client_show(pull->client, pull->index.bytes);
	for (size_t i = 0; i < pull->index.count && !rc; i++)
		rc = fetch_file(pull, i, err);
	return rc ? rc : rename_targets(pull, err);
}

int flmem_exchange_pull(const struct flmem_exchange_pull_request *request,
			struct flmem_exchange_pull_result *ret_result, struct flmem_error *err)
{
	FLMEM_AUTO_EXCHANGE_CLIENT struct flmem_exchange_client client = {0};
	struct flmem_exchange_pull_result result = {0};
	FLMEM_AUTO(clear_pull_session)
	struct pull_session pull = {
		.client = &client,
		.request = request,
		.result = &result,
		.answer = FLMEM_CONNECTION_ANSWER_INIT,
		.place = FLMEM_FILE_PLACE_INIT,
		.directory = -1,
	};
	uint64_t began_us = flmem_clock_us();
	struct flmem_error why = {0};
	int rc = flmem_exchange_client_open(&client, request->server, &why);

	if (!rc)
		rc = pull_files(&pull, &why);
	if (rc && err)
		*err = why;
	if (rc)
		return rc;
	result.files = pull.index.count;
	result.bytes = pull.index.bytes;
	result.retries = client.retries;
	result.took_us = flmem_clock_us() - began_us;
	*ret_result = result;
	return 0;
}
