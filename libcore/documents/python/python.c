/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/python.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"

#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* Python skips it at the start of a file */

static bool is_name_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static void advance_bytes(struct flmem_python *python, size_t count)
{
	for (; count && python->text[python->at]; count--) {
		if (python->text[python->at++] == '\n') {
			python->line++;
			python->line_start = python->at;
		}
	}
}

/* Skips blanks, comments, joined lines, and line ends within brackets. */
static void python_skip_blanks(struct flmem_python *python)
{
	for (;;) {
		const char *p = python->text + python->at;
		size_t length = strspn(p, python->brackets > 0 ? " \t\r\f\n" : " \t\r\f");

		if (p[length] == '\\' && p[length + 1] == '\n')
			length += 2;
		else if (p[length] == '\\' && p[length + 1] == '\r' && p[length + 2] == '\n')
			length += 3;
		else if (p[length] == '#')
			length += strcspn(p + length, "\n");
		else if (!length)
			return;
		advance_bytes(python, length);
	}
}

/* Length of a name at `p`. */
static size_t name_length(const char *p)
{
	size_t length = 0;

	while (is_name_start(p[length]) || is_digit(p[length]))
		length++;
	return length;
}

/* Length of the string at `p` with prefix and quotes; 0 if none begins there. */
static size_t string_length(const char *p, const char *limit, bool *ret_unclosed)
{
	size_t prefix = strspn(p, "rRbBuUfFtT"), quotes = 1;
	const char *q = p + prefix;
	char quote = *q;

	if (prefix > 2 || (quote != '"' && quote != '\''))
		return 0;
	if (q[1] == quote && q[2] == quote)
		quotes = 3;
	for (q += quotes; *q && (!limit || q < limit); q += *q == '\\' && q[1] ? 2 : 1) {
		if (quotes == 1 && *q == '\n')
			break;
		if (*q == quote && (quotes == 1 || (q[1] == quote && q[2] == quote)))
			return (size_t)(q - p) + quotes;
	}
	*ret_unclosed = quotes == 3;
	return (size_t)(q - p); /* not closed: up to the end of the line or text */
}

static size_t number_length(const char *p)
{
	size_t length = 0;

	while (is_name_start(p[length]) || is_digit(p[length]) || p[length] == '.')
		length++;
	return length;
}

static size_t classify_word(struct flmem_python *python, struct flmem_python_word *word)
{
	enum flmem_python_kind *ret_kind = &word->kind;
	const char *p = python->text + python->at;
	const char *limit = python->limit ? python->text + python->limit : NULL;
	size_t length = string_length(p, limit, &word->unclosed);

	if (length) {
		*ret_kind = FLMEM_PYTHON_STRING;
		return length;
	}
	if (is_name_start(*p)) {
		*ret_kind = FLMEM_PYTHON_NAME;
		return name_length(p);
	}
	if (is_digit(*p)) {
		*ret_kind = FLMEM_PYTHON_NUMBER;
		return number_length(p);
	}
	*ret_kind = *p == '\n' ? FLMEM_PYTHON_LINE : *p ? FLMEM_PYTHON_MARK : FLMEM_PYTHON_END;
	if (*p && strchr("([{", *p))
		python->brackets++;
	else if (*p && strchr(")]}", *p) && python->brackets > 0)
		python->brackets--;
	return *p != '\0';
}

struct flmem_python_word flmem_python_next(struct flmem_python *python)
{
	struct flmem_python_word word = {0};

	python_skip_blanks(python);
	word.text = python->text + python->at;
	word.place = (struct flmem_place){
		.start = python->at,
		.line = python->line,
		.column = (unsigned)(python->at - python->line_start + 1),
	};
	if (!python->limit || python->at < python->limit)
		advance_bytes(python, classify_word(python, &word));
	word.place.end = python->at;
	return word;
}

static bool equals_text(const char *text, size_t length, const char *other)
{
	return strlen(other) == length && memcmp(text, other, length) == 0;
}

bool flmem_python_is(const struct flmem_python_word *word, const char *text)
{
	return (word->kind == FLMEM_PYTHON_NAME || word->kind == FLMEM_PYTHON_MARK) &&
	       equals_text(word->text, word->place.end - word->place.start, text);
}

bool flmem_python_is_any(const struct flmem_python_word *word, const char *const *texts)
{
	while (*texts && !flmem_python_is(word, *texts))
		texts++;
	return *texts;
}

