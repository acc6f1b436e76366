/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes/fnv.h"
#include "base/clock.h"
#include "base/text/url.h"
#include "net/headers.h"
#include "net/origin.h"
#include "net/redirect.h"
#include "net/transfer.h"

#define TRANSFERS_MAX 64U /* more than the threads of a run */
#define REDIRECTS_MAX 8U
#define EXPECTED_MAX  64U
/* Bytes requested to find the size. */
#define FIRST_BYTES 1U
/* Limit of requests for files that are read from one end to the other. */
#define REQUEST_LARGEST	 (UINT64_C(16) << 20)
#define DELAY_FIRST_US	 UINT64_C(250000)
#define DELAY_LARGEST_US UINT64_C(30000000)
#define SLICE_US	 UINT64_C(100000)
/* Progress after which retries are counted anew; with less a download might never end. */
#define PROGRESS_BYTES (UINT64_C(64) << 10)

struct flmem_http {
	const struct flmem_http_access *access;
	pthread_mutex_t lock;
	struct flmem_transfer *transfers[TRANSFERS_MAX];
	size_t transfer_count;
};

struct byte_range {
	uint64_t begin, end;
};

struct flmem_http_file {
	struct flmem_http *http;
	char *url, *name, *origin;
	uint64_t size;
	char etag[FLMEM_REPLY_VALIDATOR_MAX], modified[FLMEM_REPLY_VALIDATOR_MAX];
	bool known;	      /* size, etag and modified are known */
	pthread_mutex_t lock; /* protects the fields below */
	char *current;	      /* address that the last redirect led to, or NULL */
	struct byte_range expected[EXPECTED_MAX];
	size_t next_expected;
	struct byte_range last; /* the last range that was requested without being expected */
};

int flmem_http_open(const struct flmem_http_access *access, struct flmem_http **ret_http,
		    struct flmem_error *err)
{
	const struct flmem_curl *curl;
	struct flmem_http *http;
	int rc = flmem_headers_check(access->options, err);

	if (!rc)
		rc = flmem_curl_load(&curl, err);
	if (rc)
		return rc;
	http = calloc(1, sizeof(*http));
	if (!http)
		return flmem_error_nomem(err, "cannot open a connection");
	http->access = access;
	pthread_mutex_init(&http->lock, NULL);
	*ret_http = http;
	return 0;
}

void flmem_http_close(struct flmem_http *http)
{
	if (!http)
		return;
	for (size_t i = 0; i < http->transfer_count; i++) {
		flmem_transfer_clear(http->transfers[i]);
		free(http->transfers[i]);
	}
	pthread_mutex_destroy(&http->lock);
	free(http);
}

/* Stops a file's transfers; those of other files stop when they are taken for this one. */
static void forget_file(struct flmem_http *http, const struct flmem_http_file *file)
{
	for (size_t i = 0; i < http->transfer_count; i++)
		if (http->transfers[i]->file == file) {
			flmem_transfer_stop(http->transfers[i]);
			http->transfers[i]->file = NULL;
		}
}

void flmem_http_file_close(struct flmem_http_file *file)
{
	if (!file)
		return;
	forget_file(file->http, file);
	pthread_mutex_destroy(&file->lock);
	free(file->url);
	free(file->name);
	free(file->origin);
	free(file->current);
	free(file);
}

static void close_file(struct flmem_http_file **file)
{
	flmem_http_file_close(*file);
}

const char *flmem_http_file_name(const struct flmem_http_file *file)
{
	return file->name;
}

uint64_t flmem_http_file_size(const struct flmem_http_file *file)
{
	return file->size;
}

/*
 * The query is left out: signatures in it are new in every run. If neither ETag nor Last-Modified
 * identifies a version, each hash differs.
 */
