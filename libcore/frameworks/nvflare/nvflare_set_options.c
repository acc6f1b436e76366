/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/nvflare/nvflare_set_options.h"

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

/*
 * What precedes a place in the file. It is read once, as a file may have an option for each word.
 */
struct set_before {
	const struct flmem_rule_input *input;
	const char *at;
	const char *line, *command; /* where the line and the command begin */
	const char *program;	    /* last name of a program of NVFlare; or NULL */
	unsigned line_number;
};

static bool is_continued(const char *text, const char *newline)
{
	return newline > text &&
	       (newline[-1] == '\\' ||
		(newline[-1] == '\r' && newline - 1 > text && newline[-2] == '\\'));
}

static bool ends_command(const char *text, const char *p)
{
	return *p == '\n' ? !is_continued(text, p) : strchr(ENDS, *p) != NULL;
}

static void read_set_before(struct set_before *before, const char *to)
{
	const char *text = before->input->document.text.data;

	for (; before->at < to; before->at++) {
		if (*before->at == '\n') {
			before->line_number++;
			before->line = before->at + 1;
		}
		if (ends_command(text, before->at))
			before->command = before->at + 1;
		if (*before->at == *PROGRAMS && flmem_text_starts(before->at, PROGRAMS))
			before->program = before->at;
	}
}

/* The start of the command. Words in YAML or JSON have none, so it is a fixed distance before. */
static const char *command_start(const struct set_before *before)
{
	const char *text = before->input->document.text.data;

	if (!before->input->document.root)
		return before->command;
	return before->at - text > NEAR ? before->at - NEAR : text;
}

/*
 * Whether an option belongs to a program of NVFlare, or is the value of a variable in a file that
 * runs one.
 */
static bool is_of_program(const struct set_before *before)
{
	const char *text = before->input->document.text.data, *option = before->at;

	if (before->line[strspn(before->line, " \t")] == '#')
		return false;
	if (before->program && before->program >= command_start(before))
		return true;
	return option - text > 1 && strchr("\"'", option[-1]) && option[-2] == '=';
}

static bool is_in_python(const struct flmem_rule_input *input)
{
	return flmem_syntax_is_python(input->document.syntax);
}

/* Length of the prefix of a Python string: f"...", rb'...'. */
static size_t prefix_length(const char *p)
{
	size_t length = strspn(p, "fFrRbBuUtT");

	return length && length <= 2 && strchr("\"'", p[length]) ? length : 0;
}

/* Whether, in Python, a word ends a string that is only a part of the value: 'KEY=' + value. */
static bool is_part_of_text(const struct flmem_rule_input *input, const char *end)
{
	if (!is_in_python(input) || !*end || !strchr("\"'", *end))
		return false;
	end += end[1] == *end && end[2] == *end ? 3 : 1;
	end += strspn(end, BLANKS);
	return *end && (strchr("+%.\"'", *end) || prefix_length(end));
}

/* Skips blanks and marks between two words. Returns false at the end of the command. */
static bool skip_to_set_word(const struct flmem_rule_input *input, const char **at)
{
	const char *text = input->document.text.data;
	const char *p = *at;

	for (;; p++) {
		bool is_list_mark =
			input->document.root && *p == '-' && p[1] && strchr(BLANKS, p[1]);

		if (is_in_python(input) && p > *at)
			p += prefix_length(p);
		if (!*p || (!strchr(SEPARATORS, *p) && !is_list_mark))
			break;
		if (*p == '\n' && !input->document.root && !is_continued(text, p))
			return false;
	}
	*at = p;
	return *p && *p != '-' && *p != '#' && !strchr(ENDS, *p);
}

/* A word. Lines are counted on from the last one. */
struct set_word {
	const char *at;
	size_t length;
	unsigned line;
};

static void add_set_word(const struct flmem_rule_input *input, struct flmem_nvflare_sets *sets,
			 const struct set_word *found)
{
	const char *text = input->document.text.data, *word = found->at;
	size_t length = found->length;
	const char *equals = memchr(word, '=', length);
	size_t key = equals ? (size_t)(equals - word) : length;
	struct flmem_nvflare_set *row = &sets->rows[sets->count];

	if (sets->count == FLMEM_NVFLARE_SETS_MAX)
		return;
	*row = (struct flmem_nvflare_set){.key = word, .length = key};
	row->open = memchr(word, '$', key);
	if (!equals && !row->open)
		return;
	row->place =
		(struct flmem_place){.start = (size_t)(word - text),
				     .end = (size_t)(word - text) + length,
				     .line = flmem_document_line(&input->document, found->line)};
	if (equals && is_part_of_text(input, word + length))
		snprintf(row->value, sizeof(row->value), "${}");
	else if (equals)
		snprintf(row->value, sizeof(row->value), "%.*s", (int)(length - key - 1),
			 equals + 1);
	sets->count++;
}

/* Reads the words after the option. The last option counts, as argparse replaces the list. */
static const char *read_words(const struct set_before *before, const char *at,
			      struct flmem_nvflare_sets *sets)
{
	struct set_word word = {.at = before->at, .line = before->line_number};

	while (skip_to_set_word(before->input, &at)) {
		for (; word.at < at; word.at++)
			word.line += *word.at == '\n';
		word.length = strcspn(at, SEPARATORS ENDS);
		if (before->input->document.root && !memchr(at, '=', word.length))
			break;
		add_set_word(before->input, sets, &word);
		at += word.length;
	}
	return at;
}

static bool is_option(const char *text, const char *at)
{
	const char *end = at + strlen(OPTION);

	return (at == text || strchr(SEPARATORS "=", at[-1])) &&
	       (!*end || strchr(SEPARATORS, *end));
}

/* Whether a later option of the same command replaces this one. */
static bool is_replaced(const struct set_before *before, const char *at)
{
	const char *text = before->input->document.text.data, *next = strstr(at, OPTION);

	if (!next || before->input->document.root || !is_option(text, next))
		return false;
	for (const char *p = before->at; p < next; p++)
		if (ends_command(text, p))
			return false;
	return true;
}

void flmem_nvflare_sets_each(const struct flmem_rule_input *input, flmem_nvflare_sets_look *look,
			     void *context)
{
	const char *text = input->document.text.data, *at = strstr(text, OPTION);
	bool file_has_program = at && strstr(text, PROGRAMS);
	struct set_before before = {input, text, text, text, NULL, 1};

	for (; at && file_has_program; at = strstr(at, OPTION)) {
		struct flmem_nvflare_sets sets = {0};
		const char *option = at;

		at += strlen(OPTION);
		if (!is_option(text, option))
			continue;
		read_set_before(&before, option);
		if (!is_of_program(&before))
			continue;
		at = read_words(&before, at, &sets);
		if (sets.count && !is_replaced(&before, at))
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

void flmem_nvflare_set_report(struct flmem_check *check, const struct flmem_nvflare_set *row,
			      const char *key, const char *detail)
{
	struct flmem_node node = {
		.kind = FLMEM_NODE_STRING, .text = row->value, .place = row->place};

	flmem_check_report(check,
			   &(struct flmem_remark){.node = &node, .path = key, .detail = detail});
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
