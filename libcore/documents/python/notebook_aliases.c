/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/notebook_aliases.h"

#include <stdio.h>
#include <string.h>

#include "base/text/text.h"

/* Reads the next word of a line, without quotes and options. Returns false if there is none. */
static bool next_alias_word(const char **at, const char *end, char word[FLMEM_NOTEBOOK_ALIAS_BYTES])
{
	size_t length;

	for (;;) {
		while (*at < end && strchr(" \t\r%", **at))
			++*at;
		if (*at >= end || **at == '\n')
			return false;
		length = strcspn(*at, " \t\r\n");
		if (**at != '-')
			break;
		*at += length;
	}
	snprintf(word, FLMEM_NOTEBOOK_ALIAS_BYTES, "%.*s", (int)length, *at);
	*at += length;
	return length < FLMEM_NOTEBOOK_ALIAS_BYTES;
}

bool flmem_notebook_alias_note(struct flmem_notebook_aliases *aliases, const char *line,
			       size_t length)
{
	static const char magic[] = "%alias_magic ", programs[] = "%rehashx";
	const char *end = line + length, *at = line + strlen(magic);
	char name[FLMEM_NOTEBOOK_ALIAS_BYTES] = "", other[FLMEM_NOTEBOOK_ALIAS_BYTES] = "";

	if (length >= strlen(programs) && flmem_text_starts(line, programs)) {
		aliases->programs = true;
		return true;
	}
	if (length <= strlen(magic) || !flmem_text_starts(line, magic))
		return false;
	if (aliases->count < FLMEM_NOTEBOOK_ALIASES && next_alias_word(&at, end, name) &&
	    next_alias_word(&at, end, other)) {
		memcpy(aliases->rows[aliases->count].name, name, sizeof(name));
		memcpy(aliases->rows[aliases->count].other, other, sizeof(other));
		aliases->count++;
	}
	return true;
}

const char *flmem_notebook_alias_of(const struct flmem_notebook_aliases *aliases, const char *line)
{
	size_t length;

	line += strspn(line, "%");
	length = strspn(line, FLMEM_TEXT_NAME_LETTERS);
	for (size_t i = aliases->count; i-- > 0;)
		if (strlen(aliases->rows[i].name) == length &&
		    strncmp(line, aliases->rows[i].name, length) == 0)
			return aliases->rows[i].other;
	return NULL;
}

bool flmem_notebook_is_program(const char *line, size_t length)
{
	static const char *const words[] = {
		"import", "from",   "def",    "class",	"if",	    "for",    "while",
		"with",	  "return", "assert", "del",	"raise",    "global", "async",
		"await",  "yield",  "not",    "elif",	"nonlocal", "match",  "case",
		"type",	  "print",  "except", "lambda", NULL};
	static const char *const operators[] = {"in",  "is",  "and",  "or", "if",
						"not", "for", "else", "as", NULL};
	const char *end = line + length, *at = line;
	char first[FLMEM_NOTEBOOK_ALIAS_BYTES], second[FLMEM_NOTEBOOK_ALIAS_BYTES];
	size_t name = strspn(line, FLMEM_TEXT_NAME_LETTERS "-.");

	if (!name || name >= length || !strchr(" \t", line[name]) ||
	    !next_alias_word(&at, end, first) || at >= end)
		return false;
	at += strspn(at, " \t");
	name = strspn(at, FLMEM_TEXT_NAME_LETTERS);
	if (at >= end || !name || flmem_text_is_one_of(first, words))
		return false;
	snprintf(second, sizeof(second), "%.*s", (int)name, at);
	return !flmem_text_is_one_of(second, operators);
}
