/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_GPU_DEVICES_H
#define FLMEM_RUNTIMES_GPU_DEVICES_H

/*
 * Finds out whether this machine has a GPU, by its device nodes: no library is loaded and no GPU
 * wakes up. No other code decides it.
 */

enum {
	FLMEM_GPU_NVIDIA = 1,
	FLMEM_GPU_AMD = 2,
};

/*
 * Returns the FLMEM_GPU_* whose nodes are in this directory ("/dev"); 0: none, or it cannot be
 * read.
 */
unsigned flmem_gpu_devices_find(const char *directory);

#endif
