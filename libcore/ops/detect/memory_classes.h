/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_DETECT_MEMORY_CLASSES_H
#define FLMEM_OPS_DETECT_MEMORY_CLASSES_H

/* Classifies the resident memory of a process. Reads nothing: computes sums from reports. */

#include <flmem/detect.h>

/*
 * Returns the sum over the heaps of all allocators. A field is unknown if it is unknown for one
 * allocator, with that reason; `why_none` is the reason if there is no allocator.
 */
struct flmem_heap_report flmem_heap_sum(const struct flmem_allocator_report *allocators,
					size_t count, const char *why_none);

/* PyTorch's page-locked host memory, if PyTorch was queried; zero otherwise. */
struct flmem_page_locked {
	uint64_t idle;	/* unused, in PyTorch's cache */
	uint64_t given; /* used by tensors */
	bool of_malloc; /* malloc blocks that are registered with CUDA */
};

struct flmem_page_locked flmem_page_locked_of(const struct flmem_process_report *report);

/* Returns the resident shared anonymous memory: mappings without a file name. */
uint64_t flmem_nameless_bytes(const struct flmem_process_report *report);

/*
 * Classifies the memory. The classes add up to RSS by construction: files and shared memory are the
 * kernel's counters, the free parts are subtracted from the anonymous memory, PyTorch's page-locked
 * memory from the shared memory, and the rest is live, or unknown if an allocator's part of it is
 * unknown. If the parts exceed the whole, `error_bytes` is the difference.
 */
void flmem_memory_classify(const struct flmem_process_report *report,
			   struct flmem_memory_classes *ret_classes);

#endif
