/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_NET_ORIGIN_H
#define FLMEM_NET_ORIGIN_H

/* Determines the server of an address: headers of the user are sent to the first server only. */

#include <flmem/error.h>

#include "net/curl.h"

/*
 * Returns "https://host:443" of an address, which the caller frees. FLMEM_EUSAGE for an invalid
 * address, which the message calls `name`.
 */
int flmem_origin_of(const struct flmem_curl *curl, const char *url, const char *name,
		    char **ret_origin, struct flmem_error *err);

#endif
