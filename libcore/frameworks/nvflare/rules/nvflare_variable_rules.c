/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about variables that nothing reads but whose names resemble one that is read. */
#include "frameworks/nvflare/nvflare_classes.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/launch/launch_calls.h"
#include "frameworks/launch/launch_scan.h"
#include "frameworks/nvflare/nvflare_comm.h"
#include "frameworks/nvflare/rules/nvflare_launch_rules.h"

#define NEAR	     2 /* letters in which a misspelt name may differ */
#define SHORTEST     8
#define LONGEST	     48
#define REPORTED_MAX 64 /* findings in one file */
/*
 * Bytes of files in the folder that are searched for names of one file, which may have any number.
 */
#define SEARCHED_MAX (1U << 20)

#define LETTERS	   "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define CHARACTERS LETTERS "0123456789_"

/* A word in capitals, which may be the name of a variable. */
struct token {
	const char *text; /* text of the file */
	size_t start, length;
};

/* The variable that a name with NVFlare's prefix is meant to be, by the words in it; NULL: none. */
static const char *meant_by_words(const char *name)
{
	static const char *const parts[][2] = {
		{"MALLOC_ARENA", FLMEM_LAUNCH_ARENA_MAX},
		{"JEMALLOC", FLMEM_NVFLARE_JEMALLOC_PRELOAD},
		{"GC_ROUND", FLMEM_NVFLARE_GC_ROUNDS},
		{"EMPTY_CACHE", FLMEM_NVFLARE_CUDA_EMPTY_CACHE},
		{"CUDA_CACHE", FLMEM_NVFLARE_CUDA_EMPTY_CACHE},
		{"DOWNLOAD_CHUNK", FLMEM_NVFLARE_TENSOR_CHUNK},
		{"STREAMING_CHUNK", FLMEM_NVFLARE_COMM_CHUNK},
		{"STREAMING_WINDOW", FLMEM_NVFLARE_COMM_WINDOW},
		{"MAX_BLOB", FLMEM_NVFLARE_COMM_BLOB},
		{"MAX_PENDING", FLMEM_NVFLARE_COMM_RETRY},
		{"MAX_MESSAGE", FLMEM_NVFLARE_COMM_MESSAGE},
		{"MAX_MSG", FLMEM_NVFLARE_COMM_MESSAGE},
	};

	if (!flmem_text_starts(name, "NVFLARE_"))
		return NULL;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(parts); i++)
		if (strstr(name, parts[i][0]))
			return parts[i][1];
	return NULL;
}

/*
 * The variable that a name resembles; NULL if none, or if the name is one itself. TMPDIR is left
 * out, as too many names resemble it.
 */
static const char *meant_variable(const struct token *token)
{
	char name[LONGEST + 1];
	const char *known;

	if (token->length < SHORTEST || token->length > LONGEST)
		return NULL;
	snprintf(name, sizeof(name), "%.*s", (int)token->length, token->text + token->start);
	if (flmem_launch_variable_name(name, token->length))
		return NULL;
	for (size_t i = 0; (known = flmem_launch_name_at(i)); i++)
		if (strlen(known) >= SHORTEST && flmem_text_distance(name, known) <= NEAR)
			return known;
	return meant_by_words(name);
}

static bool is_before(const struct token *token, size_t at, const char *text)
{
	size_t length = strlen(text);

	return at >= length && strncmp(token->text + at - length, text, length) == 0;
}

/* Whether a word is set: NAME=value, NAME: value, "NAME": value, "- name: NAME", ENV NAME value. */
static bool is_set_here(const struct token *token)
{
	const char *end = token->text + token->start + token->length;
	size_t at = token->start;
	char quote = at && strchr("\"'", token->text[at - 1]) ? token->text[at - 1] : '\0';

	if (quote && *end == quote) {
		end++;
		at--;
	}
	if ((*end == '=' && end[1] != '=') || (*end == '+' && end[1] == '='))
		return true;
	if (*end == ':' && (end[1] == ' ' || end[1] == '\n' || end[1] == '\r'))
		return true;
	return is_before(token, at, "name: ") || (is_before(token, at, "ENV ") && *end == ' ');
}

/*
 * Whether a word is set in Python: environ["NAME"] = value, {"NAME": value}, setdefault("NAME",
 * ...), update(NAME=value).
 */
static bool is_set_in_python(const struct token *token)
{
	static const char *const setters[] = {"setdefault(", "putenv(", "setenv("};
	const char *end = token->text + token->start + token->length;
	size_t at = token->start;

	if (!at || !strchr("\"'", token->text[at - 1]))
		return *end == '=' && end[1] != '=' && at && strchr("( ,", token->text[at - 1]);
	if (*end != token->text[--at])
		return false;
	end++;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(setters); i++)
		if (is_before(token, at, setters[i]))
			return true;
	if (*end == ']')
		end += 1 + strspn(end + 1, " ");
	else if (*end == ':')
		return true;
	return *end == '=' && end[1] != '=';
}

