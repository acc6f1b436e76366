/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_VERSION_H
#define FLMEM_VERSION_H

#include <stdbool.h>

#include <flmem/visibility.h>

/* Returns "0.2.0", for example; the build sets it from the project's version. */
FLMEM_API const char *flmem_version(void);

/* How this library was built; all texts are static. */
struct flmem_build {
	const char *compiler;	  /* "gcc 12.2.0" */
	const char *architecture; /* "x86_64" or "aarch64"; NULL: another architecture */
	const char *libc;	  /* "glibc", "musl" */
	const char
		/* The oldest glibc that the library runs with, as far as known; NULL with musl. */
		*libc_version;
	bool trims; /* the library can borrow threads: x86-64 only */
	/* Built with libcurl's headers: reads models from http:// and https://. */
	bool reads_addresses;
	bool bundles;	/* cJSON, libyaml and zlib are linked in */
	bool sanitized; /* built with AddressSanitizer */
};

/* Returns the description of this build. Never NULL; the same on every call. */
FLMEM_API const struct flmem_build *flmem_build_describe(void);

#endif
