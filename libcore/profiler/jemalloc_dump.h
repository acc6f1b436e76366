/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_JEMALLOC_DUMP_H
#define FLMEM_PROFILER_JEMALLOC_DUMP_H

/*
 * Reads the text that jemalloc writes as its heap profile (src/prof_data.c of jemalloc 5):
 * "heap_v2/" and the mean distance of samples, totals, stacks with their counts, the text of
 * /proc/self/maps. It is untrusted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/cleanup.h"
#include "proc/maps.h"

#define FLMEM_JEMALLOC_DUMP_MAGIC "heap_v2/"
#define FLMEM_JEMALLOC_DUMP_MAPS  "MAPPED_LIBRARIES:" /* line before the mappings */

/*
 * Limits: larger files, and more stacks, calls and addresses, are refused, because they take
 * memory.
 */
#define FLMEM_JEMALLOC_DUMP_MAX	     ((size_t)64 << 20)
#define FLMEM_JEMALLOC_STACKS_MAX    ((size_t)1 << 20)
#define FLMEM_JEMALLOC_NODES_MAX     ((size_t)1 << 22)
#define FLMEM_JEMALLOC_ADDRESSES_MAX ((size_t)1 << 18)

/* Estimates: jemalloc's numbers with their bias removed. */
struct flmem_jemalloc_count {
	uint64_t objects, bytes;
};

/*
 * A call in the tree of all stacks; the root is number 0. Parents, which are the callers, come
 * before their children.
 */
struct flmem_jemalloc_node {
	uint64_t address; /* return address */
	uint32_t parent;
};

struct flmem_jemalloc_stack {
	uint32_t node; /* index of the innermost call */
	struct flmem_jemalloc_count live, allocated;
};

struct flmem_jemalloc_dump {
	uint64_t interval_bytes;
	bool accumulated;    /* the amounts allocated in total are known */
	bool cut;	     /* the file ends before its mappings, or within one of their lines */
	bool lacks_stacks;   /* the file ends before the end of its stacks */
	uint64_t skipped;    /* number of inconsistent stacks */
	uint64_t cut_stacks; /* number of stacks without their outer calls */
	struct flmem_jemalloc_stack *stacks;
	size_t stack_count;
	struct flmem_jemalloc_node *nodes;
	size_t node_count;
	struct flmem_maps maps;
};

/* Returns true if the file begins like such a text. */
bool flmem_jemalloc_dump_is_one(int fd);

/*
 * Reads a file from its start. FLMEM_EUSAGE if it exceeds a limit, or if its first line is damaged;
 * the message continues the name of the file.
 */
int flmem_jemalloc_dump_read(int fd, struct flmem_jemalloc_dump *ret_dump, struct flmem_error *err);

void flmem_jemalloc_dump_clear(struct flmem_jemalloc_dump *dump);

#define FLMEM_AUTO_JEMALLOC_DUMP FLMEM_AUTO(flmem_jemalloc_dump_clear)

#endif
