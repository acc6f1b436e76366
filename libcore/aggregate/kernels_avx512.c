/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/kernels_list.h"

#ifdef __x86_64__
static bool has_avx512(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

#define KERNELS		  flmem_kernels_avx512
#define KERNELS_NAME	  "avx512"
#define KERNELS_SUPPORTED has_avx512
#include "aggregate/kernels_body.inc"
#endif