uint64_t flmem_http_file_mix(const struct flmem_http_file *file, uint64_t hash)
{
	uint64_t now = flmem_clock_wall_us();

	hash = flmem_fnv_mix(hash, file->url, flmem_url_path_length(file->url));
	hash = flmem_fnv_mix(hash, &file->size, sizeof(file->size));
	hash = flmem_fnv_mix(hash, file->etag, strlen(file->etag) + 1);
	hash = flmem_fnv_mix(hash, file->modified, strlen(file->modified) + 1);
	if (!file->etag[0] && !file->modified[0])
		hash = flmem_fnv_mix(hash, &now, sizeof(now));
	return hash;
}

void flmem_http_file_expect(struct flmem_http_file *file, uint64_t offset, uint64_t bytes)
{
	pthread_mutex_lock(&file->lock);
	file->expected[file->next_expected++ % EXPECTED_MAX] =
		(struct byte_range){offset, offset + bytes};
	pthread_mutex_unlock(&file->lock);
}

/* Returns the end of a request. Unexpected sequential reads are requested in growing parts. */
static uint64_t find_request_end(struct flmem_http_file *file, uint64_t offset, uint64_t bytes)
{
	uint64_t end = offset + bytes, most = file->size;
	bool expected = false;

	pthread_mutex_lock(&file->lock);
	for (size_t i = 0; i < EXPECTED_MAX; i++)
		if (file->expected[i].begin <= offset && file->expected[i].end >= end) {
			end = file->expected[i].end;
			expected = true;
		}
	if (!expected) {
		if (file->last.end == offset && file->last.end > file->last.begin)
			bytes = (file->last.end - file->last.begin) * 2;
		bytes = bytes < REQUEST_LARGEST ? bytes : REQUEST_LARGEST;
		end = offset + bytes > end ? offset + bytes : end;
		end = end > most ? most : end;
		file->last = (struct byte_range){offset, end};
	}
	pthread_mutex_unlock(&file->lock);
	return end;
}

static bool is_at(const struct flmem_transfer *transfer, const struct flmem_http_file *file,
		  uint64_t offset)
{
	return transfer->active && transfer->file == file &&
	       transfer->at - (transfer->rest.length - transfer->rest_at) == offset;
}

/* Chooses a connection that continues there, else an unused one: idle, new, any. */
static struct flmem_transfer **choose_transfer(struct flmem_http *http,
					       const struct flmem_http_file *file, uint64_t offset)
{
	struct flmem_transfer **idle = NULL, **any = NULL;

	for (size_t i = 0; i < http->transfer_count; i++) {
		struct flmem_transfer **transfer = &http->transfers[i];

		if ((*transfer)->busy)
			continue;
		if (is_at(*transfer, file, offset))
			return transfer;
		if (!(*transfer)->active)
			idle = transfer;
		any = transfer;
	}
	if (idle)
		return idle;
	return http->transfer_count < TRANSFERS_MAX ? &http->transfers[http->transfer_count] : any;
}

static int take_transfer(struct flmem_http_file *file, uint64_t offset,
			 struct flmem_transfer **ret_transfer, struct flmem_error *err)
{
	struct flmem_http *http = file->http;
	struct flmem_transfer **chosen;
	int rc = 0;

	pthread_mutex_lock(&http->lock);
	chosen = choose_transfer(http, file, offset);
	if (!chosen) {
		rc = flmem_error_set(err, FLMEM_EFAILED, 0, "too many threads read '%s'",
				     file->name);
	} else if (chosen == &http->transfers[http->transfer_count]) {
		*chosen = calloc(1, sizeof(**chosen));
		rc = *chosen ? flmem_transfer_init(*chosen, http->access, err)
			     : flmem_error_nomem(err, "cannot open a connection");
		if (rc && *chosen)
			flmem_transfer_clear(*chosen);
		if (rc)
			free(FLMEM_TAKE(*chosen));
		else
			http->transfer_count++;
	}
	if (!rc) {
		(*chosen)->busy = true;
		*ret_transfer = *chosen;
	}
	pthread_mutex_unlock(&http->lock);
	return rc;
}

static void give_transfer(struct flmem_http *http, struct flmem_transfer *transfer)
{
	pthread_mutex_lock(&http->lock);
	transfer->busy = false;
	pthread_mutex_unlock(&http->lock);
}

