/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/version.h>

#include <stdlib.h>

#define TEXT_OF(token) #token
#define TEXT(macro)    TEXT_OF(macro)

#ifdef __clang__
#define COMPILER \
	"clang " TEXT(__clang_major__) "." TEXT(__clang_minor__) "." TEXT(__clang_patchlevel__)
#else
#define COMPILER "gcc " TEXT(__GNUC__) "." TEXT(__GNUC_MINOR__) "." TEXT(__GNUC_PATCHLEVEL__)
#endif

static const struct flmem_build build = {
	.compiler = COMPILER,
#if defined(__x86_64__)
	.architecture = "x86_64",
	.trims = true, /* remote/arch_x86_64.c */
#elif defined(__aarch64__)
	.architecture = "aarch64",
#endif
#ifdef __GLIBC__
	.libc = "glibc",
	.libc_version = TEXT(__GLIBC__) "." TEXT(__GLIBC_MINOR__),
#else
	.libc = "musl",
#endif
#ifdef FLMEM_HTTP
	.reads_addresses = true,
#endif
#ifdef FLMEM_LINKS_IN
	.bundles = true,
#endif
#ifdef __SANITIZE_ADDRESS__
	.sanitized = true,
#endif
};

const char *flmem_version(void)
{
	return FLMEM_VERSION;
}

const struct flmem_build *flmem_build_describe(void)
{
	return &build;
}
