/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <flmem/parse.h>
#include <flmem/text.h>

#include "base/cleanup.h"

/* Backlog of connections that wait to be accepted. */
#define BACKLOG 64

union socket_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static int set_invalid_address(const char *text, struct flmem_error *err)
{
	char shown[64];

	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "invalid address '%s'; expected for example 127.0.0.1:9477 or "
			       "[::1]:9477, or 0.0.0.0:9477 to be reachable from other hosts",
			       flmem_text_escape(text, shown, sizeof(shown)));
}

/* Splits at the last colon and removes brackets. */
static bool split_address(const char *text, char host[FLMEM_LISTEN_NAME_MAX], const char **ret_port,
			  bool *ret_v6)
{
	const char *colon = strrchr(text, ':');
	size_t length = colon ? (size_t)(colon - text) : 0;

	if (!length || length >= FLMEM_LISTEN_NAME_MAX)
		return false;
	*ret_v6 = text[0] == '[' && text[length - 1] == ']';
	if (*ret_v6) {
		text++;
		length -= 2;
	}
	memcpy(host, text, length);
	host[length] = '\0';
	*ret_port = colon + 1;
	return true;
}

static int parse_address(const char *text, union socket_address *ret_address,
			 struct flmem_error *err)
{
	union socket_address address = {.any.sa_family = AF_INET};
	char host[FLMEM_LISTEN_NAME_MAX];
	const char *port_text;
	uint64_t port;
	bool v6;
	int found;

	if (!split_address(text, host, &port_text, &v6) ||
	    flmem_parse_u64(port_text, 0, UINT16_MAX, &port, NULL))
		return set_invalid_address(text, err);
	if (v6) {
		address.any.sa_family = AF_INET6;
		address.v6.sin6_port = htons((uint16_t)port);
		found = inet_pton(AF_INET6, host, &address.v6.sin6_addr);
	} else {
		address.v4.sin_port = htons((uint16_t)port);
		found = inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host,
				  &address.v4.sin_addr);
	}
	if (found != 1)
		return set_invalid_address(text, err);
	*ret_address = address;
	return 0;
}

static bool is_local(const union socket_address *address)
{
	const struct in6_addr *v6 = &address->v6.sin6_addr;

	if (address->any.sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(v6) ||
		       (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == IN_LOOPBACKNET);
	return ntohl(address->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

static void format_address(const union socket_address *address, char out[FLMEM_LISTEN_NAME_MAX])
{
	char host[INET6_ADDRSTRLEN] = "";

	if (address->any.sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &address->v6.sin6_addr, host, sizeof(host));
		snprintf(out, FLMEM_LISTEN_NAME_MAX, "[%s]:%u", host, ntohs(address->v6.sin6_port));
	} else {
		inet_ntop(AF_INET, &address->v4.sin_addr, host, sizeof(host));
		snprintf(out, FLMEM_LISTEN_NAME_MAX, "%s:%u", host, ntohs(address->v4.sin_port));
	}
}

static int set_listen_error(int error, const char *name, struct flmem_error *err)
{
	switch (error) {
	case EADDRINUSE:
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "address %s is in use by another program; choose another "
				       "port, or 0 for a free one",
				       name);
	case EADDRNOTAVAIL:
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "cannot listen at %s: not an address of this host", name);
	case EACCES:
		return flmem_error_set(err, FLMEM_EPERM, 0,
				       "not permitted to listen at %s: ports below 1024 need "
				       "CAP_NET_BIND_SERVICE; choose a higher port",
				       name);
	default:
		return flmem_error_set(err, FLMEM_EFAILED, error, "cannot listen at %s", name);
	}
}

static int open_socket(const union socket_address *address)
{
	const int on = 1;
	socklen_t length =
		address->any.sa_family == AF_INET6 ? sizeof(address->v6) : sizeof(address->v4);
	FLMEM_AUTO_CLOSE int fd =
		socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	/* Connections of an earlier watch in TIME_WAIT must not block the port. */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, &address->any, length) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return FLMEM_TAKE_FD(fd);
}

int flmem_listen(const char *address, struct flmem_listener *ret_listener, struct flmem_error *err)
{
	struct flmem_listener listener;
	union socket_address at;
	socklen_t length = sizeof(at);
	int rc = parse_address(address, &at, err);

	if (rc)
		return rc;
	listener.local = is_local(&at);
	format_address(&at, listener.name);
	listener.fd = open_socket(&at);
	if (listener.fd < 0)
		return set_listen_error(-listener.fd, listener.name, err);
	if (getsockname(listener.fd, &at.any, &length) == 0)
		format_address(&at, listener.name);
	*ret_listener = listener;
	return 0;
}
