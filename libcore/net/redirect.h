/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_NET_REDIRECT_H
#define FLMEM_NET_REDIRECT_H

/* Decides which redirects are followed. */

#include <flmem/error.h>

/*
 * FLMEM_EFAILED for a redirect to another scheme than http or https, or from https to http. `name`
 * is the address that was requested.
 */
int flmem_redirect_check(const char *url, const char *target, const char *name,
			 struct flmem_error *err);

#endif
