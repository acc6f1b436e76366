/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/kernels_list.h"

#ifdef __x86_64__
#include "base/processor.h"

#define KERNELS		  flmem_kernels_avx2
#define KERNELS_NAME	  "avx2"
#define KERNELS_SUPPORTED flmem_processor_has_avx2_f16c
#include "aggregate/kernels_body.inc"
#endif
