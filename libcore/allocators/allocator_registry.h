/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_ALLOCATOR_REGISTRY_H
#define FLMEM_ALLOCATORS_ALLOCATOR_REGISTRY_H

/* The list of allocators: the table of a new file is named only here. */

#include "allocators/allocator.h"

/* X(name of the table flmem_allocator_<name>) */
#define FLMEM_ALLOCATOR_TABLES(X) \
	X(glibc)                  \
	X(jemalloc)               \
	X(tcmalloc)               \
	X(mimalloc)               \
	X(musl)                   \
	X(snmalloc)               \
	X(rpmalloc)               \
	X(go)                     \
	X(java)

#define FLMEM_ALLOCATOR_DECLARATION(name) \
	extern const struct flmem_allocator_ops flmem_allocator_##name;
FLMEM_ALLOCATOR_TABLES(FLMEM_ALLOCATOR_DECLARATION)
#undef FLMEM_ALLOCATOR_DECLARATION

#endif
