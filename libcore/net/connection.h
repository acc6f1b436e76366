/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_NET_CONNECTION_H
#define FLMEM_NET_CONNECTION_H

/*
 * Sends requests to one server, one after the other, and receives each answer as a whole. Redirects
 * are not followed: the caller sees their status. The server is untrusted: its headers and what is
 * kept of its answer are bounded, and an answer that makes no progress is a failure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/text/buf.h"
#include "net/reply.h"

/* The caller owns the texts and keeps them unchanged while the connection is open. */
struct flmem_connection_options {
	/* PEM; NULL: SSL_CERT_FILE, else the authorities of the system. */
	const char *cacert;
	const char *cert; /* PEM with the certificate of this client, or NULL */
	/* PEM with the key; NULL: it is in the file of the certificate. */
	const char *key;
	const char *authorization; /* a line "Authorization: ..." or NULL */
	/* Limit for connecting; afterwards at least 1 KiB a second must move. */
	unsigned timeout_seconds;
	bool (*ended)(void *context); /* called a few times a second, true: stop; NULL: never */
	void *context;
};

/* Takes a part of a body; returns false to end the request as failed. */
typedef bool flmem_connection_take(void *context, const struct flmem_reply *reply,
				   const char *bytes, size_t length);

struct flmem_connection_request {
	const char *method;
	const char *url;
	const char *name;	    /* for messages */
	const char *const *headers; /* header lines; ends in NULL; NULL: none */
	const char *body;	    /* NULL: none */
	size_t body_bytes;
	unsigned wait_seconds; /* time that the server may take in addition to the timeout */
	size_t answer_max;     /* bytes of the body that are kept; more is a failure */
	/* Receives bodies of status 200 and 206; NULL: they are kept, too. */
	flmem_connection_take *take;
	/* Called once, when the body was handed to the kernel or nothing can be sent for now. */
	void (*waits)(void *context);
	void *context;
};

struct flmem_connection_answer {
	struct flmem_reply reply;
	struct flmem_buf body;
};

#define FLMEM_CONNECTION_ANSWER_INIT   \
	{                              \
		.body = FLMEM_BUF_INIT \
	}

void flmem_connection_answer_clear(struct flmem_connection_answer *answer);

#define FLMEM_AUTO_CONNECTION_ANSWER FLMEM_AUTO(flmem_connection_answer_clear)

enum flmem_connection_step {
	FLMEM_CONNECTION_OK,	/* an answer of any status arrived */
	FLMEM_CONNECTION_RETRY, /* no answer arrived; a retry may succeed */
	FLMEM_CONNECTION_FAIL,
};

struct flmem_connection;

/*
 * Opens a connection, which keeps the pointer `options`. FLMEM_EUNSUPPORTED where there is no
 * libcurl.
 */
int flmem_connection_open(const struct flmem_connection_options *options,
			  struct flmem_connection **ret_connection, struct flmem_error *err);

/* Closes a connection; NULL is allowed. */
void flmem_connection_close(struct flmem_connection *connection);

/* Sends a request and receives its answer; `answer` is emptied first. */
enum flmem_connection_step flmem_connection_send(struct flmem_connection *connection,
						 const struct flmem_connection_request *request,
						 struct flmem_connection_answer *answer,
						 struct flmem_error *err);

#endif
