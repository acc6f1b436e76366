/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/http_server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "serve/http_body.h"
#include "serve/http_connections.h"
#include "serve/http_identity.h"
#include "serve/listen.h"
#include "serve/microhttpd.h"

/* Memory of a connection; half of it becomes the buffer for reading. */
#define CONNECTION_BYTES ((size_t)512 << 10)
#define HEADERS_MAX	 (32U << 10)
#define STACK_BYTES	 ((size_t)2 << 20)
/* A body of at most this length is read before an answer that does not need it. */
#define DRAIN_MAX   (UINT64_C(16) << 20)
#define SINGLES	    10
#define ESCAPED_NUL "%00"

struct flmem_http_server {
	struct flmem_microhttpd http;
	struct flmem_http_server_options options;
	struct flmem_listener listener;
	struct MHD_Daemon *daemon;
	struct flmem_http_connections connections;
	uint64_t answers[6], overloaded; /* protected by the lock of the connections */
	char url[FLMEM_LISTEN_NAME_MAX + 16];
};

struct flmem_http_request {
	struct flmem_http_server *server;
	struct MHD_Connection *connection;
	struct flmem_http_connection *slot;
	const char *method, *path;
	void *data;
	struct MHD_Response *response; /* until it is queued */
	unsigned status;
	bool answered, begun, has_body, expects, large, ambiguous, chunked;
};

void flmem_http_answer_field(struct flmem_http_answer *answer, const char *name, const char *format,
			     ...)
{
	va_list values;
	size_t i = answer->field_count;

	if (i == FLMEM_HTTP_FIELDS_MAX)
		return;
	answer->fields[i].name = name;
	va_start(values, format);
	vsnprintf(answer->fields[i].value, sizeof(answer->fields[i].value), format, values);
	va_end(values);
	answer->field_count++;
}

const char *flmem_http_request_method(const struct flmem_http_request *request)
{
	return request->method;
}

const char *flmem_http_request_path(const struct flmem_http_request *request)
{
	return request->path;
}

const char *flmem_http_request_header(const struct flmem_http_request *request, const char *name)
{
	return request->server->http.lookup_connection_value(request->connection, MHD_HEADER_KIND,
							     name);
}

const char *flmem_http_request_query(const struct flmem_http_request *request, const char *name)
{
	return request->server->http.lookup_connection_value(request->connection,
							     MHD_GET_ARGUMENT_KIND, name);
}

void flmem_http_request_set(struct flmem_http_request *request, void *data)
{
	request->data = data;
}

void *flmem_http_request_get(const struct flmem_http_request *request)
{
	return request->data;
}

void flmem_http_request_cut(struct flmem_http_request *request)
{
	if (request->slot)
		shutdown(request->slot->fd, SHUT_RDWR);
}

void flmem_http_request_wait(struct flmem_http_request *request, bool waits)
{
	flmem_http_connection_work(&request->server->connections, request->slot, waits);
}

int flmem_http_request_identity(struct flmem_http_request *request,
				struct flmem_http_identity *ret_identity, struct flmem_error *err)
{
	const union MHD_ConnectionInfo *info = request->server->http.get_connection_info(
		request->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);

	if (!info || !info->tls_session)
		return flmem_error_set(err, FLMEM_EPERM, 0, "the connection has no TLS");
	return flmem_http_identity_read(info->tls_session,
					request->slot ? &request->slot->proven : NULL, ret_identity,
					err);
}

static struct MHD_Response *make_answer(struct flmem_http_server *server,
					const struct flmem_http_answer *answer)
{
	struct MHD_Response *response =
		flmem_http_body_open(&server->http, answer, server->options.tls_cert);

	if (!response)
		return NULL;
	if (answer->type)
		server->http.add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
						 answer->type);
	server->http.add_response_header(response, "X-Content-Type-Options", "nosniff");
	for (size_t i = 0; i < answer->field_count; i++)
		server->http.add_response_header(response, answer->fields[i].name,
						 answer->fields[i].value);
	return response;
}

