/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_INVENTORY_H
#define FLMEM_INVENTORY_H

/* What a host has: allocator libraries that could be preloaded, and GPUs. */

#include <flmem/roles.h>
#include <flmem/value.h>

/* An allocator library that is installed and could be preloaded. */
struct flmem_installed_allocator {
	enum flmem_allocator_kind kind;
	char *path;
};

struct flmem_gpu {
	char *name; /* "" when the driver does not tell */
	struct flmem_u64 total_bytes;
	struct flmem_u64 used_bytes;
};

#endif
