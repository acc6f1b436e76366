/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_BASE64_H
#define FLMEM_EXCHANGE_BASE64_H

/* Base64 with padding (RFC 4648, 4). */

#include <stdbool.h>
#include <stddef.h>

/* Size of the buffer for so many bytes as text, with the NUL. */
#define FLMEM_BASE64_ROOM(bytes) (((bytes) + 2) / 3 * 4 + 1)

/* Encodes bytes; `out` has room for FLMEM_BASE64_ROOM(length). */
void flmem_base64_print(const void *bytes, size_t length, char *out);

/*
 * Decodes exactly `length` characters into at most `room` bytes. Strict: padding is required and
 * unused bits are zero. `out` may be changed on failure.
 */
bool flmem_base64_read(const char *text, size_t length, void *out, size_t room, size_t *ret_bytes);

#endif
