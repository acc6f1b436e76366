/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The build information of a Go program, in the form of Go 1.18 and later (INLINE), or of earlier
 * releases.
 */
#include <stdint.h>

#define SECTION __attribute__((section(".go.buildinfo"), aligned(16), used))

#ifdef INLINE
struct buildinfo {
	unsigned char magic[14], pointer_size, flags;
	unsigned char unused[16];
	unsigned char length;
	char version[8];
};

SECTION static struct buildinfo info = {
	.magic = "\xff Go buildinf:",
	.pointer_size = 0,
	.flags = 2,
	.length = 8,
	.version = {'g', 'o', '1', '.', '2', '1', '.', '5'},
};
#else
struct text {
	const char *bytes;
	uint64_t length;
};

struct buildinfo {
	unsigned char magic[14], pointer_size, flags;
	const struct text *version, *module;
};

static const struct text version = {"go1.16.7 and more", 8};

SECTION static struct buildinfo info = {
	.magic = "\xff Go buildinf:",
	.pointer_size = 8,
	.flags = 0,
	.version = &version,
};
#endif
