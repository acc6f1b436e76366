/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <flmem/text.h>

#include "base/clock.h"
#include "base/files/io.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "base/text/url.h"
#include "exchange/wire.h"
#include "net/credential.h"
#include "ops/exchange/client/client_json.h"

#define RETRIES		 10U
#define TIMEOUT_SECONDS	 30U
#define LIMIT_MAX	 3600U
#define TOKEN_MAX	 4096U
#define DELAY_FIRST_US	 UINT64_C(250000)
#define DELAY_LARGEST_US UINT64_C(30000000)
#define SLICE_US	 UINT64_C(100000)
#define URL_MAX		 2048U

bool flmem_exchange_client_continues(struct flmem_exchange_client *client)
{
	const struct flmem_exchange_server *server = client->server;

	client->progress.elapsed_us = flmem_clock_us() - client->began_us;
	if (!client->stopped && server->progress)
		client->stopped = !server->progress(server->context, &client->progress);
	return !client->stopped && !(client->until_us && flmem_clock_us() >= client->until_us);
}

void flmem_exchange_client_show(struct flmem_exchange_client *client, uint64_t total_bytes)
{
	client->began_us = flmem_clock_us();
	client->progress = (struct flmem_aggregate_progress){.total_bytes = total_bytes};
}

static bool is_client_ended(void *context)
{
	return !flmem_exchange_client_continues(context);
}

/* Returns true if the line can be a bearer token (RFC 6750): visible characters. */
static bool is_token_line(const char *token)
{
	const char *at = token;

	while (*at > ' ' && *at < 0x7f)
		at++;
	return at != token && !*at;
}

static int read_token(struct flmem_exchange_client *client, struct flmem_error *err)
{
	const char *path = client->server->token_file;
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	int rc = flmem_io_read_named(path, TOKEN_MAX, &text);

	if (rc)
		return flmem_error_set(err, flmem_code_of_open(-rc), -rc,
				       "cannot read the token in '%s'", path);
	text.data[strcspn(text.data, "\r\n")] = '\0';
	if (!is_token_line(text.data))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "the first line of '%s' is not a token: expected visible "
				       "ASCII characters without spaces%s",
				       path,
				       strchr(text.data, ' ') ? "; a client's file has the token "
								"alone, without the name"
							      : "");
	if (asprintf(&client->authorization, "Authorization: Bearer %s", text.data) < 0) {
		client->authorization = NULL;
		return flmem_error_nomem(err, "cannot read the token");
	}
	return 0;
}

/* Returns true if data sent to the host of this address stays on this machine. */
static bool is_loopback(const char *url)
{
	const char *host = url + strlen("http://");
	size_t length = strcspn(host, ":/");

	return strncasecmp(host, "[::1]", strlen("[::1]")) == 0 ||
	       (length == strlen("localhost") && strncasecmp(host, "localhost", length) == 0) ||
	       (flmem_text_starts(host, "127.") && strspn(host, "0123456789.") == length);
}

static int check_address(const struct flmem_exchange_server *server, const char *url,
			 struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *shown = flmem_url_show(url);
	char safe[256];

	flmem_text_escape(shown ?: "", safe, sizeof(safe));
	if (!flmem_url_is(url) || strpbrk(url, "?#@") || strlen(url) > URL_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is not the address of an exchange; expected "
				       "http://HOST:PORT or https://HOST:PORT",
				       safe);
	if (server->token_file && !server->insecure &&
	    strncasecmp(url, "http://", strlen("http://")) == 0 && !is_loopback(url))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "a token is not sent to '%s' without encryption; use "
				       "https://, or --insecure on a network that you trust",
				       safe);
	return 0;
}

static int check_credential_files(const struct flmem_exchange_server *server,
				  struct flmem_error *err)
{
	const char *const paths[] = {server->cacert, server->cert, server->key};
	int rc = 0;

	/* Check this first: the user may mean --key NAME of the server, not a file. */
	if (server->key && !server->cert)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "a key needs its certificate; name it with --cert FILE "
				       "(--key NAME, the dict of a checkpoint that has the "
				       "tensors, is an option of 'flmem exchange serve')");
	for (size_t i = 0; !rc && i < FLMEM_ARRAY_SIZE(paths); i++)
		rc = flmem_credential_check(paths[i], err);
	return rc;
}

