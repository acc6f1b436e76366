/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERVE_HTTP_IDENTITY_H
#define FLMEM_SERVE_HTTP_IDENTITY_H

/* Reads the certificate of a TLS client. */

#include "serve/http_server.h"

/* `session` is a gnutls_session_t. */
int flmem_http_identity_read(void *session, struct flmem_http_identity *ret_identity,
			     struct flmem_error *err);

#endif
