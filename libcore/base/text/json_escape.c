/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/json_escape.h"

#include <string.h>

char flmem_json_escape(char name)
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	const char *found = name ? strchr(names, name) : NULL;

	return found ? values[found - names] : '\0';
}

uint32_t flmem_json_escape_pair(int high, int low)
{
	return 0x10000U + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
}

char *flmem_json_escape_put(char *out, uint32_t c)
{
	if (c < 0x80) {
		*out++ = (char)c;
		return out;
	}
	if (c < 0x800) {
		*out++ = (char)(0xc0 | c >> 6);
	} else {
		if (c < 0x10000) {
			*out++ = (char)(0xe0 | c >> 12);
		} else {
			*out++ = (char)(0xf0 | c >> 18);
			*out++ = (char)(0x80 | (c >> 12 & 0x3f));
		}
		*out++ = (char)(0x80 | (c >> 6 & 0x3f));
	}
	*out++ = (char)(0x80 | (c & 0x3f));
	return out;
}
