/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CUDA_RUNTIME_H
#define FLMEM_RUNTIMES_CUDA_RUNTIME_H

/*
 * The CUDA runtime, libcudart, as the dynamic linker finds it. It is loaded on use; only its
 * version is read, which needs no GPU, makes no context and uses no GPU memory.
 */

#include <flmem/error.h>

/* "12.9", a heap string. FLMEM_EUNSUPPORTED where none is found or it does not report one. */
int flmem_cuda_runtime_version(char **ret_version, struct flmem_error *err);

/* "12.9" of CUDA's number 12090, a heap string; NULL if it is not a version, or out of memory. */
char *flmem_cuda_version_text(int number);

#endif
