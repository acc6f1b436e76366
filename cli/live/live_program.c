/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the part of a command line that a narrow column shows. */
#include <string.h>

#include "live/live.h"

static const char *next_word(const char *word)
{
	word += strcspn(word, " ");
	return word + strspn(word, " ");
}

/* Returns the word after its last '/'. */
static const char *base_of(const char *word)
{
	const char *base = word;

	for (const char *p = word; *p && *p != ' '; p++)
		if (*p == '/' && p[1] && p[1] != ' ')
			base = p + 1;
	return base;
}

/* Returns whether the word is an interpreter, with a version at most: "python3.11 ", "bash ". */
static bool is_interpreter_name(const char *word)
{
	static const char *const names[] = {"python", "bash", "dash", "sh"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = strlen(names[i]);

		if (strncmp(word, names[i], length) == 0 &&
		    word[length + strspn(word + length, "0123456789.")] == ' ')
			return true;
	}
	return false;
}

/* Returns whether the word is an option of CPython whose value is the next word. */
static bool takes_value(const char *word)
{
	return (word[1] == 'W' || word[1] == 'X') && word[2] == ' ';
}

/* Returns the last letter of an option: -c and -m may end a group such as -um. */
static char last_letter(const char *word)
{
	size_t length = strcspn(word, " ");

	return word[1] != '-' && length ? word[length - 1] : '\0';
}

const char *live_program(const char *command)
{
	const char *word = base_of(command), *first = word;

	if (!is_interpreter_name(word))
		return first;
	for (word = next_word(word); *word == '-'; word = next_word(word)) {
		if (last_letter(word) == 'c')
			return first;
		if (last_letter(word) == 'm')
			return *next_word(word) ? next_word(word) : first;
		if (takes_value(word))
			word = next_word(word);
	}
	return *word ? base_of(word) : first;
}
