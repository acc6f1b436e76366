/* SPDX-License-Identifier: Apache-2.0 */
#include "model/json_scan.h"

#include <string.h>

#include "base/text/hex.h"
#include "base/text/json_escape.h"
#include "base/text/text.h"

void flmem_json_scan_begin(struct flmem_json_scan *scan, char *text, size_t length)
{
	*scan = (struct flmem_json_scan){.at = text, .end = text + length};
}

static bool scan_fail(struct flmem_json_scan *scan, const char *why)
{
	scan->why = why;
	return false;
}

static char next_character(struct flmem_json_scan *scan)
{
	scan->at += strspn(scan->at, " \t\r\n");
	return *scan->at;
}

bool flmem_json_scan_take(struct flmem_json_scan *scan, char c)
{
	if (next_character(scan) != c)
		return false;
	scan->at++;
	return true;
}

bool flmem_json_scan_expect(struct flmem_json_scan *scan, char c)
{
	if (flmem_json_scan_take(scan, c))
		return true;
	return scan_fail(scan, *scan->at ? "has an unexpected character" : "ends too early");
}

bool flmem_json_scan_ends(struct flmem_json_scan *scan)
{
	return next_character(scan) == '\0' || scan_fail(scan, "has text after its object");
}

/* Reads \uXXXX, or two of them for a character above U+FFFF; `at` is after the 'u'. */
static bool read_unicode(struct flmem_json_scan *scan, char **out)
{
	int unit = flmem_hex_read4(scan->at), low;
	uint32_t c = (uint32_t)unit;

	if (unit <= 0)
		return scan_fail(scan, "has an invalid escape in a string");
	scan->at += 4;
	if (unit >= 0xd800 && unit < 0xe000) {
		low = scan->at[0] == '\\' && scan->at[1] == 'u' ? flmem_hex_read4(scan->at + 2)
								: -1;
		if (unit >= 0xdc00 || low < 0xdc00 || low >= 0xe000)
			return scan_fail(scan, "has half a surrogate pair in a string");
		scan->at += 6;
		c = flmem_json_escape_pair(unit, low);
	}
	*out = flmem_json_escape_put(*out, c);
	return true;
}

static bool read_scan_escape(struct flmem_json_scan *scan, char **out)
{
	char c = *scan->at, value = flmem_json_escape(c);

	if (c)
		scan->at++;
	if (c == 'u')
		return read_unicode(scan, out);
	if (!value)
		return scan_fail(scan, "has an invalid escape in a string");
	*(*out)++ = value;
	return true;
}

bool flmem_json_scan_string(struct flmem_json_scan *scan, const char **ret_string)
{
	char *start, *out;

	if (!flmem_json_scan_expect(scan, '"'))
		return false;
	start = out = scan->at; /* a decoded character is never longer than its escape */
	while (*scan->at != '"') {
		if ((unsigned char)*scan->at < 0x20)
			return scan_fail(scan, *scan->at ? "has a control character in a string"
							 : "ends in a string");
		if (*scan->at != '\\')
			*out++ = *scan->at++;
		else if (scan->at++, !read_scan_escape(scan, &out))
			return false;
	}
	scan->at++;
	*out = '\0';
	*ret_string = start;
	return true;
}

bool flmem_json_scan_number(struct flmem_json_scan *scan, uint64_t *ret_number)
{
	const char *text;
	bool zero = next_character(scan) == '0';
	uint64_t value;

	text = scan->at;
	if (!flmem_text_read_digits(&text, &value))
		return scan_fail(scan, "lacks a whole number of 64 bits");
	if (*text && strchr(".eE", *text))
		return scan_fail(scan, "has a fraction instead of a whole number");
	if (zero && text != scan->at + 1)
		return scan_fail(scan, "has a number with leading zeros");
	scan->at += text - scan->at;
	*ret_number = value;
	return true;
}

static bool skip_number(struct flmem_json_scan *scan)
{
	size_t length = strspn(scan->at, "+-.0123456789eE");

	scan->at += length;
	return length || scan_fail(scan, "has an unexpected character");
}

static bool skip_word(struct flmem_json_scan *scan)
{
	static const char *const words[] = {"true", "false", "null"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (flmem_text_starts(scan->at, words[i])) {
			scan->at += strlen(words[i]);
			return true;
		}
	return skip_number(scan);
}

/* Opens lists and objects; *ret_open is set if one was opened that is not empty. */
static bool skip_start(struct flmem_json_scan *scan, char *closers, unsigned *depth, bool *ret_open)
{
	const char *string;
	char c = next_character(scan);

	*ret_open = false;
	if (c == '"')
		return flmem_json_scan_string(scan, &string);
	if (c != '[' && c != '{')
		return skip_word(scan);
	if (*depth == FLMEM_JSON_DEPTH_MAX)
		return scan_fail(scan, "is nested too deep");
	scan->at++;
	closers[*depth] = c == '[' ? ']' : '}';
	if (flmem_json_scan_take(scan, closers[*depth]))
		return true;
	++*depth;
	*ret_open = true;
	return true;
}

bool flmem_json_scan_skip(struct flmem_json_scan *scan)
{
	char closers[FLMEM_JSON_DEPTH_MAX];
	unsigned depth = 0;
	const char *key;
	bool opened;

	do {
		if (depth && closers[depth - 1] == '}' &&
		    (!flmem_json_scan_string(scan, &key) || !flmem_json_scan_expect(scan, ':')))
			return false;
		if (!skip_start(scan, closers, &depth, &opened))
			return false;
		if (opened)
			continue;
		while (depth && !flmem_json_scan_take(scan, ',')) {
			if (!flmem_json_scan_expect(scan, closers[depth - 1]))
				return false;
			depth--;
		}
	} while (depth);
	return true;
}
