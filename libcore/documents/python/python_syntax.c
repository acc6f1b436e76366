/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/python_syntax.h"

#include <ctype.h>
#include <string.h>

#define BRACKETS_MAX 200 /* CPython's limit, as is the next constant */
#define LEVELS_MAX   100

enum syntax_state {
	SYNTAX_GOING,
	SYNTAX_FAULT,
	SYNTAX_UNKNOWN, /* what follows cannot be judged */
};

struct syntax_scan {
	const char *text;
	struct flmem_place here; /* its `start` is the offset of the next character */
	size_t line_start;
	struct flmem_place open[BRACKETS_MAX];
	size_t open_count;
	size_t levels[LEVELS_MAX]; /* indentation of each open block; the first is 0 */
	size_t level_count;
	bool block_due; /* the last line ended in a colon, so an indented block has to follow */
	struct flmem_python_fault *fault;
};

static enum syntax_state fault_at(struct syntax_scan *scan, const struct flmem_place *place,
				  const char *text)
{
	*scan->fault = (struct flmem_python_fault){.text = text, .place = *place};
	/* One character, unless the text ends there. */
	scan->fault->place.end = place->start + (scan->text[place->start] != '\0');
	return SYNTAX_FAULT;
}

static const char *scan_at(const struct syntax_scan *scan)
{
	return scan->text + scan->here.start;
}

static void step_over(struct syntax_scan *scan, size_t count)
{
	for (; count; count--) {
		if (scan->text[scan->here.start++] == '\n') {
			scan->here.line++;
			scan->line_start = scan->here.start;
		}
	}
	scan->here.column = (unsigned)(scan->here.start - scan->line_start + 1);
}

static size_t line_end_length(const char *p)
{
	return *p == '\n' ? 1 : *p == '\r' && p[1] == '\n' ? 2 : 0;
}

/* Whether a name of this length is the prefix of a string, in upper or lower case. */
static bool is_string_prefix(const char *name, size_t length)
{
	return length <= 2 && strspn(name, "rRbBuUfFtT") >= length;
}

/* Length of a string up to and with its closing quotes, or up to the end of the line or text. */
static size_t span_string(const char *p, size_t quotes, bool *ret_closed)
{
	const char *q = p + quotes;

	for (*ret_closed = false; *q;) {
		if (*q == '\\' && q[1]) {
			q += 1 + (line_end_length(q + 1) ? line_end_length(q + 1) : 1);
			continue;
		}
		if (quotes == 1 && *q == '\n')
			break;
		if (*q == *p && (quotes == 1 || (q[1] == *p && q[2] == *p))) {
			*ret_closed = true;
			q += quotes;
			break;
		}
		q++;
	}
	return (size_t)(q - p);
}

/* Whether a field of an f-string is open at its end: its quotes then belong to the field. */
static bool has_open_field(const char *string, size_t length)
{
	long depth = 0;

	for (size_t i = 0; i < length; i++)
		depth += string[i] == '{' ? 1 : string[i] == '}' ? -1 : 0;
	return depth != 0;
}

static enum syntax_state scan_string(struct syntax_scan *scan, bool has_fields)
{
	const char *p = scan_at(scan);
	size_t quotes = p[1] == *p && p[2] == *p ? 3 : 1, length;
	struct flmem_place start = scan->here;
	bool closed;

	length = span_string(p, quotes, &closed);
	if (has_fields && has_open_field(p, length))
		return SYNTAX_UNKNOWN;
	if (!closed)
		return fault_at(scan, &start, "a string does not end");
	step_over(scan, length);
	return SYNTAX_GOING;
}

static bool is_word_letter(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (c & 0x80);
}

/* Reads a name or number, and the string after it if the name is a prefix. */
static enum syntax_state scan_prefixed(struct syntax_scan *scan)
{
	const char *p = scan_at(scan);
	size_t length = 0;
	bool prefix, has_fields;

	while (is_word_letter(p[length]))
		length++;
	prefix = is_string_prefix(p, length);
	has_fields = prefix && strcspn(p, "fFtT") < length;
	step_over(scan, length);
	p += length;
	return prefix && (*p == '"' || *p == '\'') ? scan_string(scan, has_fields) : SYNTAX_GOING;
}

static enum syntax_state scan_bracket(struct syntax_scan *scan)
{
	static const char opening[] = "([{", closing[] = ")]}";
	char c = *scan_at(scan);
	struct flmem_place here = scan->here;

