/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_CRC32C_H
#define FLMEM_BASE_CRC32C_H

/* CRC-32C (Castagnoli, RFC 3720), the checksum of object stores and file systems. */

#include <stddef.h>
#include <stdint.h>

/* Continues the checksum `crc` of the bytes before; start with 0. */
uint32_t flmem_crc32c(uint32_t crc, const void *bytes, size_t length);

/* Like flmem_crc32c(), without the instructions that only some processors have. */
uint32_t flmem_crc32c_portable(uint32_t crc, const void *bytes, size_t length);

/*
 * Computes the checksum of two joined pieces from the checksum of each; `length` is that of the
 * second.
 */
uint32_t flmem_crc32c_join(uint32_t first, uint32_t second, uint64_t length);

#endif
