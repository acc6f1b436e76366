/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_NET_ORIGIN_H
#define FLMEM_NET_ORIGIN_H

/* Where an address leads, and whether a redirect from it is followed. */

#include <stdbool.h>

#include <flmem/error.h>

#include "net/curl.h"

/* "https://host:443" of an address; free it. FLMEM_EUSAGE for an invalid one; `name` is for it. */
int flmem_origin_of(const struct flmem_curl *curl, const char *url, const char *name,
		    char **ret_origin, struct flmem_error *err);

/*
 * FLMEM_EFAILED for a redirect to another kind of address, or from https to http. `name` is the
 * address that was asked for.
 */
int flmem_origin_check_move(const char *url, const char *target, const char *name,
			    struct flmem_error *err);

#endif