/* Returns the address to ask first; the caller frees it. */
static char *current_url(struct flmem_http_file *file)
{
	char *url;

	pthread_mutex_lock(&file->lock);
	url = strdup(file->current ?: file->url);
	pthread_mutex_unlock(&file->lock);
	return url;
}

static void remember_url(struct flmem_http_file *file, const char *url)
{
	pthread_mutex_lock(&file->lock);
	if (!file->current || strcmp(file->current, url) != 0) {
		free(file->current);
		file->current = strcmp(url, file->url) != 0 ? strdup(url) : NULL;
	}
	pthread_mutex_unlock(&file->lock);
}

/* A request for a part of a file, and how often it was redirected. */
struct range_request {
	struct flmem_http_file *file;
	struct flmem_transfer *transfer;
	uint64_t begin, end;
	char *url;
	unsigned redirects;
};

static void clear_range_request(struct range_request *request)
{
	free(request->url);
}

static enum flmem_transfer_step follow_redirect(struct range_request *request,
						struct flmem_error *err)
{
	const char *target = flmem_transfer_target(request->transfer);
	const char *name = request->file->name;

	if (!target) {
		flmem_error_set(err, FLMEM_EFAILED, 0,
				"the server of '%s' redirects without an address: status %u", name,
				request->transfer->reply.status);
		return FLMEM_TRANSFER_FAIL;
	}
	if (++request->redirects > REDIRECTS_MAX) {
		flmem_error_set(err, FLMEM_EFAILED, 0, "'%s' redirects more than %u times", name,
				REDIRECTS_MAX);
		return FLMEM_TRANSFER_FAIL;
	}
	if (flmem_redirect_check(request->url, target, name, err))
		return FLMEM_TRANSFER_FAIL;
	free(request->url);
	request->url = strdup(target);
	flmem_transfer_stop(request->transfer);
	return FLMEM_TRANSFER_OK;
}

static enum flmem_transfer_step send_range_request(struct range_request *request,
						   struct flmem_error *err)
{
	struct flmem_http_file *file = request->file;
	FLMEM_AUTO_FREE char *origin = NULL;

	if (!request->url ||
	    flmem_origin_of(request->transfer->curl, request->url, file->name, &origin, err)) {
		if (!request->url)
			flmem_error_nomem(err, "cannot read '%s'", file->name);
		else if (request->redirects)
			flmem_error_set(err, FLMEM_EFAILED, 0,
					"'%s' redirects to something that is not a valid address",
					file->name);
		return FLMEM_TRANSFER_FAIL;
	}
	const struct flmem_transfer_request sent = {
		.url = request->url,
		.name = file->name,
		.with_headers = strcasecmp(origin, file->origin) == 0,
		.begin = request->begin,
		.end = request->end,
	};

	return flmem_transfer_start(request->transfer, &sent, err);
}

static enum flmem_transfer_step check_answer(const struct range_request *request,
					     struct flmem_error *err)
{
	const struct flmem_http_file *file = request->file;
	const struct flmem_reply *reply = &request->transfer->reply;
	const struct flmem_reply_expected expected = {
		.begin = request->begin,
		.end = request->end,
		.known = file->known,
		.size = file->size,
		.etag = file->known ? file->etag : NULL,
		.modified = file->known ? file->modified : NULL,
	};

	if (!flmem_reply_check(reply, &expected, file->name, err))
		return FLMEM_TRANSFER_OK;
	return flmem_reply_is_transient(reply) ? FLMEM_TRANSFER_RETRY : FLMEM_TRANSFER_FAIL;
}

/* Reports whether the server of an earlier redirect no longer accepts its address. */
static bool is_outdated(const struct range_request *request, const char *first)
{
	unsigned status = request->transfer->reply.status;

	return !request->redirects && strcmp(first, request->file->url) != 0 && status >= 400 &&
	       status < 500 && status != 416;
}

