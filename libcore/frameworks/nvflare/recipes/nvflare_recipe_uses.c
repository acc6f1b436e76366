/* SPDX-License-Identifier: Apache-2.0 */
/* Reports what a script does with its recipes, if it is not known to be harmless. */
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "documents/python/python.h"
#include "documents/python/python_fields.h"
#include "frameworks/launch/launch_calls.h"
#include "frameworks/nvflare/nvflare_classes.h"
#include "frameworks/nvflare/recipes/nvflare_recipe_search.h"

/* Walks that search for names; each may add names that another one follows. */
#define ROUNDS_MAX     8U
#define ANNOTATION_MAX 64U
#define REPORTED_MAX   64U

static const char nvflare_recipe_uses_changed[] = "the recipe is changed, or passed on";

/* Whether this rule, or another one about the same doubt, has reported the line. */
static bool is_reported_line(const struct flmem_check *check, unsigned line)
{
	static const char *const rules[] = {"NVF-SETTING-ASSIGNED", "NVF-CLASS-PASSED-ON",
					    "NVF-IMPORTED-BY-NAME", "NVF-PARTS-ELSEWHERE", NULL};
	const struct flmem_recommendations *found = check->found;

	for (size_t i = 0; i < found->finding_count; i++)
		if (found->findings[i].line == line &&
		    flmem_text_is_one_of(found->findings[i].rule->id, rules) &&
		    strcmp(found->findings[i].file, check->input->file) == 0)
			return true;
	return false;
}

void flmem_nvflare_report_word(struct flmem_check *check, const struct flmem_python_word *word,
			       const char *path, const char *detail)
{
	struct flmem_node node = {.kind = FLMEM_NODE_STRING, .text = "", .place = word->place};

	node.place.line = flmem_document_line(&check->input->document, word->place.line);
	if (!is_reported_line(check, node.place.line))
		flmem_check_report(check, &(struct flmem_remark){
						  .node = &node, .path = path, .detail = detail});
}

static void report_use(struct flmem_nvflare_use_search *search,
		       const struct flmem_python_word *word)
{
	if (!search->reports || search->reported++ >= REPORTED_MAX)
		return;
	flmem_nvflare_report_word(search->check, word, "recipe", nvflare_recipe_uses_changed);
}

/* Reads "NAME =" or "NAME: TYPE =". The reader is then after the "=". */
static bool accept_target(struct flmem_python_reader *ahead, struct flmem_nvflare_span *ret_name)
{
	struct flmem_nvflare_span name = {.start = ahead->word.place.start};

	do {
		if (ahead->word.kind != FLMEM_PYTHON_NAME)
			return false;
		name.end = ahead->word.place.end;
		flmem_python_advance(ahead);
	} while (flmem_python_accept(ahead, "."));
	if (flmem_python_is(&ahead->word, ":"))
		for (unsigned i = 0; i < ANNOTATION_MAX && !flmem_python_is(&ahead->word, "=") &&
				     !flmem_python_ends(&ahead->word);
		     i++)
			flmem_python_advance(ahead);
	if (!flmem_python_is(&ahead->word, "=") || ahead->word.text[1] == '=')
		return false;
	flmem_python_advance(ahead);
	*ret_name = name;
	return true;
}

/*
 * Whether a statement imports from another package than NVFlare: "import A as NAME", "from A import
 * NAME".
 */
static bool imports_others(struct flmem_python_reader ahead)
{
	return (flmem_python_accept(&ahead, "from") || flmem_python_accept(&ahead, "import")) &&
	       !flmem_python_is(&ahead.word, "nvflare");
}

static void begin_statement(struct flmem_nvflare_use_search *search)
{
	static const char *const fronts[] = {"return", "yield", "with",	  "del",   "await", "if",
					     "elif",   "while", "assert", "raise", NULL};
	static const char *const headers[] = {"def", "class", NULL};
	static const char *const compounds[] = {"if",	"elif",	   "else",  "for",   "while",
						"def",	"class",   "async", "try",   "except",
						"with", "finally", "case",  "match", NULL};
	struct flmem_python_reader ahead = search->reader, definition = ahead;
	const struct flmem_python_word *word = &search->reader.word;

	search->depth = 0;
	search->levels[0] = (struct flmem_nvflare_use_level){
		.header = flmem_python_is_any(word, headers) ||
			  (flmem_python_accept(&definition, "async") &&
			   flmem_python_is(&definition.word, "def")),
		.front = flmem_python_is_any(word, fronts) ? *word : search->reader.before};
	search->statement = *word;
	search->declares = flmem_python_is_declaration(word);
	search->compound = flmem_python_is_any(word, compounds);
	search->imports = imports_others(search->reader);
	search->rebinds = false;
	search->target_count = 0;
	while (search->target_count < FLMEM_NVFLARE_TARGETS_MAX &&
	       accept_target(&ahead, &search->targets[search->target_count]))
		search->rebinds |= flmem_nvflare_is_recipe(search->recipes,
							   search->targets[search->target_count++]);
}