void flmem_python_start(struct flmem_python_reader *reader,
			const struct flmem_python_source *source, size_t part)
{
	*reader = (struct flmem_python_reader){
		.python = {.text = source->text,
			   .at = source->parts[part].at,
			   .line_start = source->parts[part].at,
			   .line = source->parts[part].line},
	};
	if (!source->parts[part].at && strncmp(source->text, BYTE_ORDER_MARK, 3) == 0)
		reader->python.at = reader->python.line_start = 3;
	flmem_python_advance(reader);
}

void flmem_python_advance(struct flmem_python_reader *reader)
{
	reader->before = reader->word;
	reader->word = flmem_python_next(&reader->python);
}

bool flmem_python_accept(struct flmem_python_reader *reader, const char *text)
{
	if (!flmem_python_is(&reader->word, text))
		return false;
	flmem_python_advance(reader);
	return true;
}

void flmem_python_dotted(struct flmem_python_reader *reader, char out[FLMEM_PYTHON_DOTTED_MAX])
{
	size_t used = 0;
	bool whole = true;

	do {
		const struct flmem_python_word *word = &reader->word;
		size_t length = word->place.end - word->place.start;

		whole &= word->kind == FLMEM_PYTHON_NAME &&
			 used + length + 2 <= FLMEM_PYTHON_DOTTED_MAX;
		if (whole) {
			memcpy(out + used, word->text, length);
			used += length;
			out[used++] = '.';
		}
		flmem_python_advance(reader);
	} while (flmem_python_accept(reader, "."));
	out[whole ? used - 1 : 0] = '\0';
}

bool flmem_python_word_text(const struct flmem_python_word *word,
			    char ret_text[FLMEM_PYTHON_DOTTED_MAX])
{
	size_t length = word->place.end - word->place.start;

	if (length >= FLMEM_PYTHON_DOTTED_MAX)
		return false;
	memcpy(ret_text, word->text, length);
	ret_text[length] = '\0';
	return true;
}

bool flmem_python_ends(const struct flmem_python_word *word)
{
	return word->kind == FLMEM_PYTHON_LINE || word->kind == FLMEM_PYTHON_END ||
	       flmem_python_is(word, ";");
}

bool flmem_python_ends_value(const struct flmem_python_word *word)
{
	return word->kind == FLMEM_PYTHON_END ||
	       (word->kind == FLMEM_PYTHON_MARK && strchr(",)]}", *word->text));
}

bool flmem_python_assigns(const struct flmem_python_reader *reader)
{
	static const char *const operators[] = {"=",  "+=", "-=", "*=", "/=", "//=", "**=",
						"%=", "|=", "&=", "^=", "@=", ">>=", "<<="};
	const char *text = reader->word.text;

	for (size_t i = 0;
	     reader->word.kind == FLMEM_PYTHON_MARK && i < FLMEM_ARRAY_SIZE(operators); i++)
		if (flmem_text_starts(text, operators[i]) && text[strlen(operators[i])] != '=')
			return true;
	return false;
}

bool flmem_python_at_statement(const struct flmem_python_reader *reader)
{
	return flmem_python_ends(&reader->before) ||
	       (!reader->python.brackets && flmem_python_is(&reader->before, ":"));
}

bool flmem_python_is_result_call(const struct flmem_python_reader *reader)
{
	return flmem_python_is(&reader->word, "(") &&
	       (flmem_python_is(&reader->before, ")") || flmem_python_is(&reader->before, "]"));
}

bool flmem_python_is_declaration(const struct flmem_python_word *word)
{
	return flmem_python_is(word, "import") || flmem_python_is(word, "from") ||
	       flmem_python_is(word, "global") || flmem_python_is(word, "nonlocal");
}

bool flmem_python_is_builtin(const char *name)
{
	static const char *const names[] = {"setattr", "delattr", "__import__", "exec",
					    "eval",    "globals", "locals",	"dict"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

bool flmem_python_is_false(const struct flmem_node *value)
{
	switch (value->kind) {
	case FLMEM_NODE_NULL:
		return true;
	case FLMEM_NODE_BOOL:
		return !flmem_node_is_true(value);
	case FLMEM_NODE_INTEGER:
	case FLMEM_NODE_REAL:
		return !value->text[strspn(value->text, "-0.")];
	case FLMEM_NODE_STRING:
		return !*value->text;
	case FLMEM_NODE_MAP:
		return !value->first;
	default:
		return false;
	}
}
