/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/python_values.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"

/* Words that are searched; keeps the time in proportion to the length of the text. */
#define AHEAD_MAX 256

static bool is_name_byte(char c)
{
	return c == '_' || c == '.' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
	       (c >= 'a' && c <= 'z') || (unsigned char)c >= 0x80;
}

/* Also an end of line, which a backslash joins within a statement. */
static size_t blanks_before(const char *text, size_t at)
{
	while (at && text[at - 1] && strchr(" \t\r\n\\", text[at - 1]))
		at--;
	return at;
}

/* The last "=" of "a = b = value". */
static bool is_second_equals(const struct flmem_python_word *equals)
{
	const char *text = equals->text - equals->place.start;
	size_t end = blanks_before(text, equals->place.start), at = end;

	while (at && is_name_byte(text[at - 1]))
		at--;
	if (at == end)
		return false;
	at = blanks_before(text, at);
	return at > 1 && text[at - 1] == '=' && !strchr("=<>!:", text[at - 2]);
}

/* Whether the line of an "=" is "type NAME = value", whose value is an attribute of the name. */
static bool is_type_equals(const struct flmem_python_word *equals)
{
	const char *at = equals->text - (equals->place.column - 1);

	at += strspn(at, " \t");
	return strncmp(at, "type", 4) == 0 && strchr(" \t", at[4]) && at + 5 < equals->text;
}

bool flmem_python_is_value(const struct flmem_python_reader *reader,
			   const struct flmem_python_word *before, char bracket)
{
	static const char *const before_values[] = {"return", "else", "yield",
						    "or",     "and",  "match"};
	bool outer = !reader->python.brackets && flmem_python_ends(&reader->word);

	if (flmem_python_is(before, "="))
		/* A whole assignment makes another name for it. */
		return bracket || !outer || is_second_equals(before) || is_type_equals(before);
	if (flmem_python_is(before, ":"))
		return bracket == '{';
	if (flmem_python_is(before, "in")) /* for NAME in a, b: */
		return !bracket && flmem_python_is(&reader->word, ",");
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(before_values); i++)
		if (flmem_python_is(before, before_values[i]))
			return true;
	if (flmem_python_is(before, ","))
		return !bracket || strchr("([{", bracket);
	return bracket && strchr("([{", bracket) &&
	       (flmem_python_is(before, "(") || flmem_python_is(before, "[") ||
		flmem_python_is(before, "{"));
}

size_t flmem_python_lambda_colon(const struct flmem_python_reader *reader)
{
	struct flmem_python_reader ahead = *reader;
	int brackets = reader->python.brackets;

	for (size_t i = 0; i < AHEAD_MAX && !flmem_python_ends(&ahead.word); i++) {
		if (ahead.python.brackets <= brackets && flmem_python_is(&ahead.word, ":"))
			return ahead.word.place.start;
		flmem_python_advance(&ahead);
	}
	return SIZE_MAX;
}

size_t flmem_python_item_equals(const struct flmem_python_reader *reader)
{
	struct flmem_python_reader ahead = *reader;
	size_t i;

	for (i = 0; i < AHEAD_MAX && ahead.python.brackets; i++) {
		if (flmem_python_ends(&ahead.word))
			return SIZE_MAX;
		flmem_python_advance(&ahead);
	}
	flmem_python_advance(&ahead); /* over the "]" */
	return flmem_python_is(&ahead.word, "=") ? ahead.word.place.start : SIZE_MAX;
}

bool flmem_python_is_dictionary_call(struct flmem_python_reader reader)
{
	return flmem_python_accept(&reader, "dict") && flmem_python_is(&reader.word, "(");
}

bool flmem_python_is_map(struct flmem_python_reader reader)
{
	if (!flmem_python_accept(&reader, "{"))
		return false;
	if (flmem_python_is(&reader.word, "}"))
		return true;
	if (flmem_python_accept(&reader, "*"))
		return flmem_python_is(&reader.word, "*");
	if (reader.word.kind != FLMEM_PYTHON_STRING)
		return false;
	flmem_python_advance(&reader);
	return flmem_python_is(&reader.word, ":");
}

bool flmem_python_is_generic(const struct flmem_python_word *word)
{
	static const char *const names[] = {
		"Optional", "Union",	"List",	    "Type", "Dict",  "Tuple", "Set",  "Any",
		"Callable", "Iterable", "Sequence", "list", "tuple", "type",  "dict", NULL};

	return flmem_python_is_any(word, names);
}

bool flmem_python_is_type_test(const char *name)
{
	static const char *const names[] = {"isinstance", "issubclass", "cast", NULL};

	return flmem_text_is_one_of(name, names);
}
