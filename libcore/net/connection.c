/* SPDX-License-Identifier: Apache-2.0 */
#include "net/connection.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <flmem/text.h>

#include "base/clock.h"
#include "net/curl.h"

#define SLICE_MS     200
#define BUFFER_BYTES (512L << 10)
/*
 * Size of libcurl's upload buffer, which it allocates for each request: a larger one would be
 * returned to the kernel each time.
 */
#define UPLOAD_BYTES (96L << 10)

struct flmem_connection {
	const struct flmem_connection_options *options;
	const struct flmem_curl *curl;
	CURL *easy;
	CURLM *multi;
	char message[CURL_ERROR_SIZE];
};

/* A request in progress. */
struct exchange_of_messages {
	struct flmem_connection *connection;
	const struct flmem_connection_request *request;
	struct flmem_connection_answer *answer;
	struct curl_slist *headers;
	uint64_t moved; /* bytes in both directions */
	uint64_t sent_body;
	bool headers_large, body_large, refused, done, waits;
	CURLcode result;
};

void flmem_connection_answer_clear(struct flmem_connection_answer *answer)
{
	flmem_buf_clear(&answer->body);
}

static size_t take_header(char *line, size_t size, size_t count, void *context)
{
	struct exchange_of_messages *sent = context;

	sent->moved += size * count;
	sent->headers_large |= !flmem_reply_add(&sent->answer->reply, line, size * count);
	return sent->headers_large ? 0 : size * count;
}

static bool is_for_receiver(const struct exchange_of_messages *sent)
{
	unsigned status = sent->answer->reply.status;

	return sent->request->take && (status == 200 || status == 206);
}

static size_t take_body(char *bytes, size_t size, size_t count, void *context)
{
	struct exchange_of_messages *sent = context;
	struct flmem_buf *body = &sent->answer->body;
	size_t length = size * count;

	sent->moved += length;
	if (is_for_receiver(sent)) {
		sent->refused = !sent->request->take(sent->request->context, &sent->answer->reply,
						     bytes, length);
		return sent->refused ? 0 : length;
	}
	sent->body_large = length > sent->request->answer_max - body->length;
	if (sent->body_large)
		return 0;
	flmem_buf_append(body, bytes, length);
	return body->failed ? 0 : length;
}

/*
 * Counts the bytes that libcurl has moved, for the time limit; headers of the request do not count.
 */
static int note_progress(void *context, curl_off_t to_receive, curl_off_t received,
			 curl_off_t to_send, curl_off_t did_send)
{
	struct exchange_of_messages *sent = context;
	uint64_t both = (uint64_t)did_send + (uint64_t)received;

	(void)to_receive;
	(void)to_send;
	if (both > sent->moved)
		sent->moved = both;
	sent->sent_body = (uint64_t)did_send;
	return 0;
}

static bool set_credentials(const struct flmem_connection *connection)
{
	const struct flmem_connection_options *options = connection->options;
	const struct flmem_curl *curl = connection->curl;
	const char *cacert = flmem_curl_authorities(options->cacert);
	const char *key = options->key ? options->key : options->cert;
	CURL *easy = connection->easy;
	CURLcode failed = CURLE_OK;

	if (cacert)
		failed |= curl->easy_setopt(easy, CURLOPT_CAINFO, cacert);
	if (options->cert) {
		failed |= curl->easy_setopt(easy, CURLOPT_SSLCERT, options->cert);
		failed |= curl->easy_setopt(easy, CURLOPT_SSLKEY, key);
	}
	return !failed;
}

static bool set_connection_options(struct flmem_connection *connection)
{
	const struct flmem_curl *curl = connection->curl;
	CURL *easy = connection->easy;
	CURLcode failed = CURLE_OK;

	failed |= curl->easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_BYTES);
	failed |= curl->easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
	failed |= curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
	failed |= curl->easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, note_progress);
	failed |= curl->easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
	failed |= curl->easy_setopt(easy, CURLOPT_ERRORBUFFER, connection->message);
	return !failed &&
	       flmem_curl_set_common(curl, easy, BUFFER_BYTES,
				     connection->options->timeout_seconds) &&
	       set_credentials(connection);
}

static void close_connection(struct flmem_connection **connection)
{
	flmem_connection_close(*connection);
}

int flmem_connection_open(const struct flmem_connection_options *options,
			  struct flmem_connection **ret_connection, struct flmem_error *err)
{
	FLMEM_AUTO(close_connection)
	struct flmem_connection *connection = calloc(1, sizeof(*connection));
	int rc;

	if (!connection)
		return flmem_error_nomem(err, "cannot open a connection");
	connection->options = options;
	rc = flmem_curl_load(&connection->curl, err);
	if (rc)
		return rc;
	connection->easy = connection->curl->easy_init();
	connection->multi = connection->curl->multi_init();
	if (!connection->easy || !connection->multi)
		return flmem_error_nomem(err, "cannot open a connection");
	if (!set_connection_options(connection))
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "this libcurl lacks an option that the exchange needs; "
				       "install version 7.85 or later");
	*ret_connection = FLMEM_TAKE(connection);
	return 0;
}