void flmem_http_request_answer(struct flmem_http_request *request,
			       const struct flmem_http_answer *answer)
{
	struct flmem_http_server *server = request->server;

	if (answer->has_file)
		flmem_http_connection_send(&server->connections, request->slot, answer->file,
					   answer->offset + answer->bytes);
	request->response = make_answer(server, answer);
	request->status = answer->status;
	request->answered = true;
	pthread_mutex_lock(&server->connections.lock);
	server->answers[answer->status / 100 % 6]++;
	pthread_mutex_unlock(&server->connections.lock);
}

/*
 * Queues the answer. `closes`: the body was not read, so any further data on the connection would
 * be taken for a request.
 */
static enum MHD_Result queue_answer(struct flmem_http_request *request, bool closes)
{
	struct flmem_http_server *server = request->server;
	struct MHD_Response *response = FLMEM_TAKE(request->response);
	enum MHD_Result queued;

	if (!response)
		return MHD_NO;
	if (closes || (request->slot && request->slot->excess))
		server->http.add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	queued = server->http.queue_response(request->connection, request->status, response);
	server->http.destroy_response(response);
	return queued;
}

/* Counts of headers that can make the end of a request, or its server, ambiguous. */
struct head_fields {
	unsigned lengths, codings, hosts;
	bool single[SINGLES]; /* whether the field occurred */
	bool malformed;
};

/* Fields that may occur once: of two, a proxy may check the one that is not used here. */
static const char *const single_names[SINGLES] = {
	"Authorization",   "Content-Type",	     "Range",	      "Tus-Resumable",
	"Upload-Checksum", "Upload-Concat",	     "Upload-Length", "Upload-Offset",
	"Upload-Metadata", "X-HTTP-Method-Override",
};

/*
 * Reports whether a field is well-formed. The library accepts a space in front of the colon and
 * other kinds of line breaks, while a proxy may see another header (RFC 9112, 2.2 and 5.1). The
 * library (0.9.75) adds the second line of a field to its name.
 */
static bool is_field(const char *name, const char *value)
{
	static const char *const lengths[] = {"Content-Length", "Transfer-Encoding"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lengths); i++)
		if (strncasecmp(name, lengths[i], strlen(lengths[i])) == 0 &&
		    name[strlen(lengths[i])])
			return false;
	for (; *name; name++)
		if (*name <= ' ' || *name > '~')
			return false;
	for (; value && *value; value++)
		if (*value == '\r' || *value == '\n')
			return false;
	return true;
}

static enum MHD_Result count_field(void *context, enum MHD_ValueKind kind, const char *name,
				   const char *value)
{
	struct head_fields *fields = context;

	(void)kind;
	fields->malformed |= !is_field(name, value);
	for (size_t i = 0; i < SINGLES; i++) {
		bool found = strcasecmp(name, single_names[i]) == 0;

		fields->malformed |= found && fields->single[i];
		fields->single[i] |= found;
	}
	fields->lengths += strcasecmp(name, "Content-Length") == 0;
	fields->codings += strcasecmp(name, "Transfer-Encoding") == 0;
	fields->hosts += strcasecmp(name, "Host") == 0;
	return MHD_YES;
}

/*
 * Refuses an escaped NUL, which would end a path for the handler of the request, but not for a
 * proxy before it.
 */
static size_t unescape_url(void *context, struct MHD_Connection *connection, char *text)
{
	struct flmem_http_server *server = context;

	(void)connection;
	return strstr(text, ESCAPED_NUL) ? strlen(text) : server->http.http_unescape(text);
}

static bool has_clear_fields(const struct flmem_http_request *request)
{
	struct head_fields fields = {0};

	request->server->http.get_connection_values(request->connection, MHD_HEADER_KIND,
						    count_field, &fields);
	return !fields.malformed && fields.lengths + fields.codings <= 1 && fields.hosts <= 1;
}

