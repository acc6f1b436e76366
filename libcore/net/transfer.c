/* SPDX-License-Identifier: Apache-2.0 */
#include "net/transfer.h"

#include <stdlib.h>
#include <string.h>

#include <flmem/text.h>

#include "base/clock.h"
#include "net/credential.h"

#define POLL_MS		  200
#define RECEIVE_BYTES	  65536L
#define CLOSING_POLLS_MAX 5U
#define REDIRECT_MAX	  65536U

static unsigned timeout_seconds(const struct flmem_transfer *transfer)
{
	const struct flmem_http_options *options = transfer->access->options;

	return options && options->timeout_seconds ? options->timeout_seconds
						   : FLMEM_HTTP_TIMEOUT_SECONDS;
}

static size_t receive_header(char *line, size_t size, size_t count, void *context)
{
	struct flmem_transfer *transfer = context;

	transfer->headers_large |= !flmem_reply_add(&transfer->reply, line, size * count);
	return transfer->headers_large ? 0 : size * count;
}

/*
 * Drops a text for people: libcurl knows the target of the redirect only when the body has ended.
 */
static size_t drop_redirect_body(struct flmem_transfer *transfer, size_t length)
{
	transfer->redirect_bytes += length;
	return transfer->redirect_bytes > REDIRECT_MAX ? 0 : length;
}

/* Takes bytes only when a reader wants some; until then libcurl keeps them. */
static size_t receive_body(char *bytes, size_t size, size_t count, void *context)
{
	struct flmem_transfer *transfer = context;
	size_t length = size * count, some;

	if (flmem_reply_redirects(&transfer->reply))
		return drop_redirect_body(transfer, length);
	transfer->answered = true;
	if (!transfer->accepted || !transfer->wanted) {
		transfer->paused = true;
		return CURL_WRITEFUNC_PAUSE;
	}
	if (length > transfer->end - transfer->at) {
		transfer->excess = true;
		return 0;
	}
	some = length < transfer->wanted ? length : transfer->wanted;
	memcpy(transfer->out, bytes, some);
	transfer->out += some;
	transfer->wanted -= some;
	transfer->at += length;
	flmem_buf_append(&transfer->rest, bytes + some, length - some);
	return transfer->rest.failed ? 0 : length;
}

static bool add_header(const struct flmem_transfer *transfer, struct curl_slist **list,
		       const char *line)
{
	struct curl_slist *longer = transfer->curl->slist_append(*list, line);

	if (longer)
		*list = longer;
	return longer;
}

static bool make_headers(struct flmem_transfer *transfer)
{
	const struct flmem_http_options *options = transfer->access->options;
	struct curl_slist **lists[] = {&transfer->headers, &transfer->all_headers};
	bool made = true;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lists); i++)
		made = made && add_header(transfer, lists[i], "Accept-Encoding: identity");
	for (size_t i = 0; options && i < options->header_count; i++)
		made = made && add_header(transfer, lists[1], options->headers[i]);
	return made;
}

static bool set_options(struct flmem_transfer *transfer)
{
	const struct flmem_curl *curl = transfer->curl;
	const struct flmem_http_options *options = transfer->access->options;
	const char *cacert = flmem_curl_authorities(options ? options->cacert : NULL);
	CURL *easy = transfer->easy;
	CURLcode failed = CURLE_OK;

	failed |= curl->easy_setopt(easy, CURLOPT_HEADERFUNCTION, receive_header);
	failed |= curl->easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
	failed |= curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, receive_body);
	failed |= curl->easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
	failed |= curl->easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->message);
	if (cacert)
		failed |= curl->easy_setopt(easy, CURLOPT_CAINFO, cacert);
	return !failed &&
	       flmem_curl_set_common(curl, easy, RECEIVE_BYTES, timeout_seconds(transfer));
}

int flmem_transfer_init(struct flmem_transfer *transfer, const struct flmem_http_access *access,
			struct flmem_error *err)
{
	int rc;

	*transfer = (struct flmem_transfer){.access = access};
	flmem_buf_init(&transfer->rest);
	rc = flmem_credential_check(access->options ? access->options->cacert : NULL, err);
	if (!rc)
		rc = flmem_curl_load(&transfer->curl, err);
	if (rc)
		return rc;
	transfer->easy = transfer->curl->easy_init();
	transfer->multi = transfer->curl->multi_init();
	if (!transfer->easy || !transfer->multi || !make_headers(transfer))
		return flmem_error_nomem(err, "cannot open a connection");
	if (!set_options(transfer))
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "this libcurl lacks an option that reading addresses needs; "
				       "install version 7.85 or later");
	return 0;
}

void flmem_transfer_stop(struct flmem_transfer *transfer)
{
	if (transfer->active)
		transfer->curl->multi_remove_handle(transfer->multi, transfer->easy);
	transfer->active = false;
	flmem_buf_reset(&transfer->rest);
	transfer->rest_at = 0;
}

