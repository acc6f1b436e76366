/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/stat.h"

#include <stddef.h>
#include <string.h>

#define FIRST_FIELD 3

const char *flmem_stat_fields(const char *text)
{
	const char *p = strrchr(text, ')');

	return p && p[1] == ' ' ? p + 2 : NULL;
}

bool flmem_stat_number(const char *fields, int field, uint64_t *ret_value)
{
	const char *p = fields;
	uint64_t value = 0;

	for (int i = FIRST_FIELD; i < field; i++) {
		p = strchr(p, ' ');
		if (!p)
			return false;
		p++;
	}
	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++)
		value = value * 10 + (uint64_t)(*p - '0');
	*ret_value = value;
	return true;
}
