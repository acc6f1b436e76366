/* SPDX-License-Identifier: Apache-2.0 */
/* Reads strings, numbers, truth values, dates and times of TOML 1.1, as strictly as tomli does. */
#include "documents/toml.h"

#include <ctype.h>
#include <string.h>

#include "base/text/json_escape.h"

#define UNICODE_MAX 0x10ffffU
#define REPLACEMENT 0xfffdU /* replaces NUL, which would end the text */

/* A string of TOML as it is written. */
struct toml_string {
	char quote;
	bool lines;	 /* between three quotes: it may have several lines */
	const char *end; /* end of the text between the quotes */
};

static bool is_closing(const struct toml_string *string, const char *p)
{
	return *p == string->quote &&
	       (!string->lines || (p[1] == string->quote && p[2] == string->quote));
}

/* Finds the end of a string. Up to two quotes before the three closing ones belong to the text. */
static bool find_toml_end(struct toml_string *string, const char *p)
{
	while (*p && !is_closing(string, p)) {
		if (*p == '\n' && !string->lines)
			return false;
		p += *p == '\\' && string->quote == '"' && p[1] ? 2 : 1;
	}
	if (!*p)
		return false;
	for (int more = 0; string->lines && more < 2 && p[3] == string->quote; more++)
		p++;
	string->end = p;
	return true;
}

static size_t hex_length_of(char letter)
{
	switch (letter) {
	case 'x':
		return 2;
	case 'u':
		return 4;
	case 'U':
		return 8;
	default:
		return 0;
	}
}

static uint32_t hex_value_of(char digit)
{
	return digit <= '9' ? (uint32_t)(digit - '0') : (uint32_t)(digit | 0x20) - 'a' + 10;
}

/* Reads the character of \xHH, \uHHHH or \UHHHHHHHH. */
static int read_code_point(struct flmem_cursor *cursor, char **out)
{
	const char *p = cursor->text + cursor->at + 1;
	size_t length = hex_length_of(*p);
	uint32_t point = 0;

	for (size_t i = 0; i < length; i++) {
		if (!isxdigit((unsigned char)p[1 + i]))
			return flmem_cursor_fail(cursor,
						 "invalid escape: too few hexadecimal digits");
		point = point << 4 | hex_value_of(p[1 + i]);
	}
	if (point > UNICODE_MAX || (point >= 0xd800 && point < 0xe000))
		return flmem_cursor_fail(cursor, "invalid escape: Unicode has no such character");
	*out = flmem_json_escape_put(*out, point ? point : REPLACEMENT);
	flmem_cursor_step(cursor, length + 2);
	return 0;
}

/*
 * Skips a backslash at a line end, with the blanks and line ends after it. A string within a line
 * cannot have one, as it ends with the line.
 */
static int join_lines(struct flmem_cursor *cursor)
{
	const char *p = cursor->text + cursor->at + 1;
	size_t blanks = strspn(p, " \t\r");

	if (p[blanks] != '\n')
		return flmem_cursor_fail(cursor, "invalid escape: TOML does not have it");
	flmem_cursor_step(cursor, 1 + strspn(p, " \t\r\n"));
	return 0;
}

static int read_toml_escape(struct flmem_cursor *cursor, char **out)
{
	static const char names[] = "btnfre\"\\", values[] = "\b\t\n\f\r\033\"\\";
	char name = cursor->text[cursor->at + 1];
	const char *known = strchr(names, name);

	if (known) {
		*(*out)++ = values[known - names];
		flmem_cursor_step(cursor, 2);
		return 0;
	}
	if (hex_length_of(name))
		return read_code_point(cursor, out);
	return join_lines(cursor);
}

/* Decodes the text between the quotes; it is never longer than what is written. */
static int decode_toml_string(struct flmem_cursor *cursor, const struct toml_string *string,
			      char *out)
{
	while (cursor->text + cursor->at < string->end) {
		char c = flmem_cursor_peek(cursor);

		if (c == '\\' && string->quote == '"') {
			int rc = read_toml_escape(cursor, &out);

			if (rc)
				return rc;
			continue;
		}
		if (c != '\r') /* a carriage return is part of the line end after it */
			*out++ = c;
		flmem_cursor_step(cursor, 1);
	}
	*out = '\0';
	return 0;
}

int flmem_toml_string(struct flmem_cursor *cursor, bool in_line, const char **ret_text)
{
	const char *start = cursor->text + cursor->at;
	struct toml_string string = {.quote = *start};
	size_t quotes;
	char *text;
	int rc;

	string.lines = !in_line && start[1] == *start && start[2] == *start;
	quotes = string.lines ? 3 : 1;
	if (!find_toml_end(&string, start + quotes))
		return flmem_cursor_fail(cursor, "unterminated string");
	text = flmem_cursor_keep(cursor, start, (size_t)(string.end - start));
	if (!text)
		return cursor->code;
	flmem_cursor_step(cursor, quotes);
	if (string.lines) /* a line end right after the first quotes does not count */
		flmem_cursor_step(cursor, flmem_cursor_looks_at(cursor, "\r\n") ? 2
					  : flmem_cursor_peek(cursor) == '\n'	? 1
										: 0);
	rc = decode_toml_string(cursor, &string, text);
	if (rc)
		return rc;
	flmem_cursor_step(cursor, quotes);
	*ret_text = text;
	return 0;
}

static bool is_toml_digit(char c, unsigned base)
{
	return base == 16 ? isxdigit((unsigned char)c) : c >= '0' && c < (char)('0' + base);
}

/* Length of digits, with single underscores between them. */
static size_t span_digits(const char *text, unsigned base)
{
	size_t length = 0;

	while (is_toml_digit(text[length], base) ||
	       (length && text[length] == '_' && text[length - 1] != '_' &&
		is_toml_digit(text[length + 1], base)))
		length++;
	return length;
}

