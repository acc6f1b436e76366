/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/kernels_list.h"

static bool supported(void)
{
	return true;
}

#define KERNELS	     flmem_kernels_portable
#define KERNELS_NAME "portable"
#include "aggregate/kernels_body.inc"
