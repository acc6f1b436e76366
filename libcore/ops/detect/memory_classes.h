/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_DETECT_MEMORY_CLASSES_H
#define FLMEM_OPS_DETECT_MEMORY_CLASSES_H

/*
 * Sorts the resident memory of a process into classes. Nothing is read here: reports in, sums out.
 */

#include <flmem/detect.h>

/*
 * The heaps of all allocators as one. A field is unknown when one allocator's is, with its reason;
 * `why_none` is the reason where there is no allocator.
 */
struct flmem_heap_report flmem_heap_sum(const struct flmem_allocator_report *allocators,
					size_t count, const char *why_none);

/* PyTorch's page-locked host memory, where it has told of it; else nothing of it. */
struct flmem_page_locked {
	uint64_t idle;	/* waits in its cache */
	uint64_t given; /* tensors have it */
	bool of_malloc; /* blocks of malloc that are registered with CUDA */
};

struct flmem_page_locked flmem_page_locked_of(const struct flmem_process_report *report);

/* Resident shared anonymous memory, which has no name. */
uint64_t flmem_nameless_bytes(const struct flmem_process_report *report);

/*
 * The classes add up to RSS by construction: files and shared memory are the kernel's counters, the
 * free parts are taken out of the anonymous memory, PyTorch's page-locked memory out of the shared,
 * and what remains is live, or unknown where an allocator's part of it is. Where the parts are more
 * than the whole, `error_bytes` says by how much.
 */
void flmem_memory_classify(const struct flmem_process_report *report,
			   struct flmem_memory_classes *ret_classes);

#endif
