/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/kernels_list.h"

#ifdef __x86_64__
#include <cpuid.h>

/* clang 14 does not know the name of F16C (Intel SDM, CPUID leaf 1). */
static bool has_avx2(void)
{
	unsigned int a, b, c = 0, d;

	return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && c >> 29 & 1U;
}

#define KERNELS		  flmem_kernels_avx2
#define KERNELS_NAME	  "avx2"
#define KERNELS_SUPPORTED has_avx2
#include "aggregate/kernels_body.inc"
#endif
