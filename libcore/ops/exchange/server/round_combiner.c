/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/server/round_combiner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <flmem/parse.h>

#include "aggregate/algorithm.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/files/file_place.h"
#include "base/files/io.h"
#include "base/text/text.h"
#include "base/thread.h"
#include "exchange/valid_names.h"
#include "ops/exchange/server/lockstep.h"
#include "ops/exchange/server/lockstep_combine.h"
#include "ops/exchange/server/publish.h"
#include "ops/exchange/server/update.h"
#include "ops/exchange/server/uploads.h"
#include "ops/exchange/server/verified_round.h"

#define OPTIMIZER  "optimizer.safetensors"
#define COPY_BYTES ((size_t)1 << 20)

/*
 * Sorts updates by client. The order of the inputs decides how sums are rounded, so it must not
 * depend on arrival.
 */
static int compare_updates(const void *a, const void *b)
{
	return strcmp(((const struct flmem_update *)a)->client,
		      ((const struct flmem_update *)b)->client);
}

/*
 * Writes the list of updates to combine, whatever is sent later: their number, then "WEIGHT CLIENT
 * PATH" for each.
 */
static int write_inputs(struct flmem_exchange *x, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	FLMEM_AUTO_CLOSE int round = flmem_spool_open_round(&x->spool, x->round);
	size_t prefix = strlen(x->spool.path);
	int rc = round < 0 ? round : 0;

	pthread_mutex_lock(&x->lock);
	qsort(x->updates, x->update_count, sizeof(*x->updates), compare_updates);
	pthread_mutex_unlock(&x->lock);
	flmem_buf_printf(&text, "%zu\n", x->update_count);
	for (size_t i = 0; i < x->update_count; i++)
		flmem_buf_printf(&text, "%.17g %s %s\n", x->updates[i].weight, x->updates[i].client,
				 x->updates[i].path + prefix);
	if (!rc)
		rc = text.failed ? -ENOMEM
				 : flmem_spool_write(round, "inputs", text.data, text.length);
	return rc ? flmem_error_set(err, FLMEM_EFAILED, -rc,
				    "cannot write '%s/rounds/%" PRIu64 "/inputs'", x->spool.path,
				    x->round)
		  : 0;
}

static bool parse_input(struct flmem_exchange *x, char *line)
{
	const char *weight = strsep(&line, " "), *client = strsep(&line, " ");
	struct flmem_update update = {0};

	if (!client || !line || x->update_count == x->options->clients ||
	    flmem_parse_real(weight, &update.weight, NULL) ||
	    !flmem_exchange_client_name_is_valid(client) ||
	    asprintf(&update.path, "%s%s", x->spool.path, line) < 0)
		return false;
	memcpy(update.client, client, strlen(client) + 1);
	x->updates[x->update_count++] = update;
	return true;
}

static bool parse_inputs(struct flmem_exchange *x, char *text)
{
	const char *number = strsep(&text, "\n");
	uint64_t count;
	char *line;

	if (!text || !flmem_text_read_digits(&number, &count) || *number)
		return false;
	while ((line = strsep(&text, "\n")) && *line)
		if (!parse_input(x, line))
			return false;
	return count && x->update_count == count;
}

int flmem_combiner_recover(struct flmem_exchange *x, bool *ret_found, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	FLMEM_AUTO_CLOSE int round = flmem_spool_open_round(&x->spool, x->round);
	int rc = round < 0 ? round : flmem_spool_read(round, "inputs", &text);

	*ret_found = false;
	if (rc == -ENOENT)
		return 0;
	if (rc && rc != -EINVAL)
		return flmem_error_set(err, FLMEM_EFAILED, -rc,
				       "cannot read '%s/rounds/%" PRIu64 "/inputs'", x->spool.path,
				       x->round);
	if (rc || !parse_inputs(x, text.data))
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "'%s/rounds/%" PRIu64 "/inputs' is damaged, which names the "
				       "updates that are combined; restore it, or name another "
				       "--state",
				       x->spool.path, x->round);
	for (struct flmem_upload *u = x->uploads; u; u = u->next)
		for (size_t i = 0; i < x->update_count; i++)
			u->counted |= u->placed &&
				      strcmp(u->record.metadata.client, x->updates[i].client) == 0;
	*ret_found = true;
	return 0;
}

