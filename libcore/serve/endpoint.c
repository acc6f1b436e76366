/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/metrics.h>

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/thread.h"
#include "serve/listen.h"
#include "serve/microhttpd.h"

#define PATH "/metrics"

/* Limit of concurrent connections; further ones wait to be accepted. */
#define CONNECTIONS_MAX 16U

/*
 * Lifetime of a connection, however slowly the peer reads or writes. The shorter one applies while
 * others wait for its place.
 */
#define LIFETIME_US	 5000000U
#define LIFETIME_FULL_US 1000000U

/* Interval between checks of connection ages, while there are connections. */
#define SWEEP_MS 250

/* Buffers of a connection: larger headers are refused. */
#define CONNECTION_BYTES 16384U

/* Requests within this time of another receive the same text. */
#define FRESH_US 200000U

static const struct {
	const char *type;
} expositions[] = {
	[FLMEM_EXPOSITION_TEXT] = {"text/plain; version=0.0.4; charset=utf-8"},
	[FLMEM_EXPOSITION_OPENMETRICS] = {"application/openmetrics-text; version=1.0.0; "
					  "charset=utf-8"},
};

struct cached_response {
	struct MHD_Response *response; /* NULL: none */
	uint64_t made_us;
};

struct connection_slot {
	bool used;
	int fd;
	uint64_t began_us;
};

struct flmem_endpoint {
	struct flmem_microhttpd http;
	struct flmem_watch_snapshot *snapshot; /* borrowed */
	struct MHD_Daemon *daemon;
	struct flmem_listener listener;
	char url[FLMEM_LISTEN_NAME_MAX + 16];
	int epoll; /* the daemon's descriptor */
	int stop;  /* readable: the thread has to end */
	bool started;
	pthread_t thread;
	/* Used by the thread only. */
	struct cached_response cached[FLMEM_ARRAY_SIZE(expositions)];
	struct connection_slot slots[CONNECTIONS_MAX];
	bool closed; /* a connection closed since the last run of the daemon */
};

/* Makes a response that takes ownership of the text; NULL if memory is out. */
static struct MHD_Response *make_response(struct flmem_endpoint *e, char *text, const char *type)
{
	struct MHD_Response *response =
		e->http.create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);

	if (!response) {
		free(text);
		return NULL;
	}
	e->http.add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	e->http.add_response_header(response, "X-Content-Type-Options", "nosniff");
	e->http.add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	/* Each connection serves one request, so that no client can occupy one. */
	e->http.add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	return response;
}

static enum MHD_Result send_error(struct flmem_endpoint *e, struct MHD_Connection *connection,
				  unsigned status, const char *why)
{
	char *text = strdup(why);
	struct MHD_Response *response =
		text ? make_response(e, text, "text/plain; charset=utf-8") : NULL;
	enum MHD_Result queued;

	if (!response)
		return MHD_NO;
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		e->http.add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	queued = e->http.queue_response(connection, status, response);
	e->http.destroy_response(response);
	return queued;
}

static enum flmem_exposition choose_exposition(struct flmem_endpoint *e,
					       struct MHD_Connection *connection)
{
	const char *accepted = e->http.lookup_connection_value(connection, MHD_HEADER_KIND,
							       MHD_HTTP_HEADER_ACCEPT);

	return accepted && strstr(accepted, "application/openmetrics-text")
		       ? FLMEM_EXPOSITION_OPENMETRICS
		       : FLMEM_EXPOSITION_TEXT;
}

/* Returns the text of the watch, which the caller frees; NULL while there is no watch. */
static char *render_metrics(struct flmem_endpoint *e, enum flmem_exposition exposition)
{
	struct flmem_watch_snapshot_data state;
	char *text;

	if (flmem_watch_snapshot_read(e->snapshot, &state, NULL))
		return NULL;
	text = flmem_report_watch_metrics(&state, exposition);
	flmem_watch_summary_clear(&state.summary);
	return text;
}

/* Returns a response with the current text, or a very recent one; NULL if there is none. */
static struct MHD_Response *current_response(struct flmem_endpoint *e,
					     enum flmem_exposition exposition)
{
	struct cached_response *c = &e->cached[exposition];
	uint64_t now_us = flmem_clock_us();
	char *text;

	if (c->response && now_us - c->made_us < FRESH_US)
		return c->response;
	text = render_metrics(e, exposition);
	if (c->response)
		e->http.destroy_response(c->response);
	c->response = text ? make_response(e, text, expositions[exposition].type) : NULL;
	c->made_us = flmem_clock_us();
	return c->response;
}

/* NOLINTNEXTLINE(readability-function-size): the library prescribes the parameters */
static enum MHD_Result answer_request(void *context, struct MHD_Connection *connection,
				      const char *url, const char *method, const char *version,
				      const char *upload, size_t *upload_length, void **ret_request)
{
	struct flmem_endpoint *e = context;
	struct MHD_Response *response;

	(void)version;
	(void)upload;
	(void)ret_request;
	*upload_length = 0;
	if (strcmp(flmem_microhttpd_path(url), PATH) != 0)
		return send_error(e, connection, MHD_HTTP_NOT_FOUND,
				  "Not found. Metrics are at " PATH ".\n");
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return send_error(e, connection, MHD_HTTP_METHOD_NOT_ALLOWED,
				  "Method not allowed; use GET or HEAD.\n");
	response = current_response(e, choose_exposition(e, connection));
	if (!response)
		return send_error(e, connection, MHD_HTTP_SERVICE_UNAVAILABLE,
				  "No samples yet; try again.\n");
	return e->http.queue_response(connection, MHD_HTTP_OK, response);
}

