/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define WORD_MAX 63

bool flmem_text_starts(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool flmem_text_ends(const char *text, const char *suffix)
{
	size_t length = strlen(text), tail = strlen(suffix);

	return length >= tail && strcmp(text + length - tail, suffix) == 0;
}

bool flmem_text_is_one_of(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (strcmp(text, *words) == 0)
			return true;
	return false;
}

const char *flmem_text_basename(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/*
 * Returns the length of the well-formed UTF-8 sequence at `p`, or 0 (RFC 3629: no overlongs, no
 * surrogates).
 */
static size_t measure_utf8(const unsigned char *p)
{
	static const struct {
		unsigned char first_min, first_max, second_min, second_max;
		size_t length;
	} rows[] = {
		{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
		{0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
		{0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
		{0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (p[0] < rows[i].first_min || p[0] > rows[i].first_max)
			continue;
		if (p[1] < rows[i].second_min || p[1] > rows[i].second_max)
			return 0;
		for (size_t k = 2; k < rows[i].length; k++)
			if (p[k] < 0x80 || p[k] > 0xbf)
				return 0;
		return rows[i].length;
	}
	return 0;
}

/* Finds the end of the well-formed part of a text, which ends in a NUL. */
static const char *find_utf8_end(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;

	while (*p) {
		size_t length = *p < 0x80 ? 1 : measure_utf8(p);

		if (!length)
			break;
		p += length;
	}
	return (const char *)p;
}

bool flmem_text_is_utf8(const char *text)
{
	return !*find_utf8_end(text);
}

/* Reports whether a well-formed sequence is a noncharacter. */
static bool is_noncharacter(const unsigned char *p, size_t length)
{
	const unsigned char *end = p + length - 2;

	if (length < 3)
		return false;
	if (length == 3 && p[0] == 0xef && p[1] == 0xb7)
		return p[2] >= 0x90 && p[2] <= 0xaf;
	return end[0] == 0xbf && end[1] >= 0xbe && (length == 3 ? p[0] == 0xef : (p[1] & 15) == 15);
}

bool flmem_text_is_assigned_utf8(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;

	while (*p) {
		size_t length = *p < 0x80 ? 1 : measure_utf8(p);

		if (!length || is_noncharacter(p, length))
			return false;
		p += length;
	}
	return true;
}

size_t flmem_text_utf8_length(const char *text)
{
	return (size_t)(find_utf8_end(text) - text);
}

/*
 * True for C1 controls (U+0080..U+009F), which terminals obey, for separators of lines, and for
 * characters that turn the direction of the text after them (U+2028..U+202E, U+2066..U+2069), so
 * that it reads as another text (Unicode Standard Annex 9, CVE-2021-42574).
 */
static bool is_control(const unsigned char *p)
{
	if (p[0] == 0xc2)
		return p[1] < 0xa0;
	return p[0] == 0xe2 && ((p[1] == 0x80 && p[2] >= 0xa8 && p[2] <= 0xae) ||
				(p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9));
}

/* Returns the length of one printable character. */
static size_t measure_printable(const unsigned char *p)
{
	if (*p < 0x80)
		return *p >= 0x20 && *p < 0x7f ? 1 : 0;
	return is_control(p) ? 0 : measure_utf8(p);
}

char *flmem_text_escape(const char *text, char *out, size_t size)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t used = 0, safe = 0;

	if (!size)
		return out;
	while (*p) {
		char piece[8];
		size_t length = measure_printable(p);
		size_t step = length ? length : 1;

		if (length)
			memcpy(piece, p, length);
		else
			length = (size_t)snprintf(piece, sizeof(piece), "\\x%02x", *p);
		if (used + length >= size) {
			/* `safe` is the last character boundary that leaves room for the dots. */
			snprintf(out + safe, size - safe, "%.*s", (int)(size - safe - 1), "...");
			return out;
		}
		memcpy(out + used, piece, length);
		used += length;
		if (used + 3 < size)
			safe = used;
		p += step;
	}
	out[used] = '\0';
	return out;
}

bool flmem_text_read_digits(const char **text, uint64_t *ret_value)
{
	const char *p = *text;
	uint64_t value = 0;

	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(value, 10U, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
			return false;
	*text = p;
	*ret_value = value;
	return true;
}

static size_t find_least_of_three(size_t a, size_t b, size_t c)
{
	size_t least = a < b ? a : b;

	return least < c ? least : c;
}

size_t flmem_text_distance(const char *a, const char *b)
{
	size_t row[WORD_MAX + 1], length = strnlen(b, WORD_MAX);

	for (size_t j = 0; j <= length; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= length; j++) {
			size_t above = row[j];

			row[j] = find_least_of_three(above + 1, row[j - 1] + 1,
						     diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
		}
	}
	return row[length];
}
