/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OWN_PROCESS_H
#define FLMEM_OWN_PROCESS_H

/*
 * Works on the allocator of the calling process: the three functions of NVFlare's memory_utils, for
 * any program. All are thread-safe; the allocator is looked up once and cached.
 */

#include <stdint.h>

#include <flmem/error.h>
#include <flmem/roles.h>

/* Returns the allocator that serves malloc in this process. */
FLMEM_API enum flmem_allocator_kind flmem_get_allocator_type(void);

/*
 * Calls glibc's malloc_trim(0). Returns 1 if it released memory, 0 if there was none to release, -1
 * if the allocator is not glibc, or if a device may still use freed memory (see
 * flmem_cleanup_memory()).
 */
FLMEM_API int flmem_try_malloc_trim(void);

/*
 * Releases retained memory of the allocator that serves malloc: malloc_trim(0), for jemalloc a
 * flush of this thread's cache and a purge of all arenas, for tcmalloc and mimalloc their release
 * call. FLMEM_EUNSUPPORTED if the allocator has none, or if the process has memory registered with
 * a device (VmPin) and has set the allocator to keep freed memory, which the device may still use.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_cleanup_memory(struct flmem_error *err);

enum flmem_cleanup {
	/*
	 * Also trim the default stream-ordered memory pool (cudaMallocAsync) of each CUDA device
	 * whose primary context is active, as cudaMemPoolTrimTo(pool, 0) does. No context is
	 * created, and a CUDA graph that another thread captures is not disturbed. Does nothing
	 * where the program has not loaded CUDA's driver.
	 */
	FLMEM_CLEANUP_CUDA = 1,
};

/*
 * Does the same as flmem_cleanup_memory(), with more steps: `flags` is a sum of enum flmem_cleanup.
 * Every step is tried; the first failure is reported: FLMEM_EFAILED with CUDA's error number, or
 * the error of flmem_cleanup_memory(). *ret_cuda_bytes (may be NULL): decrease of CUDA's pools in
 * bytes.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_cleanup_memory_with(unsigned flags, uint64_t *ret_cuda_bytes,
							 struct flmem_error *err);

#endif