void flmem_connection_close(struct flmem_connection *connection)
{
	if (!connection)
		return;
	if (connection->easy)
		connection->curl->easy_cleanup(connection->easy);
	if (connection->multi)
		connection->curl->multi_cleanup(connection->multi);
	free(connection);
}

static bool append_line(struct exchange_of_messages *sent, const char *line)
{
	struct curl_slist *longer = sent->connection->curl->slist_append(sent->headers, line);

	if (longer)
		sent->headers = longer;
	return longer;
}

/* "Expect: 100-continue" would cost a round trip for each chunk. */
static bool make_header_lines(struct exchange_of_messages *sent)
{
	const char *authorization = sent->connection->options->authorization;
	const char *const *line = sent->request->headers;
	bool made = append_line(sent, "Expect:") && append_line(sent, "Content-Type:") &&
		    append_line(sent, "Accept-Encoding: identity");

	for (; made && line && *line; line++)
		made = append_line(sent, *line);
	return made && (!authorization || append_line(sent, authorization));
}

static bool set_request_options(struct exchange_of_messages *sent)
{
	const struct flmem_connection_request *request = sent->request;
	const struct flmem_curl *curl = sent->connection->curl;
	CURL *easy = sent->connection->easy;
	CURLcode failed = CURLE_OK;

	/* Resets the method and options of an earlier request. */
	failed |= curl->easy_setopt(easy, CURLOPT_HTTPGET, 1L);
	if (request->body || strcmp(request->method, "POST") == 0) {
		failed |= curl->easy_setopt(easy, CURLOPT_POST, 1L);
		failed |= curl->easy_setopt(easy, CURLOPT_POSTFIELDS,
					    request->body ? request->body : "");
		failed |= curl->easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
					    (curl_off_t)request->body_bytes);
	} else if (strcmp(request->method, "HEAD") == 0) {
		failed |= curl->easy_setopt(easy, CURLOPT_NOBODY, 1L);
	}
	failed |= curl->easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
	failed |= curl->easy_setopt(easy, CURLOPT_URL, request->url);
	failed |= curl->easy_setopt(easy, CURLOPT_HTTPHEADER, sent->headers);
	failed |= curl->easy_setopt(easy, CURLOPT_HEADERDATA, sent);
	failed |= curl->easy_setopt(easy, CURLOPT_WRITEDATA, sent);
	failed |= curl->easy_setopt(easy, CURLOPT_XFERINFODATA, sent);
	return !failed;
}

static void perform_messages(struct exchange_of_messages *sent)
{
	const struct flmem_connection *connection = sent->connection;
	const struct flmem_curl *curl = connection->curl;
	CURLMsg *message;
	int running, left;

	curl->multi_perform(connection->multi, &running);
	while ((message = curl->multi_info_read(connection->multi, &left)))
		if (message->msg == CURLMSG_DONE) {
			sent->done = true;
			sent->result = message->data.result;
		}
}

static void note_wait(struct exchange_of_messages *sent, uint64_t moved_before)
{
	const struct flmem_connection_request *request = sent->request;

	if (sent->waits || !request->waits ||
	    (sent->sent_body < request->body_bytes && sent->moved > moved_before))
		return;
	sent->waits = true;
	request->waits(request->context);
}

static enum flmem_connection_step drive_messages(struct exchange_of_messages *sent,
						 struct flmem_error *err)
{
	const struct flmem_connection_options *options = sent->connection->options;
	struct flmem_curl_pace pace = {.since_us = flmem_clock_us()};
	uint64_t limit = (uint64_t)options->timeout_seconds + sent->request->wait_seconds;

	for (;;) {
		uint64_t before = sent->moved;

		perform_messages(sent);
		if (sent->done)
			return FLMEM_CONNECTION_OK;
		note_wait(sent, before);
		if (options->ended && options->ended(options->context)) {
			flmem_error_set(err, FLMEM_EFAILED, 0, "stopped during a request to '%s'",
					sent->request->name);
			return FLMEM_CONNECTION_FAIL;
		}
		if (flmem_curl_is_too_slow(&pace, sent->moved, limit)) {
			flmem_error_set(err, FLMEM_EFAILED, 0,
					"the server of '%s' did not answer within %" PRIu64
					" seconds, or "
					"moves less than 1 KiB a second",
					sent->request->name, limit);
			return FLMEM_CONNECTION_RETRY;
		}
		/* More data often follows soon: wait only if none has arrived. */
		if (sent->moved == before)
			sent->connection->curl->multi_poll(sent->connection->multi, NULL, 0,
							   SLICE_MS, NULL);
	}
}

