/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERVE_HTTP_CONNECTIONS_H
#define FLMEM_SERVE_HTTP_CONNECTIONS_H

/*
 * The connections of an HTTP server and whether they make progress. The kernel counts the bytes
 * that a peer has sent and acknowledged, so a slow reader is found even while a whole file is sent
 * by sendfile(2).
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "serve/http_identity.h"

struct flmem_http_connection {
	bool used;
	bool excess;	 /* above the limit: its requests are refused */
	bool in_request; /* true from complete headers on */
	bool in_handler; /* the handler works; the client waits */
	int fd;
	uint64_t since_us;		 /* start of the current span */
	uint64_t bytes;			 /* bytes at that time, both directions */
	int file;			 /* file that is being sent; -1: none */
	uint64_t file_end;		 /* size that the file must have for the answer */
	struct flmem_http_proven proven; /* used by the thread of the connection only */
};

struct flmem_http_connections {
	pthread_mutex_t lock;
	struct flmem_http_connection *slots;
	unsigned room, limit, used, requests;
	uint64_t idle_us, last_us, cut;
};

/* Allocates the slots. False if memory is out. */
bool flmem_http_connections_init(struct flmem_http_connections *connections, unsigned limit,
				 uint64_t idle_us);
void flmem_http_connections_clear(struct flmem_http_connections *connections);

/* Connections above the limit that are still answered, with 503. */
#define FLMEM_HTTP_CONNECTIONS_EXCESS 32U

/* Adds a connection; NULL if there is no room. */
struct flmem_http_connection *flmem_http_connections_add(struct flmem_http_connections *connections,
							 int fd);
void flmem_http_connections_remove(struct flmem_http_connections *connections,
				   struct flmem_http_connection *connection);

/* In the following functions the connection may be NULL. */
void flmem_http_connection_begin(struct flmem_http_connections *connections,
				 struct flmem_http_connection *connection);
void flmem_http_connection_end(struct flmem_http_connections *connections,
			       struct flmem_http_connection *connection);
void flmem_http_connection_work(struct flmem_http_connections *connections,
				struct flmem_http_connection *connection, bool works);

/*
 * Notes that the answer to the current request is a file, up to the offset `end`. If the file
 * becomes shorter meanwhile, the next sweep ends the connection: libmicrohttpd (0.9.75) takes the
 * end of a file for a socket that is full and calls sendfile(2) again and again.
 */
void flmem_http_connection_send(struct flmem_http_connections *connections,
				struct flmem_http_connection *connection, int file, uint64_t end);

/* The server did not run for this time, in which no connection could make progress. */
void flmem_http_connections_resume(struct flmem_http_connections *connections, uint64_t paused_us);

void flmem_http_connections_sweep(struct flmem_http_connections *connections);
void flmem_http_connections_shut(struct flmem_http_connections *connections);

#endif
