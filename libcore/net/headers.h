/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_NET_HEADERS_H
#define FLMEM_NET_HEADERS_H

/* Checks the headers that a user adds to requests. */

#include <flmem/error.h>
#include <flmem/http.h>

/*
 * FLMEM_EUSAGE for headers that cannot be sent. The message contains no value, which may be a
 * secret.
 */
int flmem_headers_check(const struct flmem_http_options *options, struct flmem_error *err);

#endif