/* Whether a word is +1_000, -2.5 or 1e6. No digit may follow a leading zero. */
static bool is_decimal(const char *text)
{
	const char *p = text + (*text == '+' || *text == '-');
	size_t length = span_digits(p, 10);

	if (!length || (*p == '0' && length > 1))
		return false;
	p += length;
	if (*p == '.') {
		length = span_digits(p + 1, 10);
		if (!length)
			return false;
		p += length + 1;
	}
	if (*p == 'e' || *p == 'E') {
		p += p[1] == '+' || p[1] == '-' ? 2 : 1;
		length = span_digits(p, 10);
		if (!length)
			return false;
		p += length;
	}
	return !*p;
}

/* Whether a word is 0x1f, 0o17 or 0b11, without a sign. */
static bool is_in_other_base(const char *text)
{
	const char *letter = *text == '0' && text[1] ? strchr("xob", text[1]) : NULL;
	unsigned base;
	size_t length;

	if (!letter)
		return false;
	base = *letter == 'x' ? 16 : *letter == 'o' ? 8 : 2;
	length = span_digits(text + 2, base);
	return length && !text[2 + length];
}

/* Whether a word is inf or nan, with or without a sign. */
static bool is_inf_or_nan(const char *text)
{
	text += *text == '+' || *text == '-';
	return strcmp(text, "inf") == 0 || strcmp(text, "nan") == 0;
}

/* Reads two or four digits with a value within [low, high], and advances past them. */
static bool read_date_part(const char **p, size_t count, unsigned low, unsigned high,
			   unsigned *ret_value)
{
	unsigned value = 0;

	for (size_t i = 0; i < count; i++, (*p)++) {
		if (!is_toml_digit(**p, 10))
			return false;
		value = value * 10 + (unsigned)(**p - '0');
	}
	*ret_value = value;
	return value >= low && value <= high;
}

static unsigned days_of(unsigned year, unsigned month)
{
	static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return month == 2 && leap ? 29 : days[month - 1];
}

/* Reads 1979-05-27. */
static bool read_date(const char **p)
{
	unsigned year, month, day;

	return read_date_part(p, 4, 1, 9999, &year) && *(*p)++ == '-' &&
	       read_date_part(p, 2, 1, 12, &month) && *(*p)++ == '-' &&
	       read_date_part(p, 2, 1, days_of(year, month), &day);
}

/* Reads 07:32, 07:32:00 or 07:32:00.5. */
static bool read_time(const char **p)
{
	unsigned value;
	size_t digits;

	if (!read_date_part(p, 2, 0, 23, &value) || *(*p)++ != ':' ||
	    !read_date_part(p, 2, 0, 59, &value))
		return false;
	if (**p != ':')
		return true;
	(*p)++;
	if (!read_date_part(p, 2, 0, 59, &value))
		return false;
	if (**p != '.')
		return true;
	digits = strspn(*p + 1, "0123456789");
	*p += digits + 1;
	return digits > 0;
}

/* Reads Z, +01:00, or nothing. */
static bool read_zone(const char **p)
{
	unsigned value;

	if (**p == 'Z' || **p == 'z') {
		(*p)++;
		return true;
	}
	if (**p != '+' && **p != '-')
		return true;
	(*p)++;
	return read_date_part(p, 2, 0, 23, &value) && *(*p)++ == ':' &&
	       read_date_part(p, 2, 0, 59, &value);
}

static bool is_date_or_time(const char *text)
{
	const char *p = text;

	if (text[0] && text[1] && text[2] == ':')
		return read_time(&p) && !*p;
	if (!read_date(&p))
		return false;
	if (!*p)
		return true;
	return strchr("Tt ", *p++) && read_time(&p) && read_zone(&p) && !*p;
}

/* Length of a word; a space may be between a date and a time. */
static size_t toml_word_length(const char *start)
{
	static const char ends[] = " \t\r\n,]}#=";
	size_t length = strcspn(start, ends);
	const char *date = start;

	if (length == strlen("1979-05-27") && start[length] == ' ' && read_date(&date) &&
	    is_toml_digit(start[length + 1], 10))
		length += 1 + strcspn(start + length + 1, ends);
	return length;
}

/* Keeps the digits of a number: decimal, without underscores and a plus. */
static int keep_number(struct flmem_cursor *cursor, struct flmem_node *node, char *word)
{
	char *out = word;
	const char *number;

	for (const char *p = word + (*word == '+'); *p; p++)
		if (*p != '_')
			*out++ = *p;
	*out = '\0';
	number = flmem_number_in_base(cursor, word, "xob");
	if (cursor->code)
		return cursor->code;
	node->text = number ? number : word;
	node->kind = number ? FLMEM_NODE_INTEGER : flmem_number_kind(word, strlen(word));
	return 0;
}

int flmem_toml_word(struct flmem_cursor *cursor, struct flmem_node *node)
{
	const char *start = cursor->text + cursor->at;
	size_t length = toml_word_length(start);
	char *word = flmem_cursor_keep(cursor, start, length);
	int rc = 0;

	if (!word)
		return cursor->code;
	node->text = word;
	if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0)
		node->kind = FLMEM_NODE_BOOL;
	else if (is_inf_or_nan(word))
		node->kind = FLMEM_NODE_REAL;
	else if (is_date_or_time(word))
		node->kind = FLMEM_NODE_STRING;
	else if (is_decimal(word) || is_in_other_base(word))
		rc = keep_number(cursor, node, word);
	else
		return flmem_cursor_fail(cursor,
					 *start ? "expected a value"
						: "expected a value before the end of the text");
	flmem_cursor_step(cursor, length);
	return rc;
}
