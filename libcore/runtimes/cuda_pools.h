/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CUDA_POOLS_H
#define FLMEM_RUNTIMES_CUDA_POOLS_H

/*
 * Trims stream-ordered memory pools of CUDA in the calling process, through the driver's library.
 */

#include <stdint.h>

#include <flmem/error.h>

/*
 * Trims the default pool of each device whose primary context is active; 0 with 0 bytes if the
 * process has not loaded the driver. FLMEM_EFAILED with CUDA's error number.
 */
int flmem_cuda_pools_trim(uint64_t *ret_released, struct flmem_error *err);

#endif
