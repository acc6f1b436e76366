/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/http_connections.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/paused_time.h"
#include "base/portable.h"

/* Smallest rate that counts as progress. */
#define BYTES_PER_SECOND UINT64_C(1024)
#define US_PER_SECOND	 UINT64_C(1000000)

bool flmem_http_connections_init(struct flmem_http_connections *connections, unsigned limit,
				 uint64_t idle_us)
{
	*connections = (struct flmem_http_connections){
		.room = limit + FLMEM_HTTP_CONNECTIONS_EXCESS,
		.limit = limit,
		.idle_us = idle_us,
	};
	pthread_mutex_init(&connections->lock, NULL);
	connections->slots = calloc(connections->room, sizeof(*connections->slots));
	return connections->slots;
}

void flmem_http_connections_clear(struct flmem_http_connections *connections)
{
	pthread_mutex_destroy(&connections->lock);
	free(connections->slots);
}

/* Returns the bytes that the peer has sent and acknowledged; glibc's headers lack these members. */
static uint64_t moved_bytes(int fd)
{
	struct tcp_info info = {0};
	socklen_t length = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) < 0)
		return 0;
	return info.tcpi_bytes_acked + info.tcpi_bytes_received;
}

static void begin_span(struct flmem_http_connection *connection)
{
	connection->since_us = flmem_clock_us();
	connection->bytes = moved_bytes(connection->fd);
}

struct flmem_http_connection *flmem_http_connections_add(struct flmem_http_connections *connections,
							 int fd)
{
	struct flmem_http_connection *found = NULL;

	pthread_mutex_lock(&connections->lock);
	for (unsigned i = 0; i < connections->room && !found; i++)
		if (!connections->slots[i].used)
			found = &connections->slots[i];
	if (found) {
		*found = (struct flmem_http_connection){
			.used = true,
			.excess = ++connections->used > connections->limit,
			.fd = fd,
			.file = -1,
		};
		begin_span(found);
	}
	pthread_mutex_unlock(&connections->lock);
	return found;
}

static void forget_sent_file(struct flmem_http_connection *connection)
{
	if (connection->file >= 0)
		close(connection->file);
	connection->file = -1;
}

void flmem_http_connections_remove(struct flmem_http_connections *connections,
				   struct flmem_http_connection *connection)
{
	pthread_mutex_lock(&connections->lock);
	forget_sent_file(connection);
	connection->used = false;
	connections->used--;
	pthread_mutex_unlock(&connections->lock);
}

void flmem_http_connection_begin(struct flmem_http_connections *connections,
				 struct flmem_http_connection *connection)
{
	pthread_mutex_lock(&connections->lock);
	connections->requests++;
	if (connection) {
		connection->in_request = true;
		begin_span(connection);
	}
	pthread_mutex_unlock(&connections->lock);
}

void flmem_http_connection_end(struct flmem_http_connections *connections,
			       struct flmem_http_connection *connection)
{
	pthread_mutex_lock(&connections->lock);
	connections->requests--;
	connections->last_us = flmem_clock_us();
	if (connection) {
		forget_sent_file(connection);
		connection->in_request = connection->in_handler = false;
		begin_span(connection);
	}
	pthread_mutex_unlock(&connections->lock);
}

void flmem_http_connection_work(struct flmem_http_connections *connections,
				struct flmem_http_connection *connection, bool works)
{
	if (!connection)
		return;
	pthread_mutex_lock(&connections->lock);
	connection->in_handler = works;
	if (!works)
		begin_span(connection);
	pthread_mutex_unlock(&connections->lock);
}

void flmem_http_connection_send(struct flmem_http_connections *connections,
				struct flmem_http_connection *connection, int file, uint64_t end)
{
	if (!connection)
		return;
	pthread_mutex_lock(&connections->lock);
	forget_sent_file(connection);
	connection->file = fcntl(file, F_DUPFD_CLOEXEC, 0);
	connection->file_end = end;
	pthread_mutex_unlock(&connections->lock);
}

/*
 * Reports whether the file is shorter than announced, as far as the kernel knows: a file server
 * that does not answer must not delay the other connections.
 */
static bool is_file_cut(const struct flmem_http_connection *connection)
{
	struct statx status;

	return connection->file >= 0 &&
	       flmem_file_statx(connection->file, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
				STATX_SIZE, &status) == 0 &&
	       status.stx_size < connection->file_end;
}

/*
 * Reports whether a connection makes no progress. Between requests bytes do not count: headers have
 * to be complete in time.
 */
static bool is_stuck(const struct flmem_http_connections *connections,
		     struct flmem_http_connection *connection, uint64_t now_us)
{
	uint64_t least = connections->idle_us * BYTES_PER_SECOND / US_PER_SECOND;
	uint64_t bytes;

	if (connection->in_handler || now_us - connection->since_us < connections->idle_us)
		return false;
	if (!connection->in_request)
		return true;
	bytes = moved_bytes(connection->fd);
	if (bytes - connection->bytes < least)
		return true;
	connection->bytes = bytes;
	connection->since_us = now_us;
	return false;
}

void flmem_http_connections_resume(struct flmem_http_connections *connections, uint64_t paused_us)
{
	pthread_mutex_lock(&connections->lock);
	for (unsigned i = 0; i < connections->room; i++)
		connections->slots[i].since_us =
			flmem_paused_time_later(connections->slots[i].since_us, paused_us);
	pthread_mutex_unlock(&connections->lock);
}

void flmem_http_connections_sweep(struct flmem_http_connections *connections)
{
	uint64_t now_us;

	pthread_mutex_lock(&connections->lock);
	/* Not before: a span that begins while this waits for the lock would be in its future. */
	now_us = flmem_clock_us();
	for (unsigned i = 0; i < connections->room; i++) {
		struct flmem_http_connection *connection = &connections->slots[i];

		if (!connection->used ||
		    (!is_file_cut(connection) && !is_stuck(connections, connection, now_us)))
			continue;
		/* The thread of the connection detects that and ends. */
		shutdown(connection->fd, SHUT_RDWR);
		connection->since_us = now_us;
		connections->cut++;
	}
	pthread_mutex_unlock(&connections->lock);
}

void flmem_http_connections_shut(struct flmem_http_connections *connections)
{
	pthread_mutex_lock(&connections->lock);
	for (unsigned i = 0; i < connections->room; i++)
		if (connections->slots[i].used)
			shutdown(connections->slots[i].fd, SHUT_RDWR);
	pthread_mutex_unlock(&connections->lock);
}