/* Follows redirects until there is an answer, and checks it. */
static enum flmem_transfer_step request_range(struct range_request *request,
					      struct flmem_error *err)
{
	struct flmem_http_file *file = request->file;
	FLMEM_AUTO_FREE char *first = current_url(file);
	enum flmem_transfer_step step;

	request->url = first ? strdup(first) : NULL;
	for (;;) {
		step = send_range_request(request, err);
		if (step != FLMEM_TRANSFER_OK)
			return step;
		if (flmem_reply_redirects(&request->transfer->reply)) {
			step = follow_redirect(request, err);
			if (step != FLMEM_TRANSFER_OK)
				return step;
		} else if (first && is_outdated(request, first)) {
			free(request->url);
			free(first);
			first = strdup(file->url);
			request->url = strdup(file->url);
		} else {
			step = check_answer(request, err);
			if (step == FLMEM_TRANSFER_OK)
				remember_url(file, request->url);
			return step;
		}
	}
}

/* Failures in a row, the most retries, and the bytes that arrived since the last failure. */
struct retry_state {
	unsigned failed, most;
	uint64_t progress;
};

static unsigned most_retries(const struct flmem_http *http)
{
	const struct flmem_http_options *options = http->access->options;

	if (options && options->never_retry)
		return 0;
	return options && options->retries ? options->retries : FLMEM_HTTP_RETRIES;
}

/* Waits before a retry. False if no retry is left, or the run was ended. */
static bool wait_for_retry(struct flmem_http *http, struct retry_state *attempts,
			   uint64_t retry_seconds)
{
	const struct flmem_http_access *access = http->access;
	uint64_t delay, until;

	if (attempts->progress >= PROGRESS_BYTES)
		attempts->failed = 0;
	attempts->progress = 0;
	delay = DELAY_FIRST_US << (attempts->failed < 8 ? attempts->failed : 8);
	if (attempts->failed++ >= attempts->most)
		return false;
	delay = delay < DELAY_LARGEST_US ? delay : DELAY_LARGEST_US;
	delay = retry_seconds ? retry_seconds * 1000000U : delay;
	for (until = flmem_clock_us() + delay; flmem_clock_us() < until;) {
		if (access->ended && access->ended(access->context))
			return false;
		flmem_clock_sleep_us(SLICE_US);
	}
	return true;
}

/* Makes a request for bytes that no request in progress delivers. */
static enum flmem_transfer_step open_range(struct flmem_http_file *file,
					   struct flmem_transfer *transfer, struct byte_range range,
					   struct flmem_error *err)
{
	FLMEM_AUTO(clear_range_request)
	struct range_request request = {
		.file = file,
		.transfer = transfer,
		.begin = range.begin,
		.end = range.end,
	};
	enum flmem_transfer_step step = request_range(&request, err);

	transfer->file = file;
	if (step != FLMEM_TRANSFER_OK)
		flmem_transfer_stop(transfer);
	return step;
}

static int report_attempts(const struct retry_state *attempts, struct flmem_error *err)
{
	int code = err ? err->code : FLMEM_EFAILED;

	if (err && attempts->failed > 1)
		flmem_error_prefix(err, code, "tried %u times", attempts->failed);
	return code;
}

/* Reads a range through one transfer; range.begin moves along. */
static int read_through(struct flmem_http_file *file, struct flmem_transfer *transfer,
			struct byte_range range, char *out, struct flmem_error *err)
{
	struct retry_state attempts = {.most = most_retries(file->http)};
	struct flmem_error why = {0};

	while (range.begin < range.end) {
		enum flmem_transfer_step step = FLMEM_TRANSFER_OK;
		size_t bytes = (size_t)(range.end - range.begin), got = 0;
		struct byte_range asked = {range.begin, 0};

		if (!is_at(transfer, file, range.begin)) {
			asked.end = find_request_end(file, range.begin, bytes);
			step = open_range(file, transfer, asked, &why);
		}
		if (step == FLMEM_TRANSFER_OK) {
			uint64_t rest = transfer->end - range.begin;

			bytes = rest < bytes ? (size_t)rest : bytes;
			step = flmem_transfer_read(transfer, file->name, out, bytes, &got, &why);
		}
		out += got;
		range.begin += got;
		attempts.progress += got;
		if (step == FLMEM_TRANSFER_OK)
			continue;
		flmem_transfer_stop(transfer);
		if (step == FLMEM_TRANSFER_RETRY &&
		    wait_for_retry(file->http, &attempts, transfer->reply.retry_seconds))
			continue;
		if (err)
			*err = why;
		return report_attempts(&attempts, err);
	}
	return 0;
}

