/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_JEMALLOC_DUMP_H
#define FLMEM_PROFILER_JEMALLOC_DUMP_H

/*
 * The text that jemalloc writes as its heap profile (src/prof_data.c of jemalloc 5): "heap_v2/" and
 * the mean distance of samples, totals, stacks with their counts, the text of /proc/self/maps. Not
 * trusted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/cleanup.h"
#include "proc/maps.h"

#define FLMEM_JEMALLOC_DUMP_MAGIC "heap_v2/"
#define FLMEM_JEMALLOC_DUMP_MAPS  "MAPPED_LIBRARIES:" /* the line before the mappings */

/* Larger files, more stacks, calls and addresses in them are refused: they take memory. */
#define FLMEM_JEMALLOC_DUMP_MAX	     ((size_t)64 << 20)
#define FLMEM_JEMALLOC_STACKS_MAX    ((size_t)1 << 20)
#define FLMEM_JEMALLOC_NODES_MAX     ((size_t)1 << 22)
#define FLMEM_JEMALLOC_ADDRESSES_MAX ((size_t)1 << 18)

/* Estimates: jemalloc's numbers without their bias. */
struct flmem_jemalloc_count {
	uint64_t objects, bytes;
};

/* A call in the tree of all stacks; the root is number 0. Parents, the callers, come first. */
struct flmem_jemalloc_node {
	uint64_t address; /* of return */
	uint32_t parent;
};

struct flmem_jemalloc_stack {
	uint32_t node; /* the innermost one */
	struct flmem_jemalloc_count live, allocated;
};

struct flmem_jemalloc_dump {
	uint64_t interval_bytes;
	bool accumulated;    /* what was allocated in total is known */
	bool cut;	     /* ends before its mappings, or within a line of them */
	bool lacks_stacks;   /* ... before */
	uint64_t skipped;    /* stacks that were inconsistent */
	uint64_t cut_stacks; /* without their outer calls */
	struct flmem_jemalloc_stack *stacks;
	size_t stack_count;
	struct flmem_jemalloc_node *nodes;
	size_t node_count;
	struct flmem_maps maps;
};

/* Whether the file begins as such a text. */
bool flmem_jemalloc_dump_is_one(int fd);

/*
 * Reads a file from its start. FLMEM_EUSAGE, with a message to be put after the name of the file:
 * it exceeds a limit, or its first line is damaged.
 */
int flmem_jemalloc_dump_read(int fd, struct flmem_jemalloc_dump *ret_dump, struct flmem_error *err);

void flmem_jemalloc_dump_clear(struct flmem_jemalloc_dump *dump);

#define FLMEM_AUTO_JEMALLOC_DUMP FLMEM_AUTO(flmem_jemalloc_dump_clear)

#endif
