/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERVE_HTTP_IDENTITY_H
#define FLMEM_SERVE_HTTP_IDENTITY_H

/* Reads the certificate of a TLS client. */

#include <time.h>

#include "serve/http_server.h"

/* What the last request of a connection proved; all zero: nothing. */
struct flmem_http_proven {
	time_t second; /* of the wall clock */
	struct flmem_http_identity identity;
};

/*
 * `session` is a gnutls_session_t. `last` is that of its connection, or NULL. Certificates begin
 * and end at whole seconds, so one is verified once in each second in which it is used.
 */
int flmem_http_identity_read(void *session, struct flmem_http_proven *last,
			     struct flmem_http_identity *ret_identity, struct flmem_error *err);

#endif