void flmem_transfer_clear(struct flmem_transfer *transfer)
{
	const struct flmem_curl *curl = transfer->curl;

	if (curl) {
		flmem_transfer_stop(transfer);
		curl->easy_cleanup(transfer->easy);
		if (transfer->multi)
			curl->multi_cleanup(transfer->multi);
		curl->slist_free_all(transfer->headers);
		curl->slist_free_all(transfer->all_headers);
	}
	flmem_buf_clear(&transfer->rest);
}

static void take_result(struct flmem_transfer *transfer)
{
	CURLMsg *message;
	int left;

	while ((message = transfer->curl->multi_info_read(transfer->multi, &left)))
		if (message->msg == CURLMSG_DONE) {
			transfer->complete = transfer->answered = true;
			transfer->result = message->data.result;
		}
}

/* Delivers the bytes that libcurl kept. A failure is reported here and nowhere else. */
static void resume_body(struct flmem_transfer *transfer)
{
	CURLcode code;

	if (!transfer->paused || !transfer->accepted || !transfer->wanted)
		return;
	transfer->paused = false;
	code = transfer->curl->easy_pause(transfer->easy, CURLPAUSE_CONT);
	if (code == CURLE_OK)
		return;
	transfer->complete = true;
	transfer->result = code;
}

static void perform_transfer(struct flmem_transfer *transfer)
{
	struct flmem_curl_sigpipe sigpipe;
	int running;

	flmem_curl_sigpipe_begin(&sigpipe);
	resume_body(transfer);
	if (!transfer->complete) {
		transfer->curl->multi_perform(transfer->multi, &running);
		take_result(transfer);
	}
	flmem_curl_sigpipe_end(&sigpipe);
}

static bool is_transfer_cancelled(const struct flmem_transfer *transfer)
{
	return transfer->access->ended && transfer->access->ended(transfer->access->context);
}

/* Drives the transfer until `enough` returns true or the transfer is complete. */
static enum flmem_transfer_step drive_transfer(struct flmem_transfer *transfer, const char *name,
					       bool (*enough)(const struct flmem_transfer *),
					       struct flmem_error *err)
{
	struct flmem_curl_pace pace = {.since_us = flmem_clock_us(), .bytes = transfer->at};
	unsigned limit = timeout_seconds(transfer);

	for (;;) {
		perform_transfer(transfer);
		if (transfer->complete || enough(transfer))
			return FLMEM_TRANSFER_OK;
		if (is_transfer_cancelled(transfer)) {
			flmem_error_set(err, FLMEM_EFAILED, 0, "stopped while '%s' was read", name);
			return FLMEM_TRANSFER_FAIL;
		}
		if (flmem_curl_is_too_slow(&pace, transfer->at, limit)) {
			flmem_error_set(err, FLMEM_EFAILED, 0,
					"the server of '%s' sends less than 1 KiB a second for %u "
					"seconds",
					name, limit);
			return FLMEM_TRANSFER_RETRY;
		}
		transfer->curl->multi_poll(transfer->multi, NULL, 0, POLL_MS, NULL);
	}
}

static enum flmem_transfer_step report_result(const struct flmem_transfer *transfer,
					      const char *name, struct flmem_error *err)
{
	const char *why = transfer->message[0] ? transfer->message
					       : transfer->curl->easy_strerror(transfer->result);
	char shown[CURL_ERROR_SIZE];

	if (transfer->headers_large)
		flmem_error_set(err, FLMEM_EFAILED, 0,
				"the server of '%s' sends more than %u bytes of headers", name,
				FLMEM_REPLY_HEADERS_MAX);
	else if (flmem_curl_is_line_too_long(transfer->result))
		flmem_error_set(err, FLMEM_EFAILED, 0,
				"the server of '%s' sends a line of headers of more than 100 KiB, "
				"or memory is exhausted; check the address",
				name);
	else if (transfer->excess)
		flmem_error_set(err, FLMEM_EFAILED, 0,
				"the server of '%s' sends more bytes than it announced", name);
	else if (transfer->redirect_bytes > REDIRECT_MAX)
		flmem_error_set(err, FLMEM_EFAILED, 0,
				"the server of '%s' sends more than %u bytes with a redirect", name,
				REDIRECT_MAX);
	else if (transfer->result == CURLE_PEER_FAILED_VERIFICATION)
		flmem_error_set(
			err, FLMEM_EFAILED, 0,
			"the certificate of the server of '%s' is not trusted (%s); %s", name,
			flmem_text_escape(why, shown, sizeof(shown)),
			flmem_curl_certificate_advice(
				why, "name the certificate of its authority with --cacert"));
	else
		flmem_error_set(err, FLMEM_EFAILED, 0, "cannot read '%s': %s%s", name,
				flmem_text_escape(why, shown, sizeof(shown)),
				transfer->result == CURLE_SSL_CONNECT_ERROR
					? "; if the server does not use TLS, its address begins "
					  "with http://"
					: "");
	return flmem_curl_is_transient(transfer->result) ? FLMEM_TRANSFER_RETRY
							 : FLMEM_TRANSFER_FAIL;
}

