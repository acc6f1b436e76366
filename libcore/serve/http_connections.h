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

struct flmem_http_connection {
	bool used;
	bool excess;	 /* more than the limit: its requests are refused */
	bool in_request; /* since its headers are complete */
	bool in_handler; /* the server works; the client waits */
	int fd;
	uint64_t since_us; /* start of the current span */
	uint64_t bytes;	   /* at that time, both directions */
	int file;	   /* being sent; -1: none */
	uint64_t file_end; /* what it needs for that */
};

struct flmem_http_connections {
	pthread_mutex_t lock;
	struct flmem_http_connection *slots;
	unsigned room, limit, used, requests;
	uint64_t idle_us, last_us, cut;
};

/* False if memory is out. */
bool flmem_http_connections_init(struct flmem_http_connections *connections, unsigned limit,
				 uint64_t idle_us);
void flmem_http_connections_clear(struct flmem_http_connections *connections);

/* Connections above the limit that are still answered, with 503. */
#define FLMEM_HTTP_CONNECTIONS_EXCESS 32U

/* NULL if there is no room. */
struct flmem_http_connection *flmem_http_connections_add(struct flmem_http_connections *connections,
							 int fd);
void flmem_http_connections_remove(struct flmem_http_connections *connections,
				   struct flmem_http_connection *connection);

/* NULL is allowed for the connection. */
void flmem_http_connection_begin(struct flmem_http_connections *connections,
				 struct flmem_http_connection *connection);
void flmem_http_connection_end(struct flmem_http_connections *connections,
			       struct flmem_http_connection *connection);
void flmem_http_connection_work(struct flmem_http_connections *connections,
				struct flmem_http_connection *connection, bool works);

/*
 * The answer to its request is a file, up to the offset `end`. One that becomes shorter meanwhile
 * ends the connection at the next sweep: libmicrohttpd (0.9.75) takes the end of a file for a
 * socket that is full and calls sendfile(2) again and again.
 */
void flmem_http_connection_send(struct flmem_http_connections *connections,
				struct flmem_http_connection *connection, int file, uint64_t end);

/* The server did not run for this time, in which no connection could make progress. */
void flmem_http_connections_resume(struct flmem_http_connections *connections, uint64_t paused_us);

void flmem_http_connections_sweep(struct flmem_http_connections *connections);
void flmem_http_connections_shut(struct flmem_http_connections *connections);

#endif