static void refuse_request(struct flmem_http_request *request, unsigned status, const char *body)
{
	struct flmem_http_answer answer = {
		.status = status,
		.type = "application/problem+json",
		.body = body,
		.length = strlen(body),
	};

	if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
		flmem_http_answer_field(&answer, "Retry-After", "5");
	flmem_http_request_answer(request, &answer);
}

/*
 * Refuses requests whose end is ambiguous: behind a proxy they turn one client's bytes into
 * another's request (RFC 9112, 6.3).
 */
static void check_head(struct flmem_http_request *request)
{
	const char *length = flmem_http_request_header(request, "Content-Length");
	const char *coding = flmem_http_request_header(request, "Transfer-Encoding");
	const char *expect = flmem_http_request_header(request, "Expect");
	const char *encoding = flmem_http_request_header(request, "Content-Encoding");
	const union MHD_ConnectionInfo *info = request->server->http.get_connection_info(
		request->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
	uint64_t bytes = 0;

	request->expects = expect && strcasecmp(expect, "100-continue") == 0;
	if (length && !flmem_text_read_digits(&length, &bytes))
		bytes = UINT64_MAX;
	request->chunked = coding;
	request->has_body = coding || bytes;
	request->large = coding || bytes > DRAIN_MAX;
	if (!has_clear_fields(request) || strstr(request->path, ESCAPED_NUL) ||
	    (coding ? strcasecmp(coding, "chunked") != 0 : length && *length)) {
		request->large = request->ambiguous = true;
		refuse_request(request, MHD_HTTP_BAD_REQUEST,
			       "{\"type\":\"about:blank\",\"title\":\"Bad Request\","
			       "\"status\":400,\"detail\":\"the path, the length of the body "
			       "or a header is ambiguous\"}\n");
	} else if (encoding && strcasecmp(encoding, "identity") != 0) {
		/* Compressed bytes would be kept as those of the file. */
		refuse_request(request, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
			       "{\"type\":\"about:blank\",\"title\":\"Unsupported Media Type\","
			       "\"status\":415,\"detail\":\"the body has a Content-Encoding; send "
			       "the bytes as they are\"}\n");
	} else if (info && info->header_size > HEADERS_MAX) {
		refuse_request(request, 431,
			       "{\"type\":\"about:blank\",\"title\":\"Request Header Fields Too "
			       "Large\",\"status\":431,\"detail\":\"more than 32 KiB\"}\n");
	} else if (request->slot && request->slot->excess) {
		refuse_request(request, MHD_HTTP_SERVICE_UNAVAILABLE,
			       "{\"type\":\"about:blank\",\"title\":\"Service Unavailable\","
			       "\"status\":503,\"detail\":\"too many connections\"}\n");
		pthread_mutex_lock(&request->server->connections.lock);
		request->server->overloaded++;
		pthread_mutex_unlock(&request->server->connections.lock);
	}
}

static struct flmem_http_request *new_request(struct flmem_http_server *server,
					      struct MHD_Connection *connection, const char *url,
					      const char *method)
{
	struct flmem_http_request *request = calloc(1, sizeof(*request));
	const union MHD_ConnectionInfo *info =
		server->http.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	if (!request)
		return NULL;
	*request = (struct flmem_http_request){
		.server = server,
		.connection = connection,
		.slot = info ? info->socket_context : NULL,
		.method = method,
		.path = flmem_microhttpd_path(url),
	};
	flmem_http_connection_begin(&server->connections, request->slot);
	return request;
}

/* Calls the handler, which may take long; the client does not count as slow meanwhile. */
static void call_handler(struct flmem_http_request *request,
			 void (*call)(void *, struct flmem_http_request *))
{
	struct flmem_http_server *server = request->server;

	flmem_http_connection_work(&server->connections, request->slot, true);
	call(server->options.context, request);
	flmem_http_connection_work(&server->connections, request->slot, false);
}

static enum MHD_Result begin_request(struct flmem_http_request *request)
{
	const struct flmem_http_handler *handler = request->server->options.handler;

	check_head(request);
	if (!request->answered) {
		request->begun = true;
		call_handler(request, handler->begin);
	}
	/*
	 * The library closes a connection that is answered before the body, which only these cases
	 * need.
	 */
	if (!request->answered || !request->has_body || (!request->expects && !request->large))
		return MHD_YES;
	return queue_answer(request, true);
}

/* NOLINTNEXTLINE(readability-function-size): the library prescribes the parameters */
static enum MHD_Result take_request(void *context, struct MHD_Connection *connection,
				    const char *url, const char *method, const char *version,
				    const char *upload, size_t *upload_length, void **data)
{
	struct flmem_http_server *server = context;
	const struct flmem_http_handler *handler = server->options.handler;
	struct flmem_http_request *request = *data;
	size_t length = *upload_length;

	(void)version;
	if (!request) {
		*data = request = new_request(server, connection, url, method);
		return request ? begin_request(request) : MHD_NO;
	}
	if (length) {
		*upload_length = 0;
		return request->answered || handler->body(server->options.context, request, upload,
							  length)
			       ? MHD_YES
			       : MHD_NO;
	}
	if (!request->answered)
		call_handler(request, handler->end);
	/*
	 * The library accepts other line breaks between chunks than proxies may: the next data
	 * could be a request that only the library sees.
	 */
	return queue_answer(request, request->ambiguous || request->chunked);
}

static void finish_request(void *context, struct MHD_Connection *connection, void **data,
			   enum MHD_RequestTerminationCode code)
{
	struct flmem_http_server *server = context;
	struct flmem_http_request *request = *data;

	(void)connection;
	if (!request)
		return;
	if (request->begun)
		server->options.handler->finished(server->options.context, request,
						  code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
	if (request->response)
		server->http.destroy_response(request->response);
	flmem_http_connection_end(&server->connections, request->slot);
	free(request);
	*data = NULL;
}

static void note_connection(void *context, struct MHD_Connection *connection, void **slot,
			    enum MHD_ConnectionNotificationCode code)
{
	struct flmem_http_server *server = context;
	const union MHD_ConnectionInfo *info =
		server->http.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	if (code == MHD_CONNECTION_NOTIFY_STARTED && info)
		*slot = flmem_http_connections_add(&server->connections, info->connect_fd);
	else if (code == MHD_CONNECTION_NOTIFY_CLOSED && *slot)
		flmem_http_connections_remove(&server->connections, *slot);
}

/* Drops the library's own messages: they are about peers (bad handshakes, closed sockets). */
static void ignore_message(void *context, const char *format, va_list values)
{
	(void)context;
	(void)format;
	(void)values;
}

static int start_server(struct flmem_http_server *server, struct flmem_error *err)
{
	const struct flmem_http_server_options *o = &server->options;
	unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
			 MHD_USE_POLL | MHD_USE_ITC | MHD_USE_ERROR_LOG;
	const struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)o->tls_key},
		{MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)o->tls_cert},
		{o->client_ca ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0,
		 (void *)o->client_ca},
		{MHD_OPTION_END, 0, NULL},
	};
	const struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};

	if (o->tls_cert)
		flags |= MHD_USE_TLS;
	server->daemon = server->http.start_daemon(
		flags, 0, NULL, NULL, take_request, server, MHD_OPTION_EXTERNAL_LOGGER,
		ignore_message, NULL, MHD_OPTION_LISTEN_SOCKET, server->listener.fd,
		MHD_OPTION_CONNECTION_LIMIT, o->connections + FLMEM_HTTP_CONNECTIONS_EXCESS,
		MHD_OPTION_PER_IP_CONNECTION_LIMIT, o->address_connections,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES, MHD_OPTION_THREAD_STACK_SIZE,
		STACK_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_UNESCAPE_CALLBACK,
		unescape_url, server, MHD_OPTION_NOTIFY_COMPLETED, finish_request, server,
		MHD_OPTION_NOTIFY_CONNECTION, note_connection, server, MHD_OPTION_ARRAY,
		o->tls_cert ? tls : none, MHD_OPTION_END);
	if (server->daemon)
		return 0;
	if (o->tls_cert)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "cannot serve TLS at %s: the certificate, its key or the "
				       "authorities of clients are not valid PEM, or do not "
				       "belong together",
				       server->listener.name);
	return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot serve at %s",
			       server->listener.name);
}