	step_over(scan, 1);
	if (strchr(opening, c)) {
		if (scan->open_count == BRACKETS_MAX)
			return SYNTAX_UNKNOWN;
		scan->open[scan->open_count++] = here;
		return SYNTAX_GOING;
	}
	if (!scan->open_count)
		return fault_at(scan, &here, "a bracket closes none");
	scan->open_count--;
	if (strchr(opening, scan->text[scan->open[scan->open_count].start]) - opening !=
	    strchr(closing, c) - closing)
		return fault_at(scan, &here, "a bracket closes one of another kind");
	return SYNTAX_GOING;
}

/* Checks the indentation at the first character of a line that has code. */
static enum syntax_state scan_indent(struct syntax_scan *scan, size_t indent)
{
	size_t level = scan->levels[scan->level_count - 1];

	if (scan->block_due) {
		if (indent <= level)
			return fault_at(scan, &scan->here, "an indented block is expected");
		if (scan->level_count == LEVELS_MAX)
			return SYNTAX_UNKNOWN;
		scan->levels[scan->level_count++] = indent;
		return SYNTAX_GOING;
	}
	if (indent > level)
		return fault_at(scan, &scan->here, "unexpected indentation");
	while (scan->levels[scan->level_count - 1] > indent)
		scan->level_count--;
	if (scan->levels[scan->level_count - 1] != indent)
		return fault_at(scan, &scan->here, "the indentation matches no outer block");
	return SYNTAX_GOING;
}

/* Checks the start of a line outside of brackets. */
static enum syntax_state scan_line_start(struct syntax_scan *scan)
{
	const char *p = scan_at(scan);
	size_t blanks = strspn(p, " \t\f\r"), indent = strspn(p, " ");

	if (strchr("#\n", p[blanks])) { /* or the end of the text */
		step_over(scan, blanks);
		return SYNTAX_GOING;
	}
	if (indent < blanks || p[blanks] == '\\')
		return SYNTAX_UNKNOWN;
	step_over(scan, indent);
	return scan_indent(scan, indent);
}

/* Skips blanks, comments and line ends. Returns false if there are none. */
static bool skip_between(struct syntax_scan *scan)
{
	const char *p = scan_at(scan);
	size_t length = strspn(p, " \t\f\r");

	if (p[length] == '#')
		length += strcspn(p + length, "\n");
	else if (p[length] == '\n' && scan->open_count)
		length++;
	step_over(scan, length);
	return length > 0;
}

/* Reads one word of a line; *last becomes its last significant character. */
static enum syntax_state scan_next(struct syntax_scan *scan, char *last)
{
	char c = *scan_at(scan);

	*last = c;
	if (is_word_letter(c))
		return scan_prefixed(scan);
	if (c == '"' || c == '\'')
		return scan_string(scan, false);
	if (strchr("()[]{}", c))
		return scan_bracket(scan);
	if (c == '\\') {
		size_t length = line_end_length(scan_at(scan) + 1);

		if (!length) /* not judged here */
			return SYNTAX_UNKNOWN;
		*last = '\0';
		step_over(scan, length);
	}
	step_over(scan, 1);
	return SYNTAX_GOING;
}

/* Reads a line, with all lines that brackets and backslashes join to it. */
static enum syntax_state scan_line(struct syntax_scan *scan)
{
	enum syntax_state state = scan_line_start(scan);
	bool empty = true;
	char last = '\0';

	while (state == SYNTAX_GOING) {
		if (skip_between(scan))
			continue;
		if (!*scan_at(scan) || *scan_at(scan) == '\n')
			break;
		state = scan_next(scan, &last);
		empty = false;
	}
	if (!empty)
		scan->block_due = last == ':';
	return state;
}

bool flmem_python_find_fault(const char *text, struct flmem_python_fault *ret_fault)
{
	struct syntax_scan scan = {.text = text,
				   .here = {.line = 1, .column = 1},
				   .level_count = 1,
				   .fault = ret_fault};
	enum syntax_state state = SYNTAX_GOING;

	if (strncmp(text, "\xef\xbb\xbf", 3) == 0)
		scan.here.start = scan.line_start = 3;
	while (state == SYNTAX_GOING && *scan_at(&scan)) {
		state = scan_line(&scan);
		if (state == SYNTAX_GOING && *scan_at(&scan))
			step_over(&scan, 1); /* the end of the line */
	}
	if (state == SYNTAX_GOING && scan.open_count)
		state = fault_at(&scan, &scan.open[scan.open_count - 1], "a bracket is not closed");
	if (state == SYNTAX_GOING && scan.block_due)
		state = fault_at(&scan, &scan.here, "an indented block is expected");
	return state == SYNTAX_FAULT;
}