/* Whether a word before a "(" is an operator or keyword, not a function. */
static bool is_operator_word(const struct flmem_python_word *word)
{
	static const char *const words[] = {"return", "in",	"and",	  "or",	   "not",  "if",
					    "else",   "elif",	"yield",  "await", "is",   "lambda",
					    "for",    "while",	"assert", "del",   "with", "raise",
					    "from",   "import", "except", NULL};

	return flmem_python_is_any(word, words);
}

static void open_level(struct flmem_nvflare_use_search *search)
{
	const struct flmem_python_word *word = &search->reader.word;
	const struct flmem_python_word *before = &search->reader.before;
	struct flmem_nvflare_use_level level = {.mark = *word->text, .front = *word};

	level.header = !search->depth && search->levels[0].header;
	if (level.mark == '(' &&
	    ((before->kind == FLMEM_PYTHON_NAME && !is_operator_word(before)) ||
	     flmem_python_is(before, ")") || flmem_python_is(before, "]"))) {
		level.function = *before;
		level.first = search->first;
		level.member = flmem_python_is(&search->earlier, ".");
	}
	if (++search->depth < FLMEM_NVFLARE_LEVELS_MAX)
		search->levels[search->depth] = level;
}

static void note_mark(struct flmem_nvflare_use_search *search)
{
	const struct flmem_python_word *word = &search->reader.word;
	struct flmem_nvflare_use_level *level = flmem_nvflare_use_level(search);
	static const char *const arguments[] = {"(", ",", NULL};
	char mark = *word->text;

	if (strchr("([{", mark)) {
		open_level(search);
	} else if (strchr(")]}", mark)) {
		search->depth -= search->depth > 0;
	} else if (mark == ',') {
		level->index++;
		if (!flmem_python_is(&level->front, "assert"))
			level->front = *word;
		level->keyword = (struct flmem_python_word){0};
	} else if (mark == '=' && word->text[1] != '=' &&
		   !flmem_python_is(&search->reader.before, "=")) {
		level->front = *word;
		if (flmem_python_is_any(&search->earlier, arguments))
			level->keyword = search->reader.before;
	}
}

/*
 * Reports a value other than a recipe that is assigned to the name of one, unless it is a literal
 * or made by the script.
 */
static void check_rebinding(struct flmem_nvflare_use_search *search)
{
	static const char *const fronts[] = {"=", "else", "or", NULL};
	static const char *const values[] = {"None", "True", "False", "not", "lambda", NULL};
	const struct flmem_nvflare_recipe_call *call;
	struct flmem_python_reader ahead = search->reader;
	struct flmem_python_word word;
	struct flmem_nvflare_use use;

	if (!search->rebinds || search->depth ||
	    !flmem_python_is_any(&search->reader.before, fronts) ||
	    ahead.word.place.start < search->targets[search->target_count - 1].end)
		return;
	while (flmem_python_is(&ahead.word, "(") || flmem_python_is(&ahead.word, "await"))
		flmem_python_advance(&ahead);
	word = ahead.word;
	call = flmem_nvflare_recipe_call_at(search->recipes, word.place.start);
	if (word.kind != FLMEM_PYTHON_NAME || flmem_python_is_any(&word, values) ||
	    (call && call->is_own) || flmem_nvflare_use_find(search, &ahead, &use))
		return;
	do {
		word = ahead.word;
		flmem_python_advance(&ahead);
	} while (flmem_python_accept(&ahead, "."));
	if (flmem_python_is(&ahead.word, "(") &&
	    flmem_nvflare_defined(search->recipes, flmem_nvflare_span_of(&word)))
		return;
	report_use(search, &search->reader.word);
}

/*
 * Whether a function that is called with a string is the built-in one, not a method of that name,
 * as in re.compile("x").
 */
static bool is_built_in_call(const struct flmem_nvflare_use_search *search)
{
	return search->first.place.start == search->earlier.place.start ||
	       flmem_python_is(&search->first, "builtins");
}

/*
 * Reports code in a string that may change a recipe: exec("recipe._job = 1"),
 * eval("recipe.clear()").
 */
static void check_code_text(struct flmem_nvflare_use_search *search)
{
	const struct flmem_python_word *word = &search->reader.word;
	struct flmem_nvflare_recipes *recipes = search->recipes;
	bool made = recipes->name_count;
	static const char *const runs[] = {"exec", "compile", NULL};

	if (flmem_nvflare_use_reaches(search))
		report_use(search, word);
	if (!flmem_python_is(&search->reader.before, "(") || !is_built_in_call(search))
		return;
	if (flmem_python_is(&search->earlier, "eval"))
		for (size_t i = made = 0; i < recipes->name_count; i++) {
			const struct flmem_nvflare_span *name = &recipes->names[i].name;

			made |= memmem(word->text, word->place.end - word->place.start,
				       recipes->text + name->start,
				       name->end - name->start) != NULL;
		}
	else if (!flmem_python_is_any(&search->earlier, runs))
		return;
	if (made)
		report_use(search, word);
}

