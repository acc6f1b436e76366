/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_AGGREGATE_KERNELS_LIST_H
#define FLMEM_AGGREGATE_KERNELS_LIST_H

/* The kernel tables of all instruction sets, for kernels.c. */

#include "aggregate/kernels.h"

extern const struct flmem_kernels flmem_kernels_portable;
#ifdef __x86_64__
extern const struct flmem_kernels flmem_kernels_avx2;
extern const struct flmem_kernels flmem_kernels_avx512;
#endif
#ifdef __aarch64__
extern const struct flmem_kernels flmem_kernels_neon;
#endif

#endif
