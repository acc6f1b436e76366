/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/server/answers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text/text.h"
#include "exchange/base64.h"
#include "exchange/metadata.h"
#include "exchange/wire.h"
#include "ops/aggregate/generated.h"
#include "ops/exchange/server/lockstep.h"
#include "ops/exchange/server/publish.h"

#define US_PER_SECOND UINT64_C(1000000)

static const char *const phases[] = {
	[FLMEM_PHASE_COLLECTING] = "collecting",
	[FLMEM_PHASE_COMBINING] = "combining",
	[FLMEM_PHASE_DONE] = "done",
	[FLMEM_PHASE_FAILED] = "failed",
};

/* Reads a number of the query. Returns false if it is present, but invalid. */
static bool read_query(const struct flmem_http_request *request, const char *name,
		       uint64_t *ret_number, bool *ret_given)
{
	const char *text = flmem_http_request_query(request, name);

	*ret_given = text;
	return !text || flmem_tus_number_parse(text, ret_number);
}

/* Waits until a round after `after` is published. Called with x->lock held. */
static void wait_for_round(struct flmem_exchange *x, uint64_t after, uint64_t seconds)
{
	struct timespec end = flmem_clock_after_us(
		(seconds < FLMEM_EXCHANGE_WAIT_MAX ? seconds : FLMEM_EXCHANGE_WAIT_MAX) * 1000000U);

	while (!x->stopping && x->published_round <= after && x->phase != FLMEM_PHASE_DONE &&
	       x->phase != FLMEM_PHASE_FAILED)
		if (pthread_cond_timedwait(&x->changed, &x->lock, &end))
			break;
}

static bool is_complete(const struct flmem_exchange *x, const char *name)
{
	for (size_t i = 0; name && i < x->update_count; i++)
		if (strcmp(x->updates[i].client, name) == 0)
			return true;
	return false;
}

/* Prints the state document. Called with x->lock held. */
static void print_exchange_state(struct flmem_exchange *x, const char *name, struct flmem_buf *text)
{
	uint64_t now_us = flmem_clock_us();
	struct flmem_status_document status = {
		.round = x->round,
		.rounds = x->options->rounds,
		.published_round = x->published_round,
		.phase = phases[x->phase],
		.expected = x->options->clients,
		.quorum = x->quorum,
		.complete = x->lockstep ? flmem_lockstep_complete(x) : x->update_count,
		.name = is_complete(x, name) ? name : NULL,
		.has_deadline = x->deadline_us && x->phase == FLMEM_PHASE_COLLECTING,
		.deadline_s = x->deadline_us > now_us ? (x->deadline_us - now_us + US_PER_SECOND -
							 1) / US_PER_SECOND
						      : 0,
		.chunk_bytes = x->chunk_bytes,
		.max_request_bytes =
			flmem_lockstep_request_bytes(x) ?: x->options->max_request_bytes,
		.lockstep = x->lockstep,
		.reason = x->phase == FLMEM_PHASE_FAILED ? x->reason : NULL,
	};

	flmem_exchange_status_print(&status, text);
}

void flmem_exchange_status(struct flmem_exchange *x, struct flmem_http_request *request,
			   const char *name)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	uint64_t after = 0, seconds = 0;
	bool has_after, has_wait;

	if (!read_query(request, "after", &after, &has_after) ||
	    !read_query(request, "wait", &seconds, &has_wait)) {
		flmem_exchange_refuse(request, 400, NULL,
				      "'after' and 'wait' are whole numbers, of a round and of "
				      "seconds");
		return;
	}
	pthread_mutex_lock(&x->lock);
	if (has_after && has_wait)
		wait_for_round(x, after, seconds);
	print_exchange_state(x, name, &text);
	pthread_mutex_unlock(&x->lock);
	flmem_exchange_answer_text(request, "application/json", &text);
}

/* Splits "ROUND/model" or "ROUND/model/FILE". Returns false for other paths. */
static bool split_model_path(struct flmem_exchange *x, const char *rest, uint64_t *ret_round,
			     const char **ret_file)
{
	static const char after[] = "/model";

	if (flmem_text_starts(rest, "latest")) {
		rest += strlen("latest");
		pthread_mutex_lock(&x->lock);
		*ret_round = x->published_round;
		pthread_mutex_unlock(&x->lock);
	} else if (!flmem_text_read_digits(&rest, ret_round)) {
		return false;
	}
	if (!flmem_text_starts(rest, after))
		return false;
	rest += strlen(after);
	if (*rest && *rest != '/')
		return false;
	*ret_file = *rest ? rest + 1 : NULL;
	return true;
}

