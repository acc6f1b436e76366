/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes/crc32.h"

#include <zlib.h>

uint32_t flmem_crc32(uint32_t crc, const void *bytes, size_t length)
{
	return (uint32_t)crc32_z(crc, bytes, length);
}