static int open_server(struct flmem_http_server *server, struct flmem_error *err)
{
	const struct flmem_http_server_options *o = &server->options;
	int rc = flmem_microhttpd_load(&server->http, err);

	if (!rc && o->tls_cert && server->http.is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
		rc = flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				     "this libmicrohttpd is built without TLS");
	if (!rc)
		rc = flmem_listen(o->address, &server->listener, err);
	if (rc)
		return rc;
	snprintf(server->url, sizeof(server->url), "%s://%s", o->tls_cert ? "https" : "http",
		 server->listener.name);
	if (o->loopback_only && !server->listener.local)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "%s can be reached from other hosts, who could read and "
				       "change what is sent: use --tls-cert and --tls-key, listen "
				       "on 127.0.0.1 behind a proxy, or add --insecure",
				       server->listener.name);
	return start_server(server, err);
}

static void cleanup_http_server(struct flmem_http_server **server)
{
	flmem_http_server_close(*server);
}

int flmem_http_server_open(const struct flmem_http_server_options *options,
			   struct flmem_http_server **ret_server, struct flmem_error *err)
{
	FLMEM_AUTO(cleanup_http_server)
	struct flmem_http_server *server = calloc(1, sizeof(*server));
	int rc;

	if (!server)
		return flmem_error_nomem(err, "cannot make a server");
	server->options = *options;
	server->listener.fd = -1;
	if (!flmem_http_connections_init(&server->connections, options->connections,
					 options->idle_us))
		return flmem_error_nomem(err, "cannot make a server");
	rc = open_server(server, err);
	if (!rc)
		*ret_server = FLMEM_TAKE(server);
	return rc;
}

