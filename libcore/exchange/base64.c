/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/base64.h"

#include <stdint.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void flmem_base64_print(const void *bytes, size_t length, char *out)
{
	const unsigned char *from = bytes;

	for (size_t i = 0; i < length; i += 3) {
		size_t left = length - i;
		uint32_t group = (uint32_t)from[i] << 16;

		group |= left > 1 ? (uint32_t)from[i + 1] << 8 : 0;
		group |= left > 2 ? from[i + 2] : 0;
		*out++ = digits[group >> 18];
		*out++ = digits[group >> 12 & 63];
		*out++ = left > 1 ? digits[group >> 6 & 63] : '=';
		*out++ = left > 2 ? digits[group & 63] : '=';
	}
	*out = '\0';
}

/* Decodes four characters, of which the last `padding` are '='. */
static bool read_group(const char *text, size_t padding, uint32_t *ret_group)
{
	uint32_t group = 0;

	for (size_t i = 0; i < 4; i++) {
		const char *digit = i < 4 - padding ? memchr(digits, text[i], 64) : digits;

		if (!digit)
			return false;
		group = group << 6 | (uint32_t)(digit - digits);
	}
	*ret_group = group;
	/* The unused bits behind the last byte must be 0. */
	return !(group & ((UINT32_C(1) << (8 * padding)) - 1));
}

bool flmem_base64_read(const char *text, size_t length, void *out, size_t room, size_t *ret_bytes)
{
	unsigned char *to = out;
	size_t bytes = 0;

	if (length % 4)
		return false;
	for (size_t i = 0; i < length; i += 4) {
		bool last = i + 4 == length;
		size_t padding = last && text[i + 3] == '=' ? 1U + (text[i + 2] == '=') : 0;
		uint32_t group;

		if (!read_group(text + i, padding, &group) || room - bytes < 3 - padding)
			return false;
		for (size_t k = 0; k < 3 - padding; k++)
			to[bytes++] = (unsigned char)(group >> (16 - 8 * k));
	}
	*ret_bytes = bytes;
	return true;
}
