/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_tunables.h"

#include <stdio.h>
#include <string.h>

#include "base/text/version_number.h"

#define HUGETLB "glibc.malloc.hugetlb="

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

/* Returns the length of the prefix that names the base (elf/dl-minimal.c, _dl_strtoul()). */
static size_t skip_base(const char *value, int *ret_base)
{
	*ret_base = 10;
	if (value[0] != '0')
		return 0;
	*ret_base = value[1] == 'x' || value[1] == 'X' ? 16 : 8;
	return *ret_base == 16 ? 2 : 0;
}

/* Releases up to 2.38 ignore text after the number; later ones ignore a value with such text. */
bool flmem_glibc_number_parse(const char *value, uint64_t *ret_number)
{
	uint64_t number = 0;
	const char *digits;
	int base;

	value += strspn(value, " \t");
	if (*value == '+')
		value++;
	value += skip_base(value, &base);
	for (digits = value; *value; value++) {
		if (digit_value(*value) >= base)
			return false;
		number = number * (unsigned)base + (unsigned)digit_value(*value);
		if (number > UINT32_MAX)
			return false;
	}
	if (value == digits)
		return false;
	*ret_number = number;
	return true;
}

/*
 * Returns the value of the next entry at or after `at`, or NULL; entries are separated by colons.
 */
static const char *find_tunable(const char *tunables, const char *at, const char *name)
{
	for (at = strstr(at, name); at; at = strstr(at + 1, name))
		if (at == tunables || at[-1] == ':')
			return at + strlen(name);
	return NULL;
}

bool flmem_glibc_tunable_has(const char *tunables, const char *name)
{
	return tunables && find_tunable(tunables, tunables, name);
}

bool flmem_glibc_tunable_find(const char *tunables, const char *name, uint64_t least,
			      uint64_t *ret_number)
{
	const char *entry = tunables ? find_tunable(tunables, tunables, name) : NULL;
	uint64_t number = 0;
	bool found = false;

	for (; entry; entry = find_tunable(tunables, entry, name)) {
		size_t length = strcspn(entry, ":");
		char value[32];

		if (length >= sizeof(value))
			return false;
		snprintf(value, sizeof(value), "%.*s", (int)length, entry);
		found = flmem_glibc_number_parse(value, &number) && number >= least;
		if (!found)
			return false;
	}
	if (found)
		*ret_number = number;
	return found;
}

static bool is_boundless(const char *value)
{
	size_t length;
	int base;

	value += strspn(value, " \t");
	if (*value == '-') {
		value += 1 + strspn(value + 1, "0");
		return *value >= '1' && *value <= '9';
	}
	value += *value == '+';
	value += skip_base(value, &base);
	value += strspn(value, "0");
	for (length = 0; digit_value(value[length]) < base;)
		length++;
	/* flmem_glibc_number_parse() has already taken every number of at most 32 bits. */
	return length > (base == 16 ? 8U : 9U);
}

bool flmem_glibc_tunable_is_boundless(const char *tunables, const char *name)
{
	const char *entry = tunables ? find_tunable(tunables, tunables, name) : NULL;

	while (entry && !is_boundless(entry))
		entry = find_tunable(tunables, entry, name);
	return entry;
}

/* 1: madvise(); the tunable exists since 2.35. Without it, only 2.43 on AArch64 uses huge pages. */
bool flmem_glibc_asks_for_huge_pages(const char *version, const char *tunables, bool aarch64)
{
	static const struct flmem_version_number first = FLMEM_VERSION_NUMBER(2, 35, 0),
						 by_default = FLMEM_VERSION_NUMBER(2, 43, 0);
	struct flmem_version_number release;
	uint64_t mode;

	if (!version || flmem_version_number_parse(version, &release, NULL) ||
	    flmem_version_number_compare(&release, &first) < 0)
		return false;
	if (flmem_glibc_tunable_find(tunables, HUGETLB, 0, &mode))
		return mode == 1;
	return aarch64 && flmem_version_number_compare(&release, &by_default) >= 0;
}
