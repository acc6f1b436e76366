/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports where a script changes the job of a recipe directly: Recipe keeps it as `_job` in 2.9.0
 * (recipe/spec.py), and as `job` before.
 */
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "documents/python/python.h"
#include "documents/python/python_fields.h"
#include "frameworks/launch/launch_calls.h"
#include "frameworks/nvflare/nvflare_classes.h"
#include "frameworks/nvflare/recipes/nvflare_recipes.h"

#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
#define KEY_WORDS_MAX	64U

/* A walk over the words of a script. */
struct job_search {
	struct flmem_check *check;
	const struct flmem_nvflare_recipes *recipes;
	struct flmem_python_reader reader;
	struct flmem_python_word earlier; /* the word before reader.before */
	/* The two words before the dotted name that the reader is in. */
	struct flmem_python_word front, front_earlier;
};

/*
 * Whether the word before ".job" is a recipe. "_job" is taken as that of a recipe for any object
 * but self.
 */
static bool is_of_recipe(struct job_search *search, const struct flmem_python_word *word)
{
	const char *text = search->check->input->document.text.data;
	size_t end = word->place.start - 1, start = end; /* at the dot */
	const char *name;

	while (start && text[start - 1] && strchr(NAME_CHARACTERS, text[start - 1]))
		start--;
	name = text + start;
	if ((end - start == 4 && strncmp(name, "self", 4) == 0) ||
	    (end - start == 3 && strncmp(name, "cls", 3) == 0))
		return false;
	if (*word->text == '_')
		return true;
	for (size_t i = start; i + 6 <= end; i++)
		if (strncasecmp(text + i, "recipe", 6) == 0)
			return true;
	return end > start &&
	       flmem_nvflare_is_recipe(search->recipes, (struct flmem_nvflare_span){start, end});
}

/* Whether a method of the job, or of an object in it, only reads or runs it. */
static bool only_reads(const struct flmem_python_word *name)
{
	static const char *const names[] = {"get",	  "keys",	   "items",  "values",
					    "export_job", "simulator_run", "format", "startswith",
					    "upper",	  "lower",	   NULL};

	return flmem_python_is_any(name, names);
}

/* Whether to_server({...}) adds a dictionary, which is checked as a configuration. */
static bool adds_known_config(struct flmem_python_reader ahead,
			      const struct flmem_python_word *name)
{
	static const char *const names[] = {"to", "to_server", "to_clients", NULL};

	if (!flmem_python_is_any(name, names))
		return false;
	flmem_python_advance(&ahead);
	return flmem_python_is(&ahead.word, "{");
}

bool flmem_nvflare_only_shows_object(const struct flmem_python_word *function)
{
	static const char *const names[] = {"print", "isinstance", "type",    "repr",	"str",
					    "id",    "len",	   "hasattr", "info",	"vars",
					    "dir",   "debug",	   "bool",    "pprint", NULL};

	return flmem_python_is_any(function, names);
}

/*
 * Whether the job is passed on or kept: "j = recipe.job", f(recipe.job). It is then reachable under
 * other names.
 */
static bool passes_on(const struct job_search *search, const struct flmem_python_word *next)
{
	static const char *const fronts[] = {"=", "(",	  ",",	   "return", "[",   ":",
					     "*", "with", "yield", "match",  "del", NULL};
	static const char *const tests[] = {"is", "in", "!", "if", NULL};
	const struct flmem_python_word *front = &search->front;

	if (flmem_python_is(front, "(") && flmem_nvflare_only_shows_object(&search->front_earlier))
		return false;
	if (flmem_python_is_any(next, tests))
		return false;
	return flmem_python_is_any(front, fronts) ||
	       (flmem_python_is(next, ":") && flmem_python_ends(front)); /* "a.job: TYPE = x" */
}

/* Skips from a "[" past its "]", at most as many words as a key has. */
static void skip_key(struct flmem_python_reader *ahead)
{
	int depth = 0;

	for (unsigned i = 0; i < KEY_WORDS_MAX && ahead->word.kind != FLMEM_PYTHON_END; i++) {
		depth += flmem_python_is(&ahead->word, "[") - flmem_python_is(&ahead->word, "]");
		flmem_python_advance(ahead);
		if (!depth)
			return;
	}
}

