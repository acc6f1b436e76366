/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_NET_ORIGIN_H
#define FLMEM_NET_ORIGIN_H

/* The server of an address: headers of the user are sent to the first one only. */

#include <flmem/error.h>

#include "net/curl.h"

/* "https://host:443" of an address; free it. FLMEM_EUSAGE for an invalid one; `name` is for it. */
int flmem_origin_of(const struct flmem_curl *curl, const char *url, const char *name,
		    char **ret_origin, struct flmem_error *err);

#endif
