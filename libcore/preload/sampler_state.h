/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_SAMPLER_STATE_H
#define FLMEM_PRELOAD_SAMPLER_STATE_H

/*
 * What a sampler shows of itself to a flmem that reads the memory of its process, under the name
 * flmem_sampler_state. Untrusted to a reader. A child of fork() has it filled with zeros.
 */

#include <stdint.h>

#define FLMEM_SAMPLER_STATE_SYMBOL  "flmem_sampler_state"
#define FLMEM_SAMPLER_STATE_MAGIC   UINT64_C(0x3153504d4153464c)
#define FLMEM_SAMPLER_STATE_VERSION 1U
#define FLMEM_SAMPLER_STATE_PATH    4096U

/*
 * The function that carries out an order: void (const char *order, char *answer), which flmem calls
 * in a thread of its own, without the lock of an interpreter.
 */
#define FLMEM_SAMPLER_ORDER_SYMBOL "flmem_sampler_order"
#define FLMEM_SAMPLER_ORDER_ATTACH "attach " /* and the path of the profile */
#define FLMEM_SAMPLER_ORDER_DETACH "detach"
#define FLMEM_SAMPLER_DONE	   "flmem: ok"
#define FLMEM_SAMPLER_REFUSED	   "flmem: refused " /* and the reason */
#define FLMEM_SAMPLER_ANSWER_MAX   512U

/* X(identifier, number, name) */
#define FLMEM_SAMPLER_PHASES(X)      \
	X(IDLE, 0, "idle")           \
	X(ATTACHING, 1, "attaching") \
	X(SAMPLING, 2, "sampling")   \
	X(DETACHING, 3, "detaching")

enum flmem_sampler_phase {
#define FLMEM_SAMPLER_ROW(identifier, number, name) FLMEM_SAMPLER_##identifier = (number),
	FLMEM_SAMPLER_PHASES(FLMEM_SAMPLER_ROW)
#undef FLMEM_SAMPLER_ROW
};

/* Entries of the tables of loaded objects that name an allocator function. */
struct flmem_sampler_entries {
	uint64_t redirected;
	uint64_t fixed;	     /* pointers in data, which stay as they are */
	uint64_t elsewhere;  /* lead to another function: of another tool or allocator */
	uint64_t unresolved; /* not bound yet, and it is not certain to what */
	uint64_t locked;     /* whose page could not be made writable */
	uint64_t objects;    /* that have entries */
	uint64_t unready;    /* objects that were just being loaded */
};

/*
 * What the file of a sampler has under this name, read-only: another library may have a symbol of
 * the same name, and a malloc() that does not hand calls on.
 */
#define FLMEM_SAMPLER_MARK_SYMBOL "flmem_sampler_mark"
#define FLMEM_SAMPLER_MARK	  "flmem heap sampler: hands each call on to the next allocator"

struct flmem_sampler_state {
	uint64_t magic;
	uint32_t version;
	uint32_t phase;	    /* enum flmem_sampler_phase */
	uint32_t preloaded; /* the program calls the sampler without redirected entries */
	uint32_t inside;    /* calls that use the profile now */
	struct flmem_sampler_entries entries;
	char path[FLMEM_SAMPLER_STATE_PATH]; /* the profile, as the process names it */
};

#endif
