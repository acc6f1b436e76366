/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_arena_max.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define TUNABLE "glibc.malloc.arena_max="

/* More arenas than this are no limit. */
#define LIMIT_MAX UINT32_MAX

static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 16;
}

/*
 * elf/dl-minimal.c, _dl_strtoul(). Releases up to 2.38 ignore text after the number, later ones
 * ignore such a value as a whole.
 */
bool flmem_glibc_arena_max_parse(const char *value, uint64_t *ret_limit)
{
	int base = 10;
	uint64_t limit = 0;

	value += strspn(value, " \t");
	if (*value == '+')
		value++;
	if (value[0] == '0' && (value[1] == 'x' || value[1] == 'X')) {
		base = 16;
		value += 2;
	} else if (value[0] == '0') {
		base = 8;
	}
	for (; *value; value++) {
		if (digit_value(*value) >= base)
			return false;
		limit = limit * (unsigned)base + (unsigned)digit_value(*value);
		if (limit > LIMIT_MAX)
			return false;
	}
	if (!limit)
		return false;
	*ret_limit = limit;
	return true;
}

/* The next entry for the limit at or after `at`, or NULL; entries are separated by colons. */
static const char *find_entry(const char *tunables, const char *at)
{
	for (at = strstr(at, TUNABLE); at; at = strstr(at + 1, TUNABLE))
		if (at == tunables || at[-1] == ':')
			return at + strlen(TUNABLE);
	return NULL;
}

bool flmem_glibc_arena_max_tuned(const char *tunables)
{
	return tunables && find_entry(tunables, tunables);
}

/* Releases differ in which of several entries holds, so all must be valid, and the last counts. */
static bool find_tuned(const char *tunables, uint64_t *ret_limit)
{
	const char *entry = find_entry(tunables, tunables);
	bool found = false;

	for (; entry; entry = find_entry(tunables, entry)) {
		size_t length = strcspn(entry, ":");
		char value[32];

		if (length >= sizeof(value))
			return false;
		snprintf(value, sizeof(value), "%.*s", (int)length, entry);
		found = flmem_glibc_arena_max_parse(value, ret_limit);
		if (!found)
			return false;
	}
	return found;
}

bool flmem_glibc_arena_max_find(const char *variable, const char *tunables, uint64_t *ret_limit)
{
	uint64_t limit;
	bool found = tunables && find_tuned(tunables, &limit);

	if (!found)
		found = variable && flmem_glibc_arena_max_parse(variable, &limit);
	if (found)
		*ret_limit = limit;
	return found;
}
