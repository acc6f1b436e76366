/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/kernels_list.h"

#ifdef __x86_64__
#include "base/processor.h"

#define KERNELS		  flmem_kernels_avx512
#define KERNELS_NAME	  "avx512"
#define KERNELS_SUPPORTED flmem_processor_has_avx512
#include "aggregate/kernels_body.inc"
#endif
