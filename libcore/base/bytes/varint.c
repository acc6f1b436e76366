/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes/varint.h"

void flmem_varint_put(struct flmem_buf *buf, uint64_t number)
{
	char bytes[10]; /* 64 bits in groups of 7 */
	size_t length = 0;

	if (number < 0x80) {
		flmem_buf_putc(buf, (char)number);
		return;
	}
	for (; number >= 0x80; number >>= 7)
		bytes[length++] = (char)(0x80 | (number & 0x7f));
	bytes[length++] = (char)number;
	flmem_buf_append(buf, bytes, length);
}

bool flmem_varint_take(const char *bytes, size_t end, size_t *at, uint64_t *ret_number)
{
	uint64_t number = 0;

	for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
		uint64_t byte = (unsigned char)bytes[(*at)++];

		if (shift == 63 && byte > 1)
			return false;
		number |= (byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret_number = number;
			return true;
		}
	}
	return false;
}