static int fill_connection_options(struct flmem_exchange_client *client, struct flmem_error *err)
{
	const struct flmem_exchange_server *server = client->server;
	unsigned seconds = server->timeout_seconds ? server->timeout_seconds : TIMEOUT_SECONDS;

	if (server->retries > LIMIT_MAX || seconds > LIMIT_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       server->retries > LIMIT_MAX
					       ? "--retries accepts at most %u"
					       : "--timeout accepts at most %u s",
				       LIMIT_MAX);
	client->options = (struct flmem_connection_options){
		.cacert = server->cacert,
		.cert = server->cert,
		.key = server->key,
		.authorization = client->authorization,
		.timeout_seconds = seconds,
		.ended = is_client_ended,
		.context = client,
	};
	return 0;
}

int flmem_exchange_client_open(struct flmem_exchange_client *client,
			       const struct flmem_exchange_server *server, struct flmem_error *err)
{
	size_t length = strlen(server->url);
	int rc;

	*client = (struct flmem_exchange_client){.server = server, .began_us = flmem_clock_us()};
	rc = check_address(server, server->url, err);
	if (rc)
		return rc;
	while (server->url[length - 1] == '/')
		length--;
	client->base = strndup(server->url, length);
	if (!client->base)
		return flmem_error_nomem(err, "cannot open an address");
	client->name = client->base;
	if (server->token_file)
		rc = read_token(client, err);
	if (!rc)
		rc = check_credential_files(server, err);
	if (!rc)
		rc = fill_connection_options(client, err);
	return rc ? rc : flmem_connection_open(&client->options, &client->connection, err);
}

void flmem_exchange_client_clear(struct flmem_exchange_client *client)
{
	flmem_connection_close(client->connection);
	free(client->base);
	free(client->authorization);
	*client = (struct flmem_exchange_client){0};
}

enum flmem_connection_step flmem_exchange_client_try(struct flmem_exchange_client *client,
						     const struct flmem_connection_request *request,
						     struct flmem_connection_answer *answer,
						     struct flmem_error *err)
{
	enum flmem_connection_step step =
		flmem_connection_send(client->connection, request, answer, err);
	struct flmem_exchange_problem problem;

	client->ahead = false;
	if (step != FLMEM_CONNECTION_OK || !flmem_reply_is_transient(&answer->reply))
		return step;
	flmem_exchange_problem_parse(&answer->body, &problem);
	client->ahead = strcmp(problem.title, FLMEM_EXCHANGE_AHEAD_TITLE) == 0;
	flmem_exchange_client_refused(client, "the server is not ready", answer, err);
	return FLMEM_CONNECTION_RETRY;
}

void flmem_exchange_client_progressed(struct flmem_exchange_client *client)
{
	client->failed = 0;
}

int flmem_exchange_client_pause(struct flmem_exchange_client *client,
				const struct flmem_connection_answer *answer,
				struct flmem_error *err)
{
	const struct flmem_exchange_server *server = client->server;
	unsigned most = server->never_retry ? 0 : server->retries ? server->retries : RETRIES;
	uint64_t delay = DELAY_FIRST_US << (client->failed < 7 ? client->failed : 7), until;
	uint64_t asked = answer->reply.retry_seconds * 1000000U;

	if (!most && !client->ahead)
		return err->code;
	if (!client->ahead && client->failed++ >= most)
		return flmem_error_prefix(err, err->code, "tried %u times", client->failed);
	client->retries++;
	if (server->retrying && !client->ahead)
		server->retrying(server->context, err);
	delay = delay < DELAY_LARGEST_US ? delay : DELAY_LARGEST_US;
	delay = asked > delay ? asked : delay;
	for (until = flmem_clock_us() + delay; flmem_clock_us() < until;) {
		if (!flmem_exchange_client_continues(client))
			return flmem_error_prefix(err, err->code, "stopped after a failure");
		flmem_clock_sleep_us(SLICE_US);
	}
	return 0;
}

int flmem_exchange_client_ask(struct flmem_exchange_client *client,
			      const struct flmem_connection_request *request,
			      struct flmem_connection_answer *answer, struct flmem_error *err)
{
	struct flmem_error why = {0};
	int rc = 0;

