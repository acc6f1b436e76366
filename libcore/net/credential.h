/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_NET_CREDENTIAL_H
#define FLMEM_NET_CREDENTIAL_H

/* Checks files of certificates and keys. */

#include <flmem/error.h>

/*
 * Checks before the first request whether such a file can be read: libcurl retries if it cannot, or
 * reports other causes. A `path` of NULL is valid.
 */
int flmem_credential_check(const char *path, struct flmem_error *err);

#endif