/*
 * Advice if the scheme may be wrong: a server of the other protocol answers with an alert or with
 * an error page, or closes the connection.
 */
static const char *scheme_hint(const struct exchange_of_messages *sent)
{
	bool plain = strncasecmp(sent->request->url, "http:", strlen("http:")) == 0;

	if (!plain && sent->result == CURLE_SSL_CONNECT_ERROR)
		return "; if the server does not use TLS, its address begins with http://";
	if (plain &&
	    (sent->result == CURLE_UNSUPPORTED_PROTOCOL ||
	     sent->result == CURLE_WEIRD_SERVER_REPLY || sent->result == CURLE_GOT_NOTHING))
		return "; if the server uses TLS, its address begins with https://";
	return "";
}

static enum flmem_connection_step report_message_failure(const struct exchange_of_messages *sent,
							 struct flmem_error *err)
{
	const struct flmem_connection *connection = sent->connection;
	const char *name = sent->request->name;
	const char *why = connection->message[0] ? connection->message
						 : connection->curl->easy_strerror(sent->result);
	char shown[CURL_ERROR_SIZE];

	if (sent->refused) /* the callback has set `err` */
		return FLMEM_CONNECTION_FAIL;
	if (sent->headers_large)
		flmem_error_set(err, FLMEM_EFAILED, 0,
				"the server of '%s' sends more than %u bytes of headers", name,
				FLMEM_REPLY_HEADERS_MAX);
	else if (flmem_curl_is_line_too_long(sent->result))
		flmem_error_set(err, FLMEM_EFAILED, 0,
				"the server of '%s' sends a line of headers of more than 100 KiB, "
				"or memory is exhausted; check that this is the address of flmem "
				"exchange serve",
				name);
	else if (sent->body_large)
		flmem_error_set(err, FLMEM_EFAILED, 0,
				"the server of '%s' sends an answer of more than %zu bytes", name,
				sent->request->answer_max);
	else if (sent->result == CURLE_PEER_FAILED_VERIFICATION)
		flmem_error_set(err, FLMEM_EFAILED, 0,
				"the certificate of the server of '%s' is not trusted (%s); %s",
				name, flmem_text_escape(why, shown, sizeof(shown)),
				flmem_curl_certificate_advice(
					why, "name the certificate of its authority with --ca"));
	else if (sent->result == CURLE_SSL_CERTPROBLEM)
		flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"cannot use the client's certificate (%s); --cert and --key are PEM "
			"files that belong together",
			flmem_text_escape(why, shown, sizeof(shown)));
	else if (sent->result == CURLE_SSL_CACERT_BADFILE)
		flmem_error_set(err, FLMEM_EUSAGE, 0,
				"cannot use the authorities to trust (%s); --ca is a PEM file of "
				"certificates",
				flmem_text_escape(why, shown, sizeof(shown)));
	else
		flmem_error_set(err, FLMEM_EFAILED, 0, "a request to '%s' failed: %s%s", name,
				flmem_text_escape(why, shown, sizeof(shown)), scheme_hint(sent));
	return flmem_curl_is_transient(sent->result) ? FLMEM_CONNECTION_RETRY
						     : FLMEM_CONNECTION_FAIL;
}

static enum flmem_connection_step run_messages(struct exchange_of_messages *sent,
					       struct flmem_error *err)
{
	const struct flmem_connection *connection = sent->connection;
	const struct flmem_curl *curl = connection->curl;
	struct flmem_curl_sigpipe sigpipe;
	enum flmem_connection_step step;

	if (!make_header_lines(sent) || !set_request_options(sent) ||
	    curl->multi_add_handle(connection->multi, connection->easy)) {
		flmem_error_set(err, FLMEM_EFAILED, 0, "cannot send a request to '%s'",
				sent->request->name);
		return FLMEM_CONNECTION_FAIL;
	}
	flmem_curl_sigpipe_begin(&sigpipe);
	step = drive_messages(sent, err);
	flmem_curl_sigpipe_end(&sigpipe);
	if (step == FLMEM_CONNECTION_OK && sent->result != CURLE_OK)
		step = report_message_failure(sent, err);
	curl->multi_remove_handle(connection->multi, connection->easy);
	return step;
}

enum flmem_connection_step flmem_connection_send(struct flmem_connection *connection,
						 const struct flmem_connection_request *request,
						 struct flmem_connection_answer *answer,
						 struct flmem_error *err)
{
	struct exchange_of_messages sent = {
		.connection = connection,
		.request = request,
		.answer = answer,
	};
	enum flmem_connection_step step;

	answer->reply = (struct flmem_reply){0};
	flmem_buf_reset(&answer->body);
	connection->message[0] = '\0';
	step = run_messages(&sent, err);
	connection->curl->slist_free_all(sent.headers);
	return step;
}
