/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/text.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

char *flmem_text_bytes(uint64_t bytes, char *out, size_t size)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double number = (double)bytes;
	size_t unit = 0;

	/* A larger number is scaled further: with four digits 1023.5 would be printed as 1024. */
	while (number >= 1023.5) {
		number /= 1024;
		unit++;
	}
	snprintf(out, size, number < 999.5 ? "%.3g %s" : "%.4g %s", number, units[unit]);
	return out;
}

char *flmem_text_span(uint64_t seconds, char *out, size_t size)
{
	if (seconds < 120)
		snprintf(out, size, "%u s", (unsigned)seconds);
	else if (seconds < 7200)
		snprintf(out, size, "%.3g min", (double)seconds / 60);
	else if (seconds < 2 * 86400)
		snprintf(out, size, "%.3g h", (double)seconds / 3600);
	else
		snprintf(out, size, "%.3g days", (double)seconds / 86400);
	return out;
}

static bool ends_in(const char *noun, size_t length, const char *end)
{
	size_t own = strlen(end);

	return length > own && strcmp(noun + length - own, end) == 0;
}

char *flmem_text_counted(uint64_t count, const char *noun, char *out, size_t size)
{
	size_t length = strlen(noun);
	bool hisses = ends_in(noun, length, "s") || ends_in(noun, length, "x") ||
		      ends_in(noun, length, "ch") || ends_in(noun, length, "sh");
	bool turns = ends_in(noun, length, "y") && !strchr("aeiou", noun[length - 2]);

	if (count == 1)
		snprintf(out, size, "1 %s", noun);
	else if (turns)
		snprintf(out, size, "%" PRIu64 " %.*sies", count, (int)length - 1, noun);
	else
		snprintf(out, size, "%" PRIu64 " %s%s", count, noun, hisses ? "es" : "s");
	return out;
}
