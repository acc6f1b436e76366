/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/notebook_expansions.h"

#include <stdbool.h>
#include <string.h>

#define BRACKETS_MAX 32U
#define BRACES_MAX   64U /* braces without an expression; keeps the time in proportion */

/* The offset after a string in one pair of quotes that begins at an offset, or `length`. */
static size_t skip_cell_string(const char *line, size_t at, size_t length)
{
	const char quote = line[at];

	for (at++; at < length; at++)
		if (line[at] == quote)
			return at + 1;
		else if (line[at] == '\\')
			at++;
	return length;
}

/*
 * Finds the "}" of an expression that begins at an offset. Returns `length` if brackets or quotes
 * in it do not match: it is then no Python. *ret_calls is set if it has a call.
 */
static size_t end_of_expression(const char *line, size_t at, size_t length, bool *ret_calls)
{
	char open[BRACKETS_MAX];
	size_t depth = 0;

	*ret_calls = false;
	while (at < length && line[at] != '#') {
		const char c = line[at];

		if (c == '"' || c == '\'') {
			at = skip_cell_string(line, at, length);
			continue;
		}
		if (c == '}' && !depth)
			return at;
		if (strchr("([{", c) && c) {
			if (depth == BRACKETS_MAX)
				return length;
			*ret_calls |= c == '(';
			open[depth++] = c == '(' ? ')' : c == '[' ? ']' : '}';
		} else if (strchr(")]}", c) && c && (!depth || open[--depth] != c)) {
			return length;
		}
		at++;
	}
	return length;
}

void flmem_notebook_expansions_add(struct flmem_buf *code, const char *line, size_t length)
{
	unsigned others = 0;

	for (size_t at = 0; at < length && others < BRACES_MAX; at++) {
		size_t end;
		bool calls;

		if (line[at] != '{')
			continue;
		if (at + 1 < length && line[at + 1] == '{') {
			at++;
			continue;
		}
		end = end_of_expression(line, at + 1, length, &calls);
		others += end == length;
		if (end == length || !calls)
			continue;
		flmem_buf_puts(code, "; (");
		flmem_buf_append(code, line + at + 1, end - at - 1);
		flmem_buf_putc(code, ')');
		at = end;
	}
}

size_t flmem_notebook_assigned_command(const char *line, size_t length)
{
	size_t depth = 0;

	for (size_t at = 0; at < length && line[at] != '#';) {
		const char c = line[at];

		if (c == '"' || c == '\'') {
			at = skip_cell_string(line, at, length);
			continue;
		}
		depth += strchr("([{", c) != NULL;
		depth -= strchr(")]}", c) && depth;
		at++;
		if (c != '=' || depth)
			continue;
		at += strspn(line + at, " \t");
		return at > 1 && at < length && strchr("!%", line[at]) ? at : 0;
	}
	return 0;
}
