/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/kernels_list.h"

static bool is_always_supported(void)
{
	return true;
}

#define KERNELS		  flmem_kernels_portable
#define KERNELS_NAME	  "portable"
#define KERNELS_SUPPORTED is_always_supported
#include "aggregate/kernels_body.inc"
