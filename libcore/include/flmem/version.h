/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_VERSION_H
#define FLMEM_VERSION_H

#include <stdbool.h>

#include <flmem/visibility.h>

/* "0.2.0"; set by the build from the project's version. */
FLMEM_API const char *flmem_version(void);

/* How this library was built. All texts are constants. */
struct flmem_build {
	const char *compiler;	  /* "gcc 12.2.0" */
	const char *architecture; /* "x86_64", "aarch64"; NULL: another one */
	const char *libc;	  /* "glibc", "musl" */
	const char
		*libc_version; /* the oldest glibc it runs with, as far as known; NULL with musl */
	bool trims;	       /* borrows threads: x86-64 only */
	bool reads_addresses;  /* built with libcurl's headers: models by http:// and https:// */
	bool bundles;	       /* cJSON, libyaml and zlib are linked in */
	bool sanitized;	       /* built with AddressSanitizer */
};

/* Never NULL; the same on every call. */
FLMEM_API const struct flmem_build *flmem_build_describe(void);

#endif
