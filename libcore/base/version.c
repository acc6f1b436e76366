/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/version.h>

const char *flmem_version(void)
{
	return FLMEM_VERSION;
}
