/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_INVENTORY_H
#define FLMEM_INVENTORY_H

/* Inventory of a host: allocator libraries for preloading, and GPUs. */

#include <flmem/roles.h>
#include <flmem/value.h>

/* An installed allocator library that can be preloaded. */
struct flmem_installed_allocator {
	enum flmem_allocator_kind kind;
	char *path;
};

struct flmem_gpu {
	char *name; /* "" if the driver reports none */
	struct flmem_u64 total_bytes;
	struct flmem_u64 used_bytes;
};

#endif
