/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_JEMALLOC_JEMALLOC_PROFILING_H
#define FLMEM_ALLOCATORS_JEMALLOC_JEMALLOC_PROFILING_H

/*
 * Controls jemalloc's own heap profile (jemalloc(3), "prof.active" and the like) by calls of
 * mallctl().
 */

#include "allocators/allocator.h"

struct flmem_jemalloc_profiling {
	bool built;	    /* config.prof: built with profiling */
	bool prepared;	    /* opt.prof: profiling was enabled at start */
	bool active;	    /* sampling is on */
	bool has_dump_hook; /* the program has set a function that a dump calls */
};

/*
 * Appends the calls that read the state of profiling; sets the offset of their answers in the
 * chain's data.
 */
int flmem_jemalloc_plan_profiling(const struct flmem_allocator *found, struct flmem_chain *chain,
				  uint64_t *ret_answers, struct flmem_error *err);

/*
 * Reads the answers. FLMEM_EUNSUPPORTED: this jemalloc does not answer, or cannot profile; the
 * message says why.
 */
int flmem_jemalloc_take_profiling(const struct flmem_view *view, const unsigned char *answers,
				  struct flmem_jemalloc_profiling *ret_state,
				  struct flmem_error *err);

/*
 * Appends the call that switches sampling on or off. The call makes one store, under a lock of
 * jemalloc.
 */
int flmem_jemalloc_plan_active(const struct flmem_allocator *found, bool active,
			       struct flmem_chain *chain, struct flmem_error *err);

/*
 * Appends the call that writes a dump. `area`, of `size` bytes, becomes the area of the chain and
 * has to outlive the run. The call opens the path for writing and holds locks of jemalloc while it
 * writes, so it is made on its own thread.
 */
int flmem_jemalloc_plan_dump(const struct flmem_allocator *found, const char *path,
			     unsigned char *area, size_t size, struct flmem_chain *chain,
			     struct flmem_error *err);

#endif
