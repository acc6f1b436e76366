/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/version_number.h"

#include <stdbool.h>
#include <string.h>

#include <flmem/parse.h>

#define DIGITS "0123456789"

static bool read_version_part(const char *text, size_t length, unsigned *ret_part)
{
	char digits[8];
	uint64_t value;

	if (!length || length >= sizeof(digits))
		return false;
	memcpy(digits, text, length);
	digits[length] = '\0';
	if (flmem_parse_u64(digits, 0, 9999999, &value, NULL))
		return false;
	*ret_part = (unsigned)value;
	return true;
}

int flmem_version_number_parse(const char *text, struct flmem_version_number *ret_release,
			       struct flmem_error *err)
{
	struct flmem_version_number release = {0};
	const char *p = text;

	while (release.count < FLMEM_VERSION_NUMBER_PARTS) {
		size_t length = strspn(p, DIGITS);

		if (!read_version_part(p, length, &release.parts[release.count]))
			break;
		release.count++;
		p += length;
		if (*p != '.')
			break;
		p++;
	}
	if (!release.count || (*p && !strchr("abcdefghijklmnopqrstuvwxyz.+-" DIGITS, *p)))
		return flmem_parse_invalid(FLMEM_VALUE_VERSION, text, NULL, err);
	*ret_release = release;
	return 0;
}

/* Whether all numbers were read, up to the most that are: those of "2.9.0rc1" and "2.9.0.0" are. */
static bool is_whole_version(const char *text, unsigned count)
{
	static const char bytes[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.+-" DIGITS;
	size_t length = strlen(text), numbers = strspn(text, DIGITS ".");
	unsigned parts = 1;

	if (strspn(text, bytes) != length || strstr(text, "..") || strchr("._+-", text[length - 1]))
		return false;
	for (size_t i = 0; i + 1 < numbers; i++)
		parts += text[i] == '.';
	return count == (parts < FLMEM_VERSION_NUMBER_PARTS ? parts : FLMEM_VERSION_NUMBER_PARTS);
}

int flmem_version_number_option(const char *text, struct flmem_version_number *ret_release,
				struct flmem_error *err)
{
	struct flmem_version_number release;
	int rc = flmem_version_number_parse(text, &release, err);

	if (rc)
		return rc;
	if (!is_whole_version(text, release.count))
		return flmem_parse_invalid(FLMEM_VALUE_VERSION, text, NULL, err);
	*ret_release = release;
	return 0;
}

int flmem_version_number_compare(const struct flmem_version_number *a,
				 const struct flmem_version_number *b)
{
	for (unsigned i = 0; i < a->count && i < b->count; i++)
		if (a->parts[i] != b->parts[i])
			return a->parts[i] < b->parts[i] ? -1 : 1;
	return 0;
}
