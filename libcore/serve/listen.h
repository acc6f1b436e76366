/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERVE_LISTEN_H
#define FLMEM_SERVE_LISTEN_H

/* Opens a listening socket for an address given as text. */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>

/* Enough for "[0000:0000:0000:0000:0000:0000:255.255.255.255]:65535". */
#define FLMEM_LISTEN_NAME_MAX 64

struct flmem_listener {
	int fd;
	bool local;			  /* reachable from this host only */
	char name[FLMEM_LISTEN_NAME_MAX]; /* "127.0.0.1:9477", with the actual port */
};

/*
 * Opens a socket for ADDRESS:PORT with an IPv4 address, an IPv6 address in brackets, or
 * "localhost"; 0.0.0.0 and [::] are all addresses of the host. The socket does not block.
 */
int flmem_listen(const char *address, struct flmem_listener *ret_listener, struct flmem_error *err);

#endif