static int copy_optimizer(int from, int to)
{
	FLMEM_AUTO_FREE char *block = malloc(COPY_BYTES);
	off_t at = 0;
	ssize_t got;

	if (!block)
		return -ENOMEM;
	for (; (got = read(from, block, COPY_BYTES)) > 0; at += got) {
		int rc = flmem_io_write_all(to, block, (size_t)got);

		if (rc)
			return rc;
		/* Otherwise the disk would start at the flush, when all is copied. */
		sync_file_range(to, at, got, SYNC_FILE_RANGE_WRITE);
	}
	return got < 0 || fdatasync(to) < 0 ? -errno : 0;
}

/*
 * Prepares the algorithm's state, one file per round. A round that was interrupted, even between
 * the commits of its two outputs, begins with the state of the round before.
 */
static int prepare_optimizer(struct flmem_exchange *x, int next, struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int last = flmem_spool_open_round(&x->spool, x->round);
	FLMEM_AUTO_CLOSE int from =
		last < 0 ? last : flmem_spool_open_file(last, OPTIMIZER, O_RDONLY);
	FLMEM_AUTO_CLOSE int to = -1;
	int rc = 0;

	flmem_spool_remove(next, OPTIMIZER);
	if (from == -ENOENT && !x->round)
		return 0;
	if (from >= 0)
		to = flmem_spool_open_file(next, OPTIMIZER, O_WRONLY | O_CREAT | O_EXCL);
	rc = from < 0 ? from : to < 0 ? to : copy_optimizer(from, to);
	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, -rc,
				       "cannot copy the state of the optimizer of round %" PRIu64,
				       x->round);
	return 0;
}

struct combine_call {
	struct flmem_aggregate_request request;
	const char **inputs;
	double *weights;
	char *output, *base, *state;
};

static void clear_call_texts(struct combine_call *call)
{
	free(call->inputs);
	free(call->weights);
	free(call->output);
	free(call->base);
	free(call->state);
}

static bool continue_combining(void *context, const struct flmem_aggregate_progress *progress)
{
	struct flmem_exchange *x = context;
	bool stopping;

	(void)progress;
	pthread_mutex_lock(&x->lock);
	stopping = x->stopping;
	pthread_mutex_unlock(&x->lock);
	return !stopping;
}

static bool fill_combine_call(struct flmem_exchange *x, const struct flmem_algorithm *algorithm,
			      struct combine_call *call)
{
	struct flmem_aggregate_request *request = &call->request;

	*request = x->options->aggregate;
	call->inputs = calloc(x->update_count, sizeof(*call->inputs));
	call->weights = calloc(x->update_count, sizeof(*call->weights));
	call->output = flmem_exchange_verifies(x) ? strdup(FLMEM_AGGREGATE_VERIFY)
						  : flmem_published_path(x, x->round + 1);
	call->base = flmem_published_path(x, x->round);
	if (asprintf(&call->state, "%s/rounds/%" PRIu64 "/" OPTIMIZER, x->spool.path,
		     x->round + 1) < 0)
		call->state = NULL;
	if (!call->inputs || !call->weights || !call->output || !call->base || !call->state)
		return false;
	for (size_t i = 0; i < x->update_count; i++) {
		call->inputs[i] = x->updates[i].path;
		if (flmem_exchange_verifies(x))
			call->inputs[i] = flmem_verified_model(x, x->updates[i].client);
		if (!call->inputs[i])
			return false;
		call->weights[i] = x->updates[i].weight;
	}
	request->inputs = call->inputs;
	request->input_count = x->update_count;
	request->output = call->output;
	request->weights = algorithm->weighted ? call->weights : NULL;
	request->state = algorithm->slots ? call->state : NULL;
	request->base = algorithm->takes_base || algorithm->slots ? call->base : NULL;
	request->shard_bytes = x->shard_bytes;
	request->resume = !algorithm->slots && !flmem_exchange_verifies(x);
	request->progress = continue_combining;
	request->context = x;
	return true;
}

static void note_skipped(struct flmem_exchange *x, const struct flmem_aggregate_result *result)
{
	for (size_t i = 0; i < result->input_count; i++)
		if (result->inputs[i].skipped)
			flmem_exchange_log(x, &(struct flmem_exchange_note){
						      .event = "update-skipped",
						      .warning = true,
						      .round = x->round,
						      .client = x->updates[i].client,
						      .detail = result->inputs[i].skipped,
					      });
}

/*
 * Removes a part whose journal lists nothing. A copy of a state directory that was made while a
 * server worked has such a part, and an aggregation would refuse it as another program's; in the
 * folder of a round there are none.
 */
