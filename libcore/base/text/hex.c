/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/hex.h"

static int read_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int flmem_hex_read4(const char *digits)
{
	int value = 0;

	for (int i = 0; i < 4; i++) {
		int digit = read_hex_digit(digits[i]);

		if (digit < 0)
			return -1;
		value = value * 16 + digit;
	}
	return value;
}
