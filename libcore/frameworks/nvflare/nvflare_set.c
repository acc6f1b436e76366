/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/nvflare/nvflare_set.h"

#include <stdio.h>
#include <string.h>

#include <flmem/parse.h>

#include "base/cleanup.h"
#include "base/text/text.h"

#define OPTION	   "--set"
#define PROGRAMS   "nvflare.private.fed.app."
#define BLANKS	   " \t\r\n"
#define SEPARATORS BLANKS ",\"'[]()\\"
#define ENDS	   ";&|"
#define NEAR	   1000

static unsigned line_of_set(const char *text, const char *at)
{
	unsigned line = 1;

	for (; text < at; text++)
		line += *text == '\n';
	return line;
}

static bool is_continued(const char *text, const char *newline)
{
	return newline > text &&
	       (newline[-1] == '\\' ||
		(newline[-1] == '\r' && newline - 1 > text && newline[-2] == '\\'));
}

/* The start of the command that a place is in; of words in YAML or JSON, what is right before. */
static const char *command_start(const struct flmem_rule_input *input, const char *at)
{
	const char *text = input->document.text.data, *start = at;

	if (input->document.root)
		return at - text > NEAR ? at - NEAR : text;
	while (start > text && (start[-1] != '\n' || is_continued(text, start - 1)) &&
	       !strchr(ENDS, start[-1]))
		start--;
	return start;
}

static bool is_set_in_comment(const char *text, const char *at)
{
	while (at > text && at[-1] != '\n')
		at--;
	return at[strspn(at, " \t")] == '#';
}

/* Behind a program of NVFlare, or as the value of a variable in a file that runs one. */
static bool is_of_program(const struct flmem_rule_input *input, const char *option)
{
	const char *text = input->document.text.data;
	const char *start = command_start(input, option);

	if (is_set_in_comment(text, option))
		return false;
	if (memmem(start, (size_t)(option - start), PROGRAMS, strlen(PROGRAMS)))
		return true;
	return option - text > 1 && strchr("\"'", option[-1]) && option[-2] == '=' &&
	       strstr(text, PROGRAMS);
}

/* Skips what is between two words. False at the end of the command. */
static bool skip_to_set_word(const struct flmem_rule_input *input, const char **at)
{
	const char *text = input->document.text.data;
	const char *p = *at;

	for (; *p && strchr(SEPARATORS, *p); p++)
		if (*p == '\n' && !input->document.root && !is_continued(text, p))
			return false;
	if (input->document.root && *p == '-' && strchr(BLANKS, p[1]) && p[1]) { /* of a list */
		*at = p + 1;
		return skip_to_set_word(input, at);
	}
	*at = p;
	return *p && *p != '-' && *p != '#' && !strchr(ENDS, *p);
}

static void add_set_word(const struct flmem_rule_input *input, struct flmem_nvflare_sets *sets,
			 const char *word, size_t length)
{
	const char *text = input->document.text.data, *equals = memchr(word, '=', length);
	size_t key = equals ? (size_t)(equals - word) : length;
	struct flmem_nvflare_set *row = &sets->rows[sets->count];

	if (sets->count == FLMEM_NVFLARE_SETS_MAX)
		return;
	*row = (struct flmem_nvflare_set){.key = word, .length = key};
	row->open = memchr(word, '$', key);
	if (!equals && !row->open)
		return;
	row->place = (struct flmem_place){.start = (size_t)(word - text),
					  .end = (size_t)(word - text) + length,
					  .line = line_of_set(text, word)};
	if (equals)
		snprintf(row->value, sizeof(row->value), "%.*s", (int)(length - key - 1),
			 equals + 1);
	sets->count++;
}

/* Reads the words behind the option; the last option counts, as argparse replaces the list. */
static const char *read_words(const struct flmem_rule_input *input, const char *at,
			      struct flmem_nvflare_sets *sets)
{
	while (skip_to_set_word(input, &at)) {
		size_t length = strcspn(at, SEPARATORS ENDS);

		if (input->document.root && !memchr(at, '=', length))
			break;
		add_set_word(input, sets, at, length);
		at += length;
	}
	return at;
}

static bool is_option(const char *text, const char *at)
{
	const char *end = at + strlen(OPTION);

	return (at == text || strchr(SEPARATORS "=", at[-1])) &&
	       (!*end || strchr(SEPARATORS, *end));
}

/* Whether the command has the option once more, which replaces this one. */
static bool is_replaced(const struct flmem_rule_input *input, const char *option, const char *at)
{
	const char *next = strstr(at, OPTION);

	return next && !input->document.root && is_option(input->document.text.data, next) &&
	       command_start(input, next) == command_start(input, option);
}

void flmem_nvflare_sets_each(const struct flmem_rule_input *input, flmem_nvflare_sets_look *look,
			     void *context)
{
	const char *text = input->document.text.data, *at = text;

	while (at && (at = strstr(at, OPTION))) {
		struct flmem_nvflare_sets sets = {0};
		const char *option = at;

		at += strlen(OPTION);
		if (!is_option(text, option) || !is_of_program(input, option))
			continue;
		at = read_words(input, at, &sets);
		if (sets.count && !is_replaced(input, option, at))
			look(&sets, context);
	}
}

const struct flmem_nvflare_set *flmem_nvflare_set_find(const struct flmem_nvflare_sets *sets,
						       const char *key)
{
	for (size_t i = sets->count; i; i--) {
		const struct flmem_nvflare_set *row = &sets->rows[i - 1];

		if (row->length == strlen(key) && strncmp(row->key, key, row->length) == 0)
			return row;
	}
	return NULL;
}

struct flmem_comm_value flmem_nvflare_set_value(const char *text)
{
	static const char *const yes[] = {"yes", "true", "t", "y"};
	static const char *const no[] = {"no", "false", "f", "n"};
	struct flmem_comm_value value = {.state = FLMEM_COMM_UNKNOWN};
	double number;
	bool negative;

	if (strpbrk(text, "$`{"))
		return value;
	value = flmem_comm_value_of_text(text);
	if (value.state != FLMEM_COMM_INVALID)
		return value;
	negative = *text == '-';
	if (flmem_parse_real(text + negative, &number, NULL) == 0 && number < 9e18)
		return (struct flmem_comm_value){FLMEM_COMM_NUMBER,
						 (int64_t)(negative ? -number : number)};
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(yes); i++)
		if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0)
			return (struct flmem_comm_value){FLMEM_COMM_NUMBER,
							 strcasecmp(text, yes[i]) == 0};
	return value;
}