int flmem_http_file_read(struct flmem_http_file *file, uint64_t offset, uint64_t bytes, char *out,
			 struct flmem_error *err)
{
	const struct byte_range range = {offset, offset + bytes};
	struct flmem_transfer *transfer;
	int rc;

	if (!bytes)
		return 0;
	rc = take_transfer(file, offset, &transfer, err);
	if (rc)
		return rc;
	rc = read_through(file, transfer, range, out, err);
	give_transfer(file->http, transfer);
	return rc;
}

/* Requests the first byte: the answer has the size and the version of the file. */
static int identify_file(struct flmem_http_file *file, struct flmem_transfer *transfer,
			 struct flmem_error *err)
{
	struct retry_state attempts = {.most = most_retries(file->http)};
	const struct flmem_reply *reply = &transfer->reply;
	const struct byte_range range = {0, FIRST_BYTES};
	enum flmem_transfer_step step;
	char bytes[FIRST_BYTES];
	size_t got;

	do {
		step = open_range(file, transfer, range, err);
		if (step == FLMEM_TRANSFER_OK)
			step = flmem_transfer_read(transfer, file->name, bytes, sizeof(bytes), &got,
						   err);
		if (step != FLMEM_TRANSFER_OK)
			flmem_transfer_stop(transfer);
	} while (step == FLMEM_TRANSFER_RETRY &&
		 wait_for_retry(file->http, &attempts, reply->retry_seconds));
	if (step != FLMEM_TRANSFER_OK)
		return report_attempts(&attempts, err);
	if (reply->size > INT64_MAX)
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"the server of '%s' announces %llu bytes, more than a file can have",
			file->name, (unsigned long long)reply->size);
	if (file->known)
		return 0;
	file->size = reply->size;
	memcpy(file->etag, reply->etag, sizeof(file->etag));
	memcpy(file->modified, reply->modified, sizeof(file->modified));
	file->known = true;
	return 0;
}

static int prepare_http_file(struct flmem_http_file *file, const char *url, struct flmem_error *err)
{
	const struct flmem_curl *curl;
	int rc = flmem_curl_load(&curl, err);

	file->url = strdup(url);
	file->name = flmem_url_show(url);
	if (!rc && (!file->url || !file->name))
		rc = flmem_error_nomem(err, "cannot open an address");
	return rc ? rc : flmem_origin_of(curl, url, file->name, &file->origin, err);
}

static int identify_through_any(struct flmem_http_file *file, struct flmem_error *err)
{
	struct flmem_error why = {0};
	struct flmem_transfer *transfer;
	int rc = take_transfer(file, 0, &transfer, err);

	if (rc)
		return rc;
	rc = identify_file(file, transfer, &why);
	give_transfer(file->http, transfer);
	if (rc && err)
		*err = why;
	return rc;
}

int flmem_http_file_open(struct flmem_http *http, const char *url,
			 struct flmem_http_file **ret_file, struct flmem_error *err)
{
	FLMEM_AUTO(close_file) struct flmem_http_file *file = calloc(1, sizeof(*file));
	int rc;

	if (!file)
		return flmem_error_nomem(err, "cannot open an address");
	file->http = http;
	pthread_mutex_init(&file->lock, NULL);
	rc = prepare_http_file(file, url, err);
	if (!rc)
		rc = identify_through_any(file, err);
	if (!rc)
		*ret_file = FLMEM_TAKE(file);
	return rc;
}

int flmem_http_file_check(struct flmem_http_file *file, struct flmem_error *err)
{
	return identify_through_any(file, err);
}