static void on_connection(void *context, struct MHD_Connection *connection, void **slot_of,
			  enum MHD_ConnectionNotificationCode code)
{
	struct flmem_endpoint *e = context;
	const union MHD_ConnectionInfo *info =
		e->http.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	if (code == MHD_CONNECTION_NOTIFY_CLOSED && *slot_of) {
		((struct connection_slot *)*slot_of)->used = false;
		e->closed = true;
	}
	if (code != MHD_CONNECTION_NOTIFY_STARTED || !info)
		return;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(e->slots) && !*slot_of; i++) {
		if (e->slots[i].used)
			continue;
		e->slots[i] = (struct connection_slot){true, info->connect_fd, flmem_clock_us()};
		*slot_of = &e->slots[i];
	}
}

/* Shuts down expired connections; true if connections remain. */
static bool end_expired_connections(struct flmem_endpoint *e)
{
	uint64_t now_us = flmem_clock_us(), lifetime_us;
	size_t used = 0;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(e->slots); i++)
		used += e->slots[i].used;
	lifetime_us = used < FLMEM_ARRAY_SIZE(e->slots) ? LIFETIME_US : LIFETIME_FULL_US;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(e->slots); i++)
		/* The daemon detects the shutdown and closes the connection. */
		if (e->slots[i].used && now_us - e->slots[i].began_us >= lifetime_us)
			shutdown(e->slots[i].fd, SHUT_RDWR);
	return used;
}

static int wait_timeout_ms(struct flmem_endpoint *e)
{
	MHD_UNSIGNED_LONG_LONG daemon_ms;
	int ms = end_expired_connections(e) ? SWEEP_MS : -1;

	/* A full daemon accepts again only after another run. */
	if (e->closed)
		return 0;
	if (e->http.get_timeout(e->daemon, &daemon_ms) == MHD_YES &&
	    (ms < 0 || daemon_ms < (unsigned)ms))
		ms = daemon_ms < SWEEP_MS ? (int)daemon_ms : SWEEP_MS;
	return ms;
}

static void *serve_endpoint(void *context)
{
	struct flmem_endpoint *e = context;
	struct pollfd polled[] = {{.fd = e->epoll, .events = POLLIN},
				  {.fd = e->stop, .events = POLLIN}};

	while (!polled[1].revents) {
		if (poll(polled, FLMEM_ARRAY_SIZE(polled), wait_timeout_ms(e)) < 0 &&
		    errno != EINTR)
			break;
		e->closed = false;
		e->http.run(e->daemon);
	}
	return NULL;
}

static int start_daemon(struct flmem_endpoint *e, struct flmem_error *err)
{
	const union MHD_DaemonInfo *info;

	/* The event loop is external: flmem's thread drives the sockets and can end slow ones. */
	e->daemon = e->http.start_daemon(
		MHD_USE_EPOLL, 0, NULL, NULL, answer_request, e, MHD_OPTION_LISTEN_SOCKET,
		e->listener.fd, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, e, MHD_OPTION_END);
	info = e->daemon ? e->http.get_daemon_info(e->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	if (!info)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot serve at %s",
				       e->listener.name);
	e->epoll = info->epoll_fd;
	return 0;
}

static int start_thread(struct flmem_endpoint *e, struct flmem_error *err)
{
	int rc = flmem_thread_start(&e->thread, serve_endpoint, e);

	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, rc, "cannot start a thread");
	e->started = true;
	return 0;
}

static int open_endpoint(struct flmem_endpoint *e, const char *address, struct flmem_error *err)
{
	int rc = flmem_microhttpd_load(&e->http, err);

	if (!rc)
		rc = flmem_listen(address, &e->listener, err);
	if (rc)
		return rc;
	snprintf(e->url, sizeof(e->url), "http://%s" PATH, e->listener.name);
	e->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (e->stop < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot serve at %s",
				       e->listener.name);
	rc = start_daemon(e, err);
	return rc ? rc : start_thread(e, err);
}

static void cleanup_endpoint(struct flmem_endpoint **endpoint)
{
	flmem_endpoint_close(*endpoint);
}

int flmem_endpoint_open(const char *address, struct flmem_watch_snapshot *snapshot,
			struct flmem_endpoint **ret_endpoint, struct flmem_error *err)
{
	FLMEM_AUTO(cleanup_endpoint) struct flmem_endpoint *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return flmem_error_nomem(err, "cannot make an endpoint");
	e->snapshot = snapshot;
	e->listener.fd = e->stop = -1;
	rc = open_endpoint(e, address, err);
	if (!rc)
		*ret_endpoint = FLMEM_TAKE(e);
	return rc;
}

void flmem_endpoint_close(struct flmem_endpoint *endpoint)
{
	if (!endpoint)
		return;
	if (endpoint->started) {
		eventfd_write(endpoint->stop, 1);
		pthread_join(endpoint->thread, NULL);
	}
	/* The daemon closes its listening socket itself. */
	if (endpoint->daemon)
		endpoint->http.stop_daemon(endpoint->daemon);
	else
		flmem_cleanup_close(&endpoint->listener.fd);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(endpoint->cached); i++)
		if (endpoint->cached[i].response)
			endpoint->http.destroy_response(endpoint->cached[i].response);
	flmem_cleanup_close(&endpoint->stop);
	free(endpoint);
}

const char *flmem_endpoint_url(const struct flmem_endpoint *endpoint)
{
	return endpoint->url;
}

bool flmem_endpoint_is_local(const struct flmem_endpoint *endpoint)
{
	return endpoint->listener.local;
}
