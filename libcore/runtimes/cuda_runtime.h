/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CUDA_RUNTIME_H
#define FLMEM_RUNTIMES_CUDA_RUNTIME_H

/*
 * Reads the version of the CUDA runtime, libcudart, as the dynamic linker finds it. It is loaded on
 * use; reading its version needs no GPU, makes no context and uses no GPU memory.
 */

#include <flmem/error.h>

/*
 * Returns the version, "12.9", as a heap string. FLMEM_EUNSUPPORTED if there is no runtime or it
 * does not report its version.
 */
int flmem_cuda_runtime_version(char **ret_version, struct flmem_error *err);

/*
 * Returns "12.9" for CUDA's number 12090, as a heap string; NULL if it is not a version, or if
 * memory is out.
 */
char *flmem_cuda_version_text(int number);

#endif