/* Whether what follows ".job" changes the job, or passes it on. The reader is at the word after. */
static bool changes_job(const struct job_search *search)
{
	struct flmem_python_reader ahead = search->reader;
	struct flmem_python_word name = {0};

	for (unsigned i = 0; i < KEY_WORDS_MAX; i++) {
		bool key = flmem_python_is(&ahead.word, "[");

		if (!key && !flmem_python_accept(&ahead, "."))
			break;
		name = ahead.word;
		if (key)
			skip_key(&ahead);
		else
			flmem_python_advance(&ahead);
	}
	if (flmem_python_is(&ahead.word, "("))
		return !only_reads(&name) && !adds_known_config(ahead, &name);
	if (flmem_python_assigns(&ahead) && !flmem_python_is(&search->front, "("))
		return true;
	return !name.text && passes_on(search, &ahead.word);
}

static void report_job(struct flmem_check *check, const struct flmem_python_word *word)
{
	struct flmem_node node = {.kind = FLMEM_NODE_STRING, .text = "", .place = word->place};

	node.place.line = flmem_document_line(&check->input->document, word->place.line);
	flmem_check_report(check,
			   &(struct flmem_remark){.node = &node,
						  .path = "job",
						  .detail = "the job of a recipe is changed, "
							    "or passed on"});
}

static bool is_recipe_word(const struct flmem_python_word *name)
{
	char text[FLMEM_PYTHON_DOTTED_MAX];

	return name->kind == FLMEM_PYTHON_NAME && flmem_python_word_text(name, text) &&
	       strcasestr(text, "recipe");
}

/*
 * Whether a string names the job: getattr(recipe, "_job"); "job" counts only for an object that is
 * called a recipe.
 */
static bool quotes_job(const struct job_search *search)
{
	const struct flmem_python_word *word = &search->reader.word;
	const struct flmem_python_word *before = &search->reader.before;
	size_t length = word->place.end - word->place.start;

	if (word->kind != FLMEM_PYTHON_STRING)
		return false;
	if (length == 5 && strncmp(word->text + 1, "job", 3) == 0)
		return flmem_python_is(before, ",") && is_recipe_word(&search->earlier);
	return length == 6 && strncmp(word->text + 1, "_job", 4) == 0 &&
	       (flmem_python_is(before, ",") || flmem_python_is(before, "["));
}

static void search_word(struct job_search *search);

/* Searches the fields of an f-string: f"{recipe.job.to(x)}". */
static void search_fields(const struct job_search *search)
{
	struct job_search inner = *search;
	size_t at = 0;

	while (flmem_python_has_fields(&search->reader.word) &&
	       flmem_python_field_next(&search->reader.python, &search->reader.word, &at,
				       &inner.reader))
		while (inner.reader.word.kind != FLMEM_PYTHON_END)
			search_word(&inner);
}

static void search_word(struct job_search *search)
{
	const struct flmem_python_word word = search->reader.word;
	bool member = flmem_python_is(&search->reader.before, ".");
	bool job = member && (flmem_python_is(&word, "job") || flmem_python_is(&word, "_job"));

	if (word.kind == FLMEM_PYTHON_NAME && !member) {
		search->front = search->reader.before;
		search->front_earlier = search->earlier;
	}
	if (quotes_job(search))
		report_job(search->check, &word);
	search_fields(search);
	search->earlier = search->reader.before;
	flmem_python_advance(&search->reader);
	if (job && is_of_recipe(search, &word) && changes_job(search))
		report_job(search->check, &word);
}

void flmem_nvflare_check_recipe_jobs(struct flmem_check *check,
				     const struct flmem_nvflare_recipes *recipes)
{
	const struct flmem_python_part part = {.line = 1};
	const struct flmem_python_source source = {
		.text = check->input->document.text.data, .parts = &part, .count = 1};
	struct job_search search = {.check = check, .recipes = recipes};

	if (!strstr(source.text, "ecipe") || !strstr(source.text, "job"))
		return;
	flmem_python_start(&search.reader, &source, 0);
	while (search.reader.word.kind != FLMEM_PYTHON_END)
		search_word(&search);
}
