/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_CRC32_H
#define FLMEM_BASE_CRC32_H

/* The CRC-32 of zip archives (APPNOTE.TXT 4.4.7). */

#include <stddef.h>
#include <stdint.h>

/* Continues the checksum `crc` of the bytes before; start with 0. Thread-safe. */
uint32_t flmem_crc32(uint32_t crc, const void *bytes, size_t length);

#endif