	for (;;) {
		switch (flmem_exchange_client_try(client, request, answer, &why)) {
		case FLMEM_CONNECTION_OK:
			return 0;
		case FLMEM_CONNECTION_RETRY:
			rc = flmem_exchange_client_pause(client, answer, &why);
			break;
		default:
			rc = why.code;
		}
		if (rc && err)
			*err = why;
		if (rc)
			return rc;
	}
}

/* Describes a status to the user; `hint` advises what to do. */
static const struct refused_status {
	unsigned status;
	int code;
	const char *hint;
} refused_statuses[] = {
	{401, FLMEM_EPERM,
	 "; give the token of this client with --token-file, or --cert and --key"},
	{403, FLMEM_EPERM, "; check the client's name and its credentials"},
	{404, FLMEM_EUSAGE, ""},
	{409, FLMEM_EUSAGE, ""},
	{410, FLMEM_EUSAGE, ""},
	{412, FLMEM_EFAILED, ""},
	{413, FLMEM_EUSAGE, "; the server or a proxy accepts less"},
	{422, FLMEM_EUSAGE, ""},
	{507, FLMEM_EFAILED, "; the server needs more disk space"},
};

static const struct refused_status *find_status(unsigned status)
{
	static const struct refused_status other = {.code = FLMEM_EFAILED, .hint = ""};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(refused_statuses); i++)
		if (refused_statuses[i].status == status)
			return &refused_statuses[i];
	return &other;
}

int flmem_exchange_client_refused(const struct flmem_exchange_client *client, const char *what,
				  struct flmem_connection_answer *answer, struct flmem_error *err)
{
	const struct refused_status *row = find_status(answer->reply.status);
	struct flmem_exchange_problem problem;
	const char *hint = row->hint;

	if (flmem_reply_redirects(&answer->reply))
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "'%s' redirects to another address (status %u), which is "
				       "not followed; name that address",
				       client->name, answer->reply.status);
	flmem_exchange_problem_parse(&answer->body, &problem);
	if (answer->reply.status == 404 && !problem.title[0])
		hint = "; check that this is the address of flmem exchange serve";
	if (strcmp(problem.title, FLMEM_EXCHANGE_OVER_TITLE) == 0)
		hint = "; pull the latest model, and push an update that was made from it";
	if (answer->reply.status == 409 && answer->reply.location[0])
		hint = ", or add --replace";
	return flmem_error_set(err, row->code, 0, "%s: '%s' answers with status %u%s%s%s%s%s", what,
			       client->name, answer->reply.status, problem.title[0] ? ", " : "",
			       problem.title, problem.detail[0] ? ": " : "", problem.detail, hint);
}

int flmem_exchange_client_get(struct flmem_exchange_client *client, const char *path,
			      const struct flmem_connection_request *options,
			      struct flmem_connection_answer *answer, struct flmem_error *err)
{
	struct flmem_connection_request request = *options;
	FLMEM_AUTO_FREE char *url = NULL;
	int rc;

	if (asprintf(&url, "%s%s", client->base, path) < 0) {
		url = NULL;
		return flmem_error_nomem(err, "cannot send a request");
	}
	request.method = "GET";
	request.url = url;
	request.name = client->name;
	rc = flmem_exchange_client_ask(client, &request, answer, err);
	if (!rc && answer->reply.status != 200)
		rc = flmem_exchange_client_refused(client, options->name, answer, err);
	return rc;
}

int flmem_exchange_client_state(struct flmem_exchange_client *client, const uint64_t *after,
				unsigned wait_seconds, struct flmem_exchange_status *ret_status,
				struct flmem_error *err)
{
	FLMEM_AUTO_CONNECTION_ANSWER
	struct flmem_connection_answer answer = FLMEM_CONNECTION_ANSWER_INIT;
	const struct flmem_connection_request options = {
		.name = "cannot read the state of the exchange",
		.answer_max = FLMEM_EXCHANGE_ANSWER_MAX,
		.wait_seconds = wait_seconds,
	};
	char path[96] = FLMEM_EXCHANGE_STATUS_PATH;
	int rc;

	if (after)
		snprintf(path, sizeof(path), FLMEM_EXCHANGE_STATUS_PATH "?after=%llu&wait=%u",
			 (unsigned long long)*after, wait_seconds);
	rc = flmem_exchange_client_get(client, path, &options, &answer, err);
	return rc ? rc : flmem_exchange_state_parse(&answer.body, client->name, ret_status, err);
}
