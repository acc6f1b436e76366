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

/* Zero-initialise it. Values that are too long are cut, fields that are too many are left out. */
struct flmem_http_answer {
	unsigned status;
	struct {
		const char *name; /* static */
		char value[FLMEM_HTTP_VALUE_MAX];
	} fields[FLMEM_HTTP_FIELDS_MAX];
	size_t field_count;
	const char *type; /* of the body; NULL: no body */
	const char *body; /* copied */
	size_t length;
	int file; /* with `bytes`: the body, taken; the type is set as well */
	uint64_t offset, bytes;
	bool has_file;
	/* In place of `file`: makes bytes of the body. */
	void (*make)(const void *context, uint64_t offset, uint64_t bytes, char *out);
	const void *context; /* lives as long as the server */
};

void flmem_http_answer_field(struct flmem_http_answer *answer, const char *name, const char *format,
			     ...) __attribute__((format(printf, 3, 4)));

/* Called by the thread of the connection. */
struct flmem_http_handler {
	/* The headers are complete. May answer. */
	void (*begin)(void *context, struct flmem_http_request *request);
	/* A part of the body, if it was not answered. False closes the connection. */
	bool (*body)(void *context, struct flmem_http_request *request, const char *bytes,
		     size_t length);
	/* The body is complete. Answers, if that was not done. */
	void (*end)(void *context, struct flmem_http_request *request);
	/* Last call for a request, after any of these. `whole`: the answer was sent. */
	void (*finished)(void *context, struct flmem_http_request *request, bool whole);
};

struct flmem_http_server_options {
	const char *address;			    /* of flmem_listen() */
	bool loopback_only;			    /* FLMEM_EUSAGE for other addresses */
	const char *tls_cert, *tls_key, *client_ca; /* PEM text; NULL: none */
	unsigned connections, address_connections;
	uint64_t idle_us; /* without progress, or between requests */
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

/* Ends connections without progress. To be called about four times a second. */
void flmem_http_server_sweep(struct flmem_http_server *server);

/* Before the sweep after a pause of this process: connections do not count as idle for it. */
void flmem_http_server_resume(struct flmem_http_server *server, uint64_t paused_us);

struct flmem_http_server_load {
	unsigned connections;
	unsigned requests;   /* in work, or being answered */
	uint64_t last_us;    /* monotonic: when the last request ended; 0: none did */
	uint64_t answers[6]; /* by the first digit of the status */
	uint64_t cut;	     /* connections that were ended by the sweep */
	uint64_t overloaded; /* requests that were answered 503 for too many connections */
};

void flmem_http_server_load(struct flmem_http_server *server,
			    struct flmem_http_server_load *ret_load);

/* Parts of a request; texts are valid until it is finished. NULL if absent. */
const char *flmem_http_request_method(const struct flmem_http_request *request);
const char *flmem_http_request_path(const struct flmem_http_request *request);
const char *flmem_http_request_header(const struct flmem_http_request *request, const char *name);
const char *flmem_http_request_query(const struct flmem_http_request *request, const char *name);

/* For the handler's own data. */
void flmem_http_request_set(struct flmem_http_request *request, void *data);
void *flmem_http_request_get(const struct flmem_http_request *request);

/*
 * Ends the connection of a request that another thread is working on, and which must not end
 * meanwhile.
 */
void flmem_http_request_cut(struct flmem_http_request *request);

/* While a handler waits in `body`, the client is not slow. */
void flmem_http_request_wait(struct flmem_http_request *request, bool waits);

/* Once per request. The answer is complete then, whether or not the client receives it. */
void flmem_http_request_answer(struct flmem_http_request *request,
			       const struct flmem_http_answer *answer);

#define FLMEM_HTTP_CN_MAX 128U

/* The client certificate of a connection, verified. */
struct flmem_http_identity {
	char fingerprint[65];	    /* SHA-256, hexadecimal */
	char cn[FLMEM_HTTP_CN_MAX]; /* "": none, or too long */
};

/* FLMEM_EPERM with the reason if there is no valid certificate. */
int flmem_http_request_identity(struct flmem_http_request *request,
				struct flmem_http_identity *ret_identity, struct flmem_error *err);

#endif
