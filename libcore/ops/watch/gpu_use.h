/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_WATCH_GPU_USE_H
#define FLMEM_OPS_WATCH_GPU_USE_H

/*
 * Reads the GPU memory of single processes, for occasional use. The driver is queried only if it is
 * loaded, and only for processes that have one of its devices open; mappings are not read, because
 * reading them could delay the process. One thread at a time.
 */

#include <stdbool.h>

#include <flmem/value.h>

struct flmem_nvml;
struct flmem_process;

/* Zero-initialise it: the driver is searched for at the first use. */
struct flmem_gpu_use {
	bool present; /* this machine has an NVIDIA GPU */
	bool tried;
	struct flmem_nvml *nvml; /* NULL: not opened yet, or it cannot be opened */
};

void flmem_gpu_use_open(struct flmem_gpu_use *ret_use);
void flmem_gpu_use_close(struct flmem_gpu_use *use);

/* Returns the GPU memory of the process, on all GPUs together; 0 if it has none open. */
struct flmem_u64 flmem_gpu_use_of(struct flmem_gpu_use *use, const struct flmem_process *process);

#endif