static void refuse_round(struct flmem_exchange *x, struct flmem_http_request *request,
			 uint64_t round)
{
	bool old;

	pthread_mutex_lock(&x->lock);
	old = round < x->published_round;
	pthread_mutex_unlock(&x->lock);
	if (old)
		flmem_exchange_refuse(request, 410, NULL,
				      "the model of round %" PRIu64 " is no longer kept", round);
	else
		flmem_exchange_refuse(request, 404, NULL, "round %" PRIu64 " is not published yet",
				      round);
}

static void answer_index(struct flmem_exchange *x, struct flmem_http_request *request,
			 uint64_t round)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	const struct flmem_published *published;

	pthread_mutex_lock(&x->lock);
	published = flmem_published_find(x, round);
	if (published)
		flmem_exchange_index_print(round, published->files, published->count, &text);
	pthread_mutex_unlock(&x->lock);
	if (published)
		flmem_exchange_answer_text(request, "application/json", &text);
	else
		refuse_round(x, request, round);
}

/*
 * Returns true if a list of entity tags has this one. A strong comparison skips weak tags (RFC
 * 9110).
 */
static bool has_tag(const char *list, const char *tag, bool strong)
{
	size_t length = strlen(tag);

	if (strcmp(list, "*") == 0)
		return true;
	while (*list) {
		list += strspn(list, " \t,");
		list += !strong && flmem_text_starts(list, "W/") ? 2 : 0;
		if (strncmp(list, tag, length) == 0 &&
		    (!list[length] || strchr(" \t,", list[length])))
			return true;
		list += strcspn(list, ",");
	}
	return false;
}

static void fill_file_fields(const struct flmem_published_file *file, const char *tag,
			     struct flmem_http_answer *answer)
{
	char digest[FLMEM_BASE64_ROOM(FLMEM_SHA256_BYTES)];

	flmem_base64_print(file->sha256, sizeof(file->sha256), digest);
	flmem_http_answer_field(answer, "ETag", "%s", tag);
	flmem_http_answer_field(answer, FLMEM_REPR_DIGEST, "sha-256=:%s:", digest);
	flmem_http_answer_field(answer, "Accept-Ranges", "bytes");
	flmem_http_answer_field(answer, "Cache-Control", "private, no-transform");
}

static void make_generated(const void *context, uint64_t offset, uint64_t bytes, char *out)
{
	flmem_generated_read(context, offset, bytes, out);
}

/* Answers with a file, and takes ownership of its descriptor. */
static void answer_file(struct flmem_http_request *request, struct flmem_published_source *source)
{
	const struct flmem_published_file *file = &source->file;
	const char *match = flmem_http_request_header(request, "If-Match");
	const char *none = flmem_http_request_header(request, "If-None-Match");
	const char *condition = flmem_http_request_header(request, "If-Range");
	const char *header = flmem_http_request_header(request, "Range");
	struct flmem_http_answer answer = {.status = 200, .type = "application/octet-stream"};
	struct flmem_byte_range range = {0, file->bytes};
	char tag[FLMEM_SHA256_HEX + 2], hex[FLMEM_SHA256_HEX];
	enum flmem_range_kind kind;

	flmem_hex_print(file->sha256, sizeof(file->sha256), hex);
	snprintf(tag, sizeof(tag), "\"%s\"", hex);
	if (match && !has_tag(match, tag, true)) {
		flmem_exchange_refuse(request, 412, NULL, "the file has another entity tag");
		flmem_cleanup_close(&source->fd);
		return;
	}
	/* RFC 9110, 14.2, defines ranges for GET only. */
	if ((condition && strcmp(condition, tag) != 0) ||
	    strcmp(flmem_http_request_method(request), "GET") != 0)
		header = NULL;
	kind = flmem_range_parse(header, file->bytes, &range);
	fill_file_fields(file, tag, &answer);
	if (none && has_tag(none, tag, false)) {
		answer.status = 304;
		answer.type = NULL;
	} else if (kind == FLMEM_RANGE_OUTSIDE) {
		answer.status = 416;
		answer.type = NULL;
		flmem_http_answer_field(&answer, "Content-Range", "bytes */%" PRIu64, file->bytes);
	} else {
		answer.has_file = !source->generated;
		answer.file = FLMEM_TAKE_FD(source->fd);
		answer.make = source->generated ? make_generated : NULL;
		answer.context = source->generated;
		answer.offset = range.begin;
		answer.bytes = range.end - range.begin;
	}
	if (kind == FLMEM_RANGE_PART && answer.status == 200) {
		answer.status = 206;
		flmem_http_answer_field(&answer, "Content-Range",
					"bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, range.begin,
					range.end - 1, file->bytes);
	}
	flmem_http_request_answer(request, &answer);
	flmem_cleanup_close(&source->fd);
}

