/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_HTTP_H
#define FLMEM_HTTP_H

/*
 * Options for reading inputs at http:// or https:// addresses. Zero-initialise it and set what is
 * not the default; the caller owns the strings.
 */

#include <stdbool.h>
#include <stddef.h>

#define FLMEM_HTTP_RETRIES	   5U
#define FLMEM_HTTP_RETRIES_MAX	   100U
#define FLMEM_HTTP_TIMEOUT_SECONDS 30U
#define FLMEM_HTTP_TIMEOUT_MAX	   3600U

struct flmem_http_options {
	/*
	 * Header lines "Name: value". They are sent only to the host of the address, not to
	 * redirect targets.
	 */
	const char *const *headers;
	size_t header_count;
	const char *cacert; /* PEM file; NULL: SSL_CERT_FILE, else the system's certificates */
	/* Limit of successive failures without progress between them; 0: FLMEM_HTTP_RETRIES. */
	unsigned retries;
	bool never_retry; /* overrides `retries` */
	/*
	 * Time limit for connecting, and for transfers below 1 KiB/s; 0:
	 * FLMEM_HTTP_TIMEOUT_SECONDS.
	 */
	unsigned timeout_seconds;
};

#endif