/* Whether a file uses a variable of this name: $NAME, ${NAME}, or in Python by its name. */
static bool uses_name(const struct flmem_rule_input *input, const struct token *token)
{
	const char *name = token->text + token->start, *at = input->document.text.data;
	const char *all_end = at + input->document.text.length;
	bool python = flmem_syntax_is_python(input->document.syntax);

	while ((at = memmem(at, (size_t)(all_end - at), name, token->length))) {
		bool whole = !at[token->length] || !strchr(CHARACTERS, at[token->length]);
		struct token here = {.text = input->document.text.data,
				     .start = (size_t)(at - input->document.text.data),
				     .length = token->length};

		if (whole && here.start && strchr("${", at[-1]))
			return true;
		if (whole && python && !is_set_in_python(&here))
			return true;
		at += token->length;
	}
	return false;
}

static bool is_used(const struct flmem_check *check, const struct token *token, size_t *searched)
{
	const struct flmem_bundle *bundle = check->bundle;

	for (size_t i = 0; i < bundle->count + bundle->other_count; i++) {
		const struct flmem_rule_input *input =
			i < bundle->count ? &bundle->inputs[i] : &bundle->others[i - bundle->count];

		*searched += input->document.text.length;
		if (*searched > SEARCHED_MAX)
			return false;
		if (uses_name(input, token))
			return true;
	}
	return false;
}

static void report_misspelt_variable(struct flmem_check *check, const struct token *token,
				     unsigned line, const char *meant)
{
	struct flmem_node node = {.kind = FLMEM_NODE_STRING,
				  .text = "",
				  .place = {.start = token->start,
					    .end = token->start + token->length,
					    .line = line}};
	char detail[96];

	node.place.line = flmem_document_line(&check->input->document, line);
	snprintf(detail, sizeof(detail), "did you mean %s", meant);
	flmem_check_report(check, &(struct flmem_remark){
					  .node = &node, .path = "environment", .detail = detail});
}

/* Whether a line is a comment, and no directive of a scheduler. */
static bool is_comment(const char *line)
{
	static const char *const directives[] = {"#SBATCH", "#PBS", "#BSUB", "#$"};

	line += strspn(line, " \t");
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(directives); i++)
		if (flmem_text_starts(line, directives[i]))
			return false;
	return *line == '#';
}

/* Bytes searched and findings reported for one file, which are both limited. */
struct search_progress {
	size_t searched, reported;
};

static void check_token(struct flmem_check *check, const struct token *token, unsigned line,
			struct search_progress *progress)
{
	bool python = check->kind == &flmem_nvflare_python_file;
	const char *meant = (python ? is_set_in_python(token) : is_set_here(token))
				    ? meant_variable(token)
				    : NULL;

	if (!meant || is_used(check, token, &progress->searched))
		return;
	progress->reported++;
	report_misspelt_variable(check, token, line, meant);
}

static void variable_unknown(struct flmem_check *check)
{
	const char *text = check->input->document.text.data;
	struct token token = {.text = text};
	bool comment = is_comment(text);
	unsigned line = 1;
	struct search_progress progress = {0};

	for (size_t at = 0; text[at] && progress.reported < REPORTED_MAX;) {
		if (text[at] == '\n') {
			line++;
			comment = is_comment(text + at + 1);
		}
		token.start = at;
		token.length = strspn(text + at, CHARACTERS);
		/* A name may be right after "-e" of docker run, "-D" and the like. */
		if (token.length && !comment &&
		    (!at || !strchr("abcdfghijklmnopqrstuvwxyz.$", text[at - 1])))
			check_token(check, &token, line, &progress);
		at += token.length ? token.length : 1;
	}
}

static const struct flmem_rule_row nvflare_variable_rows[] = {
	{
		.rule = {.id = "NVF-ENV-UNKNOWN",
			 .severity = FLMEM_SEVERITY_WARNING,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .condition =
				 "a variable that is set, whose name resembles one that rules "
				 "check, or begins with NVFLARE_ and has words of one, and that no "
				 "file of the folder uses",
			 .message = "neither NVFlare nor the allocator reads a variable of this "
				    "name; "
				    "correct the name, or remove it",
			 .source = "NVFlare code, 2.7.2 to 2.9.0"},
		.inputs = {FLMEM_NVFLARE_VARIABLE_FILES, &flmem_launch_unread_file,
			   &flmem_nvflare_python_file},
		.check = variable_unknown,
	},
};

const struct flmem_rule_table flmem_nvflare_variable_rules = {
	nvflare_variable_rows, FLMEM_ARRAY_SIZE(nvflare_variable_rows)};