static void remove_unlisted_part(const struct flmem_exchange *x, int model)
{
	char part[sizeof(x->model_name) + sizeof(".part")], journal[sizeof(part) + 8];
	struct stat status;

	snprintf(part, sizeof(part), "%s.part", x->model_name);
	snprintf(journal, sizeof(journal), "%s.journal", part);
	if (fstatat(model, journal, &status, AT_SYMLINK_NOFOLLOW) == 0 ? status.st_size
								       : errno != ENOENT)
		return;
	flmem_spool_remove(model, part);
	flmem_spool_remove(model, journal);
}

/* Prepares the place of the next model: empty, except for what an unfinished aggregation left. */
static int prepare_round(struct flmem_exchange *x, const struct flmem_algorithm *algorithm,
			 struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int next = -1;
	FLMEM_AUTO_CLOSE int model = -1;
	int rc;

	if (flmem_exchange_verifies(x))
		return 0;
	next = flmem_spool_open_round(&x->spool, x->round + 1);
	rc = next < 0 ? next : 0;
	if (!rc && x->shard_bytes)
		flmem_spool_remove(next, "model");
	else if (!rc)
		rc = model = flmem_spool_open_directory(next, "model");
	if (model >= 0)
		remove_unlisted_part(x, model);
	if (rc < 0)
		return flmem_error_set(err, FLMEM_EFAILED, -rc,
				       "cannot make '%s/rounds/%" PRIu64 "'", x->spool.path,
				       x->round + 1);
	return algorithm->slots ? prepare_optimizer(x, next, err) : 0;
}

static int end_verified_round(struct flmem_exchange *x, uint64_t elements, struct flmem_error *err)
{
	int rc = flmem_verified_keep(x, elements, err);

	pthread_mutex_lock(&x->lock);
	x->verified = rc ? 0 : elements;
	pthread_mutex_unlock(&x->lock);
	return rc;
}

static int combine_round(struct flmem_exchange *x, struct flmem_error *err)
{
	const struct flmem_algorithm *algorithm =
		flmem_algorithm_find(x->options->aggregate.algorithm ?: "fedavg");
	FLMEM_AUTO(clear_call_texts) struct combine_call call = {0};
	struct flmem_aggregate_result result = {0};
	int rc = prepare_round(x, algorithm, err);

	if (!rc && !fill_combine_call(x, algorithm, &call))
		rc = flmem_error_nomem(err, "cannot combine the updates");
	if (!rc && call.request.base)
		rc = flmem_published_check_base(x, err);
	if (!rc)
		rc = x->lockstep ? flmem_lockstep_combine(x, &call.request, &result, err)
				 : flmem_aggregate(&call.request, &result, err);
	if (!rc) {
		uint64_t verified = result.verified_elements;

		note_skipped(x, &result);
		flmem_aggregate_result_clear(&result);
		if (flmem_exchange_verifies(x))
			return end_verified_round(x, verified, err);
		if (call.request.base)
			rc = flmem_published_check_base(x, err);
		rc = rc ? rc : flmem_published_add(x, x->round + 1, err);
	}
	return rc;
}

void flmem_combiner_remove_old(struct flmem_exchange *x, uint64_t round)
{
	char name[40];

	snprintf(name, sizeof(name), "%" PRIu64 "/updates", round);
	flmem_spool_remove(x->spool.rounds, name);
	/* In the first round the owner's files are published, and the index stays. */
	if (round > 1) {
		snprintf(name, sizeof(name), "%" PRIu64, round - 1);
		flmem_spool_remove(x->spool.rounds, name);
	}
}

static uint64_t read_opened(int round)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	const char *at;
	uint64_t wall_us;

	if (flmem_spool_read(round, "opened", &text))
		return 0;
	at = text.data;
	return flmem_text_read_digits(&at, &wall_us) ? wall_us : 0;
}

static void write_opened(int round, uint64_t wall_us)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, wall_us);
	if (round >= 0)
		flmem_spool_write(round, "opened", text, strlen(text));
}

/*
 * Sets the end of the round. A restarted server continues with the remaining time, by the wall
 * clock. If that clock jumped back meanwhile, the time starts again; if it jumped ahead, the round
 * is at its deadline. Jumps while the server runs have no effect.
 */
