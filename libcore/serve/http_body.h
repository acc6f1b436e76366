/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERVE_HTTP_BODY_H
#define FLMEM_SERVE_HTTP_BODY_H

/* Makes bodies of answers that are computed, or read from a file, while they are sent. */

#include "serve/http_server.h"
#include "serve/microhttpd.h"

/*
 * Returns the response to `answer` without its headers; NULL without memory. Takes ownership
 * of the file of `answer` in any case.
 */
struct MHD_Response *flmem_http_body_open(const struct flmem_microhttpd *http,
					  const struct flmem_http_answer *answer, bool encrypted);

#endif
