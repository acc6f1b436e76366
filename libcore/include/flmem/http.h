/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_HTTP_H
#define FLMEM_HTTP_H

/*
 * How inputs are read whose names are http:// or https:// addresses. Zero-initialise it and set
 * what is not the default; the texts are the caller's and are only read.
 */

#include <stdbool.h>
#include <stddef.h>

#define FLMEM_HTTP_RETRIES	   5U
#define FLMEM_HTTP_RETRIES_MAX	   100U
#define FLMEM_HTTP_TIMEOUT_SECONDS 30U
#define FLMEM_HTTP_TIMEOUT_MAX	   3600U

struct flmem_http_options {
	/* "Name: value" each; sent to the host of the address only, not where it redirects to. */
	const char *const *headers;
	size_t header_count;
	const char *cacert; /* PEM file; NULL: SSL_CERT_FILE, else those of the system */
	/* After failures that may pass, without progress between them; 0: FLMEM_HTTP_RETRIES. */
	unsigned retries;
	bool never_retry; /* in place of `retries` */
	/* To connect, and for at least 1 KiB a second; 0: FLMEM_HTTP_TIMEOUT_SECONDS. */
	unsigned timeout_seconds;
};

#endif
