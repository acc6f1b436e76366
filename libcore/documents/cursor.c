/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/build.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/text/hex.h"
#include "base/text/json_escape.h"

#define REPLACEMENT 0xfffdU

void flmem_cursor_step(struct flmem_cursor *cursor, size_t count)
{
	for (; count; count--) {
		if (cursor->text[cursor->at++] == '\n') {
			cursor->line++;
			cursor->line_start = cursor->at;
		}
	}
}

struct flmem_place flmem_cursor_place(const struct flmem_cursor *cursor)
{
	return (struct flmem_place){
		.start = cursor->at,
		.end = cursor->at,
		.line = cursor->line,
		.column = (unsigned)(cursor->at - cursor->line_start + 1),
	};
}

int flmem_cursor_fail_at(struct flmem_cursor *cursor, const struct flmem_place *place,
			 const char *text)
{
	cursor->document->bad_line = place->line;
	cursor->code =
		flmem_error_set(cursor->err, FLMEM_EUSAGE, 0, "column %u: %s", place->column, text);
	return cursor->code;
}

int flmem_cursor_fail(struct flmem_cursor *cursor, const char *text)
{
	struct flmem_place here = flmem_cursor_place(cursor);

	return flmem_cursor_fail_at(cursor, &here, text);
}

int flmem_cursor_open(struct flmem_cursor *cursor, struct flmem_node *node, unsigned depth_max)
{
	node->kind = flmem_cursor_peek(cursor) == '{' ? FLMEM_NODE_MAP : FLMEM_NODE_LIST;
	if (cursor->depth >= depth_max)
		return flmem_cursor_fail(cursor, "nested too deep for a configuration");
	cursor->depth++;
	flmem_cursor_step(cursor, 1);
	return 0;
}

/*
 * Returns the character of \uXXXX or of a surrogate pair, 0 if it has no digits; *step: the length.
 */
static unsigned unicode_escape(const char *p, size_t *step)
{
	int unit = flmem_hex_read4(p + 2), low;

	*step = 6;
	if (unit < 0)
		return 0;
	if (unit >= 0xd800 && unit < 0xdc00 && p[6] == '\\' && p[7] == 'u') {
		low = flmem_hex_read4(p + 8);
		if (low >= 0xdc00 && low < 0xe000) {
			*step = 12;
			return flmem_json_escape_pair(unit, low);
		}
	}
	return !unit || (unit >= 0xd800 && unit < 0xe000) ? REPLACEMENT : (unsigned)unit;
}

/* Reads one escape at the cursor. Returns false if JSON has no such escape. */
static bool read_cursor_escape(struct flmem_cursor *cursor, char **out)
{
	const char *p = cursor->text + cursor->at;
	char value = flmem_json_escape(p[1]);
	unsigned point;
	size_t step;

	if (value) {
		*(*out)++ = value;
		flmem_cursor_step(cursor, 2);
		return true;
	}
	if (p[1] != 'u')
		return false;
	point = unicode_escape(p, &step);
	if (!point)
		return false;
	*out = flmem_json_escape_put(*out, point);
	flmem_cursor_step(cursor, step);
	return true;
}

/* Bytes up to the closing quote. The decoded text is never longer. */
static size_t quoted_length(const struct flmem_cursor *cursor)
{
	const char *start = cursor->text + cursor->at, *p = start + 1;

	while (*p && *p != '"' && *p != '\n')
		p += *p == '\\' && p[1] ? 2 : 1;
	return (size_t)(p - start);
}

