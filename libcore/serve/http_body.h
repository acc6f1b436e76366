/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERVE_HTTP_BODY_H
#define FLMEM_SERVE_HTTP_BODY_H

/* Bodies of answers that are made, or read from a file, while they are sent. */

#include "serve/http_server.h"
#include "serve/microhttpd.h"

/* The response to `answer` without its headers; NULL without memory. Takes a file in any case. */
struct MHD_Response *flmem_http_body_open(const struct flmem_microhttpd *http,
					  const struct flmem_http_answer *answer, bool encrypted);

#endif