void flmem_exchange_model(struct flmem_exchange *x, struct flmem_http_request *request,
			  const char *rest)
{
	struct flmem_published_source source;
	struct flmem_error err = {0};
	uint64_t round;
	const char *name;
	int rc;

	if (!split_model_path(x, rest, &round, &name)) {
		flmem_exchange_refuse(request, 404, NULL,
				      "models are at " FLMEM_EXCHANGE_ROUNDS_PATH "ROUND/model");
		return;
	}
	if (!name) {
		answer_index(x, request, round);
		return;
	}
	rc = flmem_published_open(x, round, name, &source, &err);
	if (!rc)
		answer_file(request, &source);
	else if (rc == FLMEM_ENOPROC)
		refuse_round(x, request, round);
	else if (rc == FLMEM_EUSAGE)
		flmem_exchange_refuse(request, 404, NULL, "round %" PRIu64 " has no such file",
				      round);
	else
		flmem_exchange_refuse_failed(x, request, 500, NULL, err.message);
}

void flmem_exchange_metrics(struct flmem_exchange *x, struct flmem_http_request *request)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct flmem_http_server_load load;

	flmem_http_server_load(x->server, &load);
	pthread_mutex_lock(&x->lock);
#define METRIC(name, type, help, suffix, value)                                          \
	flmem_buf_printf(&text,                                                          \
			 "# HELP flmem_exchange_" name " " help "\n# TYPE "              \
			 "flmem_exchange_" name " " type "\nflmem_exchange_" name suffix \
			 " %" PRIu64 "\n",                                               \
			 (uint64_t)(value))
	METRIC("round", "gauge", "Round that is collected or combined.", "", x->round);
	METRIC("published_round", "gauge", "Newest published model.", "", x->published_round);
	METRIC("phase", "gauge", "0 collecting, 1 combining, 2 done, 3 failed.", "", x->phase);
	METRIC("clients_expected", "gauge", "Updates of a round.", "", x->options->clients);
	METRIC("clients_complete", "gauge", "Complete updates of the round.", "", x->update_count);
	METRIC("uploads", "gauge", "Uploads that are known.", "", x->upload_count);
	METRIC("connections", "gauge", "Open connections.", "", load.connections);
	METRIC("received_bytes", "counter", "Bytes of uploads that were committed.", "_total",
	       x->counters.received_bytes);
	METRIC("updates", "counter", "Updates that were accepted.", "_total", x->counters.updates);
	METRIC("refused_updates", "counter", "Updates that did not fit the model.", "_total",
	       x->counters.refused_updates);
	METRIC("checksum_errors", "counter", "Bodies whose checksum did not match.", "_total",
	       x->counters.checksum_errors);
	METRIC("combined_rounds", "counter", "Rounds that were combined.", "_total",
	       x->counters.combined_rounds);
	METRIC("slow_connections", "counter", "Connections that were ended without progress.",
	       "_total", load.cut);
	METRIC("overloaded", "counter", "Requests refused because of too many connections.",
	       "_total", load.overloaded);
#undef METRIC
	pthread_mutex_unlock(&x->lock);
	flmem_buf_puts(&text, "# HELP flmem_exchange_answers Answers by class of status.\n"
			      "# TYPE flmem_exchange_answers counter\n");
	for (unsigned i = 2; i < FLMEM_ARRAY_SIZE(load.answers); i++)
		flmem_buf_printf(&text,
				 "flmem_exchange_answers_total{class=\"%uxx\"} %" PRIu64 "\n", i,
				 load.answers[i]);
	flmem_buf_puts(&text, "# EOF\n");
	flmem_exchange_answer_text(
		request, "application/openmetrics-text; version=1.0.0; charset=utf-8", &text);
}