static void check_name(struct flmem_nvflare_use_search *search)
{
	struct flmem_nvflare_use use = {.front = search->reader.before,
					.front_earlier = search->earlier};
	bool member = flmem_python_is(&use.front, ".");
	if (!member || search->earlier.kind != FLMEM_PYTHON_NAME)
		search->first = search->reader.word;
	if (flmem_python_is(&search->reader.word, "lambda"))
		flmem_nvflare_use_level(search)->lambda = true;
	if (flmem_nvflare_use_reaches(search))
		report_use(search, &search->reader.word);
	if (search->declares && !search->imports)
		return;
	if (!(member && search->earlier.kind == FLMEM_PYTHON_NAME) &&
	    flmem_nvflare_use_find(search, &search->reader, &use) &&
	    flmem_nvflare_use_changes(search, &use))
		report_use(search, &use.word);
}

static void walk_word(struct flmem_nvflare_use_search *search);

/*
 * Walks over a field of an f-string: f"{mutate(recipe)}". A field is shown, as an argument of
 * print() is.
 */
static void walk_field(struct flmem_nvflare_use_search *search)
{
	static const char shows[] = "print";
	const size_t depth = search->depth;

	if (++search->depth < FLMEM_NVFLARE_LEVELS_MAX)
		search->levels[search->depth] = (struct flmem_nvflare_use_level){
			.mark = '(',
			.function = {.kind = FLMEM_PYTHON_NAME,
				     .text = shows,
				     .place.end = sizeof(shows) - 1},
			.first.place.start = SIZE_MAX,
			.front = search->reader.before};
	while (search->reader.word.kind != FLMEM_PYTHON_END && search->depth > depth)
		walk_word(search);
	search->depth = depth;
}

static void walk_fields(struct flmem_nvflare_use_search *search)
{
	const struct flmem_python_reader reader = search->reader;
	const struct flmem_python_word earlier = search->earlier, first = search->first;
	size_t at = 0;

	while (flmem_python_has_fields(&reader.word) &&
	       flmem_python_field_next(&reader.python, &reader.word, &at, &search->reader)) {
		search->earlier = reader.word;
		search->field = true;
		walk_field(search);
		search->field = false;
	}
	search->reader = reader;
	search->earlier = earlier;
	search->first = first;
}

static void walk_word(struct flmem_nvflare_use_search *search)
{
	const struct flmem_python_word before = search->reader.before;

	if (search->reader.word.kind == FLMEM_PYTHON_NAME)
		check_name(search);
	else if (search->reader.word.kind == FLMEM_PYTHON_MARK)
		note_mark(search);
	if (search->reader.word.kind == FLMEM_PYTHON_STRING) {
		check_code_text(search);
		walk_fields(search);
	}
	flmem_python_advance(&search->reader);
	search->earlier = before;
}

/*
 * Whether a statement begins at the current word. A ":" of a lambda or an annotation begins none.
 */
static bool is_at_statement(const struct flmem_nvflare_use_search *search)
{
	const struct flmem_python_reader *reader = &search->reader;
	bool opens = reader->word.kind == FLMEM_PYTHON_MARK && strchr("([{", *reader->word.text);

	if (reader->python.brackets > opens)
		return false;
	return flmem_python_ends(&reader->before) ||
	       (search->compound && !search->levels[0].lambda &&
		flmem_python_is(&reader->before, ":"));
}

static void walk_uses(struct flmem_nvflare_use_search *search)
{
	const struct flmem_python_part part = {.line = 1};
	const struct flmem_python_source source = {
		.text = search->recipes->text, .parts = &part, .count = 1};

	flmem_python_start(&search->reader, &source, 0);
	search->grown = false;
	search->skips = 0;
	while (search->reader.word.kind != FLMEM_PYTHON_END) {
		if (is_at_statement(search))
			begin_statement(search);
		check_rebinding(search);
		walk_word(search);
	}
}

void flmem_nvflare_follow_recipes(struct flmem_check *check, struct flmem_nvflare_recipes *recipes)
{
	struct flmem_nvflare_use_search search = {.check = check, .recipes = recipes};

	for (unsigned i = 0; i < ROUNDS_MAX && (!i || search.grown); i++)
		walk_uses(&search);
	recipes->full |= search.grown;
}

/* Whether a function returns a recipe, or has a parameter that receives one. */
static bool handles_recipe(const struct flmem_nvflare_recipes *recipes,
			   const struct flmem_nvflare_definition *function)
{
	for (size_t i = 0; i < recipes->name_count; i++)
		if (recipes->names[i].parameter &&
		    recipes->names[i].scope.start == function->scope.start)
			return true;
	return function->makes_recipe;
}

void flmem_nvflare_check_recipe_uses(struct flmem_check *check,
				     struct flmem_nvflare_recipes *recipes)
{
	struct flmem_nvflare_use_search search = {
		.check = check, .recipes = recipes, .reports = true};

	if (!recipes->name_count && !recipes->makes_recipe)
		return;
	walk_uses(&search);
	for (size_t i = 0; i < recipes->definition_count; i++)
		if (recipes->definitions[i].decorator.text &&
		    handles_recipe(recipes, &recipes->definitions[i]))
			report_use(&search, &recipes->definitions[i].decorator);
	if (recipes->full)
		report_use(&search, &search.reader.word);
}
