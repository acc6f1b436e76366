/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_arena_max.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "allocators/glibc/glibc_tunables.h"
#include "base/text/buf.h"
#include "base/text/text.h"

#define TUNABLE "glibc.malloc.arena_max="

/* 0 sets no limit, and neither does a number above the largest possible one. */
bool flmem_glibc_arena_max_parse(const char *value, uint64_t *ret_limit)
{
	uint64_t limit;

	if (!flmem_glibc_number_parse(value, &limit) || !limit)
		return false;
	*ret_limit = limit;
	return true;
}

bool flmem_glibc_arena_max_until_2_38(const char *value)
{
	size_t length = strlen(value);
	char number[32];
	uint64_t limit;

	if (length >= sizeof(number))
		return false;
	while (length > 1) {
		char behind = value[--length];

		snprintf(number, sizeof(number), "%.*s", (int)length, value);
		if (flmem_glibc_arena_max_parse(number, &limit))
			/* With a digit here the whole number exceeds 32 bits. */
			return behind < '0' || behind > '9';
	}
	return false;
}

bool flmem_glibc_arena_max_tuned(const char *tunables)
{
	return flmem_glibc_tunable_has(tunables, TUNABLE);
}

bool flmem_glibc_arena_max_find(const char *variable, const char *tunables, uint64_t *ret_limit)
{
	uint64_t limit = 0;
	bool found = flmem_glibc_tunable_find(tunables, TUNABLE, 1, &limit);

	if (!found && !flmem_glibc_tunable_is_boundless(tunables, TUNABLE))
		found = variable && flmem_glibc_arena_max_parse(variable, &limit);
	if (found)
		*ret_limit = limit;
	return found;
}

bool flmem_glibc_arena_max_overrides(const char *tunables)
{
	uint64_t limit;

	return flmem_glibc_tunable_is_boundless(tunables, TUNABLE) ||
	       flmem_glibc_arena_max_find(NULL, tunables, &limit);
}

char *flmem_glibc_arena_max_replace(const char *tunables, const char *limit)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	for (size_t length; *tunables; tunables += length + (tunables[length] == ':')) {
		length = strcspn(tunables, ":");
		if (flmem_text_starts(tunables, TUNABLE))
			continue;
		flmem_buf_append(&text, tunables, length);
		flmem_buf_putc(&text, ':');
	}
	flmem_buf_printf(&text, TUNABLE "%s", limit);
	return flmem_buf_take(&text);
}