void flmem_http_server_close(struct flmem_http_server *server)
{
	if (!server)
		return;
	if (server->daemon) {
		int fd = server->http.quiesce_daemon(server->daemon);

		flmem_http_connections_shut(&server->connections);
		server->http.stop_daemon(server->daemon);
		flmem_cleanup_close(&fd);
	} else {
		flmem_cleanup_close(&server->listener.fd);
	}
	flmem_http_connections_clear(&server->connections);
	free(server);
}

const char *flmem_http_server_url(const struct flmem_http_server *server)
{
	return server->url;
}

bool flmem_http_server_is_local(const struct flmem_http_server *server)
{
	return server->listener.local;
}

void flmem_http_server_sweep(struct flmem_http_server *server)
{
	flmem_http_connections_sweep(&server->connections);
}

void flmem_http_server_resume(struct flmem_http_server *server, uint64_t paused_us)
{
	flmem_http_connections_resume(&server->connections, paused_us);
}

void flmem_http_server_load(struct flmem_http_server *server,
			    struct flmem_http_server_load *ret_load)
{
	struct flmem_http_connections *connections = &server->connections;

	pthread_mutex_lock(&connections->lock);
	*ret_load = (struct flmem_http_server_load){
		.connections = connections->used,
		.requests = connections->requests,
		.last_us = connections->last_us,
		.cut = connections->cut,
		.overloaded = server->overloaded,
	};
	memcpy(ret_load->answers, server->answers, sizeof(ret_load->answers));
	pthread_mutex_unlock(&connections->lock);
}
