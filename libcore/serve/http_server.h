/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERVE_HTTP_SERVER_H
#define FLMEM_SERVE_HTTP_SERVER_H

/*
 * An HTTP/1.1 server with a thread per connection, so a handler may wait for a disk or an event.
 * Connections are limited in number, per address, and to those that make progress. Memory per
 * connection is fixed; bodies are passed on as they arrive.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

struct flmem_http_server;
struct flmem_http_request;

#define FLMEM_HTTP_FIELDS_MAX 14U
#define FLMEM_HTTP_VALUE_MAX  200U

/*
 * An answer; zero-initialise it. Values that are too long are cut, fields that are too many are
 * left out.
 */
struct flmem_http_answer {
	unsigned status;
	struct {
		const char *name; /* static */
		char value[FLMEM_HTTP_VALUE_MAX];
	} fields[FLMEM_HTTP_FIELDS_MAX];
	size_t field_count;
	const char *type; /* type of the body; NULL: no body */
	const char *body; /* copied */
	size_t length;
	/* With `bytes`: the body; the server takes the descriptor, and `type` is set as well. */
	int file;
	uint64_t offset, bytes;
	bool has_file;
	/* Instead of `file`: makes bytes of the body. */
	void (*make)(const void *context, uint64_t offset, uint64_t bytes, char *out);
	const void *context; /* must live as long as the server */
};

void flmem_http_answer_field(struct flmem_http_answer *answer, const char *name, const char *format,
			     ...) __attribute__((format(printf, 3, 4)));

/* Functions that the thread of the connection calls. */
struct flmem_http_handler {
	/* Called when the headers are complete. May answer. */
	void (*begin)(void *context, struct flmem_http_request *request);
	/*
	 * Called with a part of the body, unless the request was answered. Returns false to close
	 * the connection.
	 */
	bool (*body)(void *context, struct flmem_http_request *request, const char *bytes,
		     size_t length);
	/* Called when the body is complete. Must answer unless that was done. */
	void (*end)(void *context, struct flmem_http_request *request);
	/* Last call for a request, after any of these. `whole`: the answer was sent. */
	void (*finished)(void *context, struct flmem_http_request *request, bool whole);
};

struct flmem_http_server_options {
	const char *address;			    /* as for flmem_listen() */
	bool loopback_only;			    /* FLMEM_EUSAGE for other addresses */
	const char *tls_cert, *tls_key, *client_ca; /* PEM text; NULL: none */
	unsigned connections, address_connections;
	uint64_t idle_us; /* longest time without progress, or between requests */
	const struct flmem_http_handler *handler;
	void *context;
};

int flmem_http_server_open(const struct flmem_http_server_options *options,
			   struct flmem_http_server **ret_server, struct flmem_error *err);

/* Refuses new connections, ends the others and waits for their threads. NULL is allowed. */
void flmem_http_server_close(struct flmem_http_server *server);

/* "http://127.0.0.1:8477", with the actual port. */
const char *flmem_http_server_url(const struct flmem_http_server *server);
bool flmem_http_server_is_local(const struct flmem_http_server *server);

/* Ends connections without progress. Call it about four times a second. */
void flmem_http_server_sweep(struct flmem_http_server *server);

/* Before the sweep after a pause of this process: connections do not count as idle for it. */
void flmem_http_server_resume(struct flmem_http_server *server, uint64_t paused_us);

struct flmem_http_server_load {
	unsigned connections;
	unsigned requests;   /* requests in work, or being answered */
	uint64_t last_us;    /* monotonic time at which the last request ended; 0: none did */
	uint64_t answers[6]; /* counts by the first digit of the status */
	uint64_t cut;	     /* connections that the sweep has ended */
	uint64_t overloaded; /* requests answered 503 because of too many connections */
};

void flmem_http_server_load(struct flmem_http_server *server,
			    struct flmem_http_server_load *ret_load);

/*
 * The following functions return parts of a request; texts are valid until it is finished. NULL if
 * absent.
 */
const char *flmem_http_request_method(const struct flmem_http_request *request);
const char *flmem_http_request_path(const struct flmem_http_request *request);
const char *flmem_http_request_header(const struct flmem_http_request *request, const char *name);
const char *flmem_http_request_query(const struct flmem_http_request *request, const char *name);

/* Stores the handler's own data. */
void flmem_http_request_set(struct flmem_http_request *request, void *data);
void *flmem_http_request_get(const struct flmem_http_request *request);

/*
 * Ends the connection of a request that another thread is working on. The request must not end
 * meanwhile.
 */
void flmem_http_request_cut(struct flmem_http_request *request);

/* While `waits` is set, a handler waits in `body`, and the client does not count as slow. */
void flmem_http_request_wait(struct flmem_http_request *request, bool waits);

/*
 * Answers a request; called once per request. Nothing more is left to do for it, whether or not the
 * client receives the answer.
 */
void flmem_http_request_answer(struct flmem_http_request *request,
			       const struct flmem_http_answer *answer);

#define FLMEM_HTTP_CN_MAX 128U

/* The client certificate of a connection, verified. */
struct flmem_http_identity {
	char fingerprint[65];	    /* SHA-256, hexadecimal */
	char cn[FLMEM_HTTP_CN_MAX]; /* "": none, or too long */
};

/* Reads the client's certificate. FLMEM_EPERM with the reason if there is no valid one. */
int flmem_http_request_identity(struct flmem_http_request *request,
				struct flmem_http_identity *ret_identity, struct flmem_error *err);

#endif
