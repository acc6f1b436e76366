/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/python_fields.h"

#include <string.h>

#include "documents/python/python_nodes.h"

bool flmem_python_has_fields(const struct flmem_python_word *string)
{
	size_t prefix = string->kind == FLMEM_PYTHON_STRING ? strcspn(string->text, "\"'") : 0;

	for (size_t i = 0; i < prefix; i++)
		if (strchr("fFtT", string->text[i]))
			return true;
	return false;
}

/* Offset after the string whose first quote is at `at` within a field. */
static size_t skip_quoted(const char *text, size_t at, size_t end)
{
	const char *quote = memchr(text + at + 1, text[at], end - at - 1);

	return quote ? (size_t)(quote - text) : end;
}

/* Offset of the "}" that ends a field whose "{" is at `at`; `end` if there is none. */
static size_t field_end(const char *text, size_t at, size_t end)
{
	int depth = 0;

	for (; at < end; at++) {
		if (strchr("\"'", text[at]))
			at = skip_quoted(text, at, end);
		else
			depth += (strchr("([{", text[at]) != NULL) -
				 (strchr(")]}", text[at]) != NULL);
		if (!depth)
			return at;
	}
	return end;
}

/*
 * Offset of the closing quotes of a string. In a field that is not closed they would begin a
 * string.
 */
static size_t content_end(const struct flmem_python_word *string)
{
	const char *open = string->text + strcspn(string->text, "\"'");
	const char *end = string->text + (string->place.end - string->place.start);
	size_t quotes = open[1] == *open && open[2] == *open ? 3 : 1;

	for (size_t i = 0; i < quotes && end > open + quotes && end[-1] == *open; i++)
		end--;
	return string->place.start + (size_t)(end - string->text);
}

/* Advances to an offset and counts the lines. */
static void go_to_offset(struct flmem_python *python, size_t at)
{
	for (; python->at < at; python->at++)
		if (python->text[python->at] == '\n') {
			python->line++;
			python->line_start = python->at + 1;
		}
}

/*
 * Places a reader at the start of a field. Lines are counted from the field before, if there is
 * one.
 */
static void go_to_field(struct flmem_python_reader *reader, const struct flmem_python *before,
			const struct flmem_python_word *string, size_t start)
{
	struct flmem_python python = {.text = before->text,
				      .at = string->place.start,
				      .line_start = string->place.start + 1 - string->place.column,
				      .line = string->place.line};

	if (before->at > python.at && before->at <= start) {
		python.at = before->at;
		python.line = before->line;
		python.line_start = before->line_start;
	}
	go_to_offset(&python, start);
	*reader = (struct flmem_python_reader){.python = python};
}

bool flmem_python_field_next(const struct flmem_python *python,
			     const struct flmem_python_word *string, size_t *at,
			     struct flmem_python_reader *ret_reader)
{
	const char *text = python->text;
	const struct flmem_python before = *at ? ret_reader->python : *python;
	size_t start = *at ? *at : string->place.start, end = content_end(string);

	while (start < end && (text[start] != '{' || text[start + 1] == '{'))
		start += text[start] == '{' ? 2 : 1;
	if (start >= end)
		return false;
	*at = field_end(text, start, end);
	go_to_field(ret_reader, &before, string, start);
	flmem_python_advance(ret_reader);
	ret_reader->python.limit = *at;
	flmem_python_advance(ret_reader);
	return true;
}

/* Adds the imported names that a field calls. */
static int read_field_calls(struct flmem_cursor *cursor, const struct flmem_python_names *names,
			    struct flmem_python_reader *field, struct flmem_node *list)
{
	char name[FLMEM_PYTHON_DOTTED_MAX], path[FLMEM_PYTHON_DOTTED_MAX];
	int rc = 0;

	while (!rc && field->word.kind != FLMEM_PYTHON_END) {
		struct flmem_place place = field->word.place;

		if (field->word.kind != FLMEM_PYTHON_NAME || flmem_python_is(&field->before, ".")) {
			flmem_python_advance(field);
			continue;
		}
		flmem_python_dotted(field, name);
		place.end = field->before.place.end;
		if (*name && flmem_python_is(&field->word, "(") &&
		    flmem_python_names_find(names, name, place.start, 0, path))
			rc = flmem_python_path_add(cursor, list, path, &place);
	}
	return rc;
}

bool flmem_python_at_literal(const struct flmem_python_reader *reader)
{
	static const char *const ends[] = {")", "]", ",", NULL};
	struct flmem_python_reader ahead = *reader, field;
	size_t at = 0;

	if (ahead.word.kind != FLMEM_PYTHON_STRING ||
	    (flmem_python_has_fields(&ahead.word) &&
	     flmem_python_field_next(&ahead.python, &ahead.word, &at, &field)))
		return false;
	flmem_python_advance(&ahead);
	return flmem_python_is_any(&ahead.word, ends);
}

int flmem_python_fields_read(struct flmem_cursor *cursor, const struct flmem_python_names *names,
			     const struct flmem_python_source *source, struct flmem_node *list)
{
	struct flmem_python_reader reader, field;
	int rc = 0;

	for (size_t i = 0; i < source->count; i++) {
		flmem_python_start(&reader, source, i);
		for (; reader.word.kind != FLMEM_PYTHON_END; flmem_python_advance(&reader)) {
			size_t at = 0;

			while (!rc && flmem_python_has_fields(&reader.word) &&
			       flmem_python_field_next(&reader.python, &reader.word, &at, &field))
				rc = read_field_calls(cursor, names, &field, list);
		}
	}
	return rc;
}