int flmem_cursor_quoted(struct flmem_cursor *cursor, const char **ret_text)
{
	char *text = flmem_cursor_keep(cursor, cursor->text + cursor->at, quoted_length(cursor));
	char *out;

	if (!text)
		return cursor->code;
	out = text;
	flmem_cursor_step(cursor, 1);
	for (;;) {
		char c = flmem_cursor_peek(cursor);

		if (c == '"')
			break;
		if ((unsigned char)c < 0x20)
			return flmem_cursor_fail(cursor, c ? "a control character in a string"
							   : "unterminated string");
		if (c == '\\') {
			if (!read_cursor_escape(cursor, &out))
				return flmem_cursor_fail(cursor,
							 "invalid escape: JSON does not have it");
			continue;
		}
		*out++ = c;
		flmem_cursor_step(cursor, 1);
	}
	*out = '\0';
	flmem_cursor_step(cursor, 1);
	*ret_text = text;
	return 0;
}

int flmem_cursor_triple(struct flmem_cursor *cursor, const char **ret_text)
{
	const char *start = cursor->text + cursor->at + 3, *end;
	const char quotes[] = {start[-1], start[-1], start[-1], '\0'};
	char *text;

	end = strstr(start, quotes);
	if (!end)
		return flmem_cursor_fail(cursor, "unterminated string");
	while (end[3] == quotes[0])
		end++;
	text = flmem_cursor_keep(cursor, start, (size_t)(end - start));
	if (!text)
		return cursor->code;
	flmem_cursor_step(cursor, (size_t)(end - start) + 6);
	*ret_text = text;
	return 0;
}

static size_t count_digits(const char *text, size_t length)
{
	size_t count = 0;

	while (count < length && text[count] >= '0' && text[count] <= '9')
		count++;
	return count;
}

enum flmem_node_kind flmem_number_kind(const char *text, size_t length)
{
	enum flmem_node_kind kind = FLMEM_NODE_INTEGER;
	size_t at = length && text[0] == '-', count = count_digits(text + at, length - at);

	if (!count || (count > 1 && text[at] == '0'))
		return FLMEM_NODE_STRING;
	at += count;
	if (at < length && text[at] == '.') {
		count = count_digits(text + at + 1, length - at - 1);
		if (!count)
			return FLMEM_NODE_STRING;
		at += count + 1;
		kind = FLMEM_NODE_REAL;
	}
	if (at < length && (text[at] == 'e' || text[at] == 'E')) {
		at++;
		at += at < length && (text[at] == '+' || text[at] == '-');
		count = count_digits(text + at, length - at);
		if (!count)
			return FLMEM_NODE_STRING;
		at += count;
		kind = FLMEM_NODE_REAL;
	}
	return at == length ? kind : FLMEM_NODE_STRING;
}

/* Base of a number by the letter of its prefix, in upper or lower case. */
static unsigned letter_base_of(char letter)
{
	switch (letter | 0x20) {
	case 'x':
		return 16;
	case 'o':
		return 8;
	default:
		return 2;
	}
}

/* Base of "0x1f" and the like, 0 for other words; `letters` as in flmem_number_in_base(). */
static unsigned number_base_of(const char *text, const char *letters, size_t *ret_prefix)
{
	char letter = *text == '0' ? text[1] : '\0';

	*ret_prefix = 2;
	if (!letter)
		return 0;
	if (letter > '9' && strchr(letters, letter))
		return letter_base_of(letter);
	*ret_prefix = 1;
	return strchr(letters, '0') ? 8 : 0;
}

static unsigned number_digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : UINT_MAX;
}

const char *flmem_number_in_base(struct flmem_cursor *cursor, const char *text, const char *letters)
{
	char decimal[24];
	bool negative = *text == '-';
	const char *at = text + negative;
	size_t prefix;
	unsigned base = number_base_of(at, letters, &prefix), digit;
	uint64_t value = 0;

	if (!base || !at[prefix])
		return NULL;
	for (at += prefix; *at; at++) {
		if (*at == '_')
			continue;
		digit = number_digit_of(*at);
		if (digit >= base || value > ((uint64_t)INT64_MAX - digit) / base)
			return NULL;
		value = value * base + digit;
	}
	snprintf(decimal, sizeof(decimal), "%s%" PRIu64, negative && value ? "-" : "", value);
	return flmem_cursor_keep(cursor, decimal, strlen(decimal));
}
