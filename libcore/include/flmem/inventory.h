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

/* States of a GPU's partitioning (MIG, multi-instance GPU). X(NAME, text) */
#define FLMEM_MIG_MODES(X)            \
	X(UNKNOWN, NULL)              \
	X(UNSUPPORTED, "unsupported") \
	X(OFF, "off")                 \
	X(ON, "on")

enum flmem_mig {
#define FLMEM_MIG_ENUM(name, text) FLMEM_MIG_##name,
	FLMEM_MIG_MODES(FLMEM_MIG_ENUM)
#undef FLMEM_MIG_ENUM
};

struct flmem_gpu {
	char *name; /* model name, "" if the driver reports none */
	struct flmem_u64 total_bytes;
	struct flmem_u64 used_bytes;
	struct flmem_u64 free_bytes;
	enum flmem_mig mig;
	struct flmem_u64 mig_instances; /* number of the GPU's MIG devices; 0 if MIG is off */
};

#endif