static bool is_answered(const struct flmem_transfer *transfer)
{
	return transfer->answered;
}

static void reset_state(struct flmem_transfer *transfer,
			const struct flmem_transfer_request *request)
{
	flmem_transfer_stop(transfer);
	transfer->at = request->begin;
	transfer->end = request->end;
	transfer->answered = transfer->accepted = transfer->complete = false;
	transfer->paused = transfer->headers_large = transfer->excess = false;
	transfer->redirect_bytes = 0;
	transfer->result = CURLE_OK;
	transfer->reply = (struct flmem_reply){0};
	transfer->wanted = 0;
	transfer->message[0] = '\0';
}

enum flmem_transfer_step flmem_transfer_start(struct flmem_transfer *transfer,
					      const struct flmem_transfer_request *request,
					      struct flmem_error *err)
{
	const struct flmem_curl *curl = transfer->curl;
	enum flmem_transfer_step step;
	char range[48];

	reset_state(transfer, request);
	snprintf(range, sizeof(range), "%llu-%llu", (unsigned long long)request->begin,
		 (unsigned long long)request->end - 1);
	if (curl->easy_setopt(transfer->easy, CURLOPT_URL, request->url) ||
	    curl->easy_setopt(transfer->easy, CURLOPT_RANGE, range) ||
	    curl->easy_setopt(transfer->easy, CURLOPT_HTTPHEADER,
			      request->with_headers ? transfer->all_headers : transfer->headers) ||
	    curl->multi_add_handle(transfer->multi, transfer->easy)) {
		flmem_error_set(err, FLMEM_EFAILED, 0, "cannot request '%s'", request->name);
		return FLMEM_TRANSFER_FAIL;
	}
	transfer->active = true;
	step = drive_transfer(transfer, request->name, is_answered, err);
	if (step == FLMEM_TRANSFER_OK && transfer->complete && transfer->result != CURLE_OK)
		step = report_result(transfer, request->name, err);
	return step;
}

const char *flmem_transfer_target(const struct flmem_transfer *transfer)
{
	char *target = NULL;

	if (transfer->curl->easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &target))
		return NULL;
	return target;
}

static void take_rest(struct flmem_transfer *transfer)
{
	size_t has = transfer->rest.length - transfer->rest_at;
	size_t some = has < transfer->wanted ? has : transfer->wanted;

	memcpy(transfer->out, transfer->rest.data + transfer->rest_at, some);
	transfer->out += some;
	transfer->wanted -= some;
	transfer->rest_at += some;
	if (transfer->rest_at == transfer->rest.length) {
		flmem_buf_reset(&transfer->rest);
		transfer->rest_at = 0;
	}
}

static bool has_wanted_bytes(const struct flmem_transfer *transfer)
{
	return !transfer->wanted;
}

static bool is_transfer_complete(const struct flmem_transfer *transfer)
{
	return transfer->complete;
}

/*
 * Ends an answer after its last byte: an answer in chunks has one more chunk, or the server sends
 * bytes that were not announced. The connection to a server that does not end its answer is closed.
 */
static enum flmem_transfer_step close_answer(struct flmem_transfer *transfer, const char *name,
					     struct flmem_error *err)
{
	transfer->wanted = 1; /* makes receive_body() refuse any further byte */
	for (unsigned i = 0; i < CLOSING_POLLS_MAX && !is_transfer_complete(transfer); i++) {
		perform_transfer(transfer);
		if (!transfer->complete)
			transfer->curl->multi_poll(transfer->multi, NULL, 0, POLL_MS, NULL);
	}
	transfer->wanted = 0;
	flmem_transfer_stop(transfer);
	return transfer->excess ? report_result(transfer, name, err) : FLMEM_TRANSFER_OK;
}

enum flmem_transfer_step flmem_transfer_read(struct flmem_transfer *transfer, const char *name,
					     char *out, size_t bytes, size_t *ret_got,
					     struct flmem_error *err)
{
	enum flmem_transfer_step step = FLMEM_TRANSFER_OK;

	transfer->accepted = true;
	transfer->out = out;
	transfer->wanted = bytes;
	take_rest(transfer);
	if (transfer->wanted)
		step = drive_transfer(transfer, name, has_wanted_bytes, err);
	*ret_got = bytes - transfer->wanted;
	if (step != FLMEM_TRANSFER_OK)
		return step;
	if (transfer->wanted && transfer->result != CURLE_OK)
		return report_result(transfer, name, err);
	if (transfer->wanted) {
		flmem_error_set(err, FLMEM_EFAILED, 0,
				"the server of '%s' ended its answer %llu bytes early", name,
				(unsigned long long)(transfer->end - transfer->at));
		return FLMEM_TRANSFER_RETRY;
	}
	if (transfer->at == transfer->end && !transfer->rest.length)
		return close_answer(transfer, name, err);
	return FLMEM_TRANSFER_OK;
}