static void set_deadline(struct flmem_exchange *x)
{
	FLMEM_AUTO_CLOSE int round = flmem_spool_open_round(&x->spool, x->round);
	uint64_t now_us = flmem_clock_wall_us(), opened_us, passed_us;

	x->deadline_us = 0;
	if (!x->options->deadline_us)
		return;
	opened_us = round < 0 ? 0 : read_opened(round);
	if (!opened_us) {
		opened_us = now_us;
		write_opened(round, opened_us);
	}
	passed_us = now_us > opened_us ? now_us - opened_us : 0;
	x->deadline_us =
		flmem_clock_us() +
		(passed_us < x->options->deadline_us ? x->options->deadline_us - passed_us : 1);
}

void flmem_combiner_forget_deadline(struct flmem_exchange *x)
{
	FLMEM_AUTO_CLOSE int round = flmem_spool_open_round(&x->spool, x->round);

	if (round >= 0)
		flmem_spool_remove(round, "opened");
}

void flmem_combiner_delay_deadline(struct flmem_exchange *x, uint64_t paused_us)
{
	FLMEM_AUTO_CLOSE int round = -1;
	uint64_t opened_us;

	if (!x->deadline_us || x->phase != FLMEM_PHASE_COLLECTING)
		return;
	x->deadline_us += paused_us;
	round = flmem_spool_open_round(&x->spool, x->round);
	opened_us = round < 0 ? 0 : read_opened(round);
	if (opened_us)
		write_opened(round, opened_us + paused_us);
}

void flmem_combiner_renew_deadline(struct flmem_exchange *x)
{
	flmem_combiner_forget_deadline(x);
	set_deadline(x);
}

void flmem_combiner_begin_round(struct flmem_exchange *x)
{
	x->phase = x->published_round == x->options->rounds || x->verified ? FLMEM_PHASE_DONE
									   : FLMEM_PHASE_COLLECTING;
	x->round = x->published_round;
	if (x->phase == FLMEM_PHASE_COLLECTING)
		set_deadline(x);
	flmem_exchange_wake(x);
}

void flmem_combiner_fail(struct flmem_exchange *x, int code, const struct flmem_error *err)
{
	if (x->stopping || x->phase == FLMEM_PHASE_FAILED)
		return;
	x->phase = FLMEM_PHASE_FAILED;
	flmem_lockstep_end(x);
	x->code = code;
	snprintf(x->reason, sizeof(x->reason), "%s", err->message);
	flmem_update_hide_paths(x, x->reason);
	flmem_exchange_log(x, &(struct flmem_exchange_note){
				      .event = "failed",
				      .warning = true,
				      .round = x->round,
				      .detail = x->reason,
			      });
	flmem_exchange_wake(x);
}

static void publish_round(struct flmem_exchange *x, uint64_t took_us)
{
	x->counters.combine_us += took_us;
	x->counters.combined_rounds++;
	flmem_update_clear(x);
	flmem_lockstep_publish(x);
	flmem_uploads_retire(x, x->round);
	x->published_round = x->round + !x->verified;
	x->gathered = false;
	flmem_exchange_log(x, &(struct flmem_exchange_note){
				      .event = x->verified ? "verified" : "published",
				      .round = x->published_round,
				      .bytes = x->model_bytes,
				      .took_us = took_us,
				      .detail = x->verified ? "nothing was written" : NULL,
			      });
	flmem_combiner_begin_round(x);
}

static void *run_combiner(void *context)
{
	struct flmem_exchange *x = context;
	uint64_t begin_us = flmem_clock_us(), round = x->round;
	struct flmem_error err = {0};
	int rc = flmem_spool_check_place(&x->spool, &err);

	if (!rc)
		rc = write_inputs(x, &err);
	if (!rc)
		rc = combine_round(x, &err);
	pthread_mutex_lock(&x->lock);
	if (rc)
		flmem_combiner_fail(x, rc, &err);
	else
		publish_round(x, flmem_clock_us() - begin_us);
	pthread_mutex_unlock(&x->lock);
	if (!rc)
		flmem_combiner_remove_old(x, round);
	pthread_mutex_lock(&x->lock);
	x->combined = true;
	flmem_exchange_wake(x);
	pthread_mutex_unlock(&x->lock);
	return NULL;
}

int flmem_combiner_start(struct flmem_exchange *x, struct flmem_error *err)
{
	int rc;

	flmem_exchange_log(x, &(struct flmem_exchange_note){
				      .event = "combining",
				      .round = x->round,
			      });
	x->combined = false;
	rc = flmem_thread_start(&x->combiner, run_combiner, x);
	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, rc, "cannot start a thread");
	x->combining = true;
	return 0;
}

void flmem_combiner_join(struct flmem_exchange *x)
{
	if (x->combining)
		pthread_join(x->combiner, NULL);
	x->combining = false;
}
