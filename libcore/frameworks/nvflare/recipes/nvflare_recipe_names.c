/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the names of recipes in a script, and what the script defines and calls. */
#include "frameworks/nvflare/recipes/nvflare_recipes.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "frameworks/nvflare/nvflare_classes.h"

#define PARAMETERS_MAX	  64U
#define DEFINITIONS_DEPTH 32U
#define INDENT_MAX	  1024U

struct flmem_nvflare_span flmem_nvflare_span_of(const struct flmem_python_word *word)
{
	return (struct flmem_nvflare_span){.start = word->place.start, .end = word->place.end};
}

static bool equals_span(const char *text, struct flmem_nvflare_span a, struct flmem_nvflare_span b)
{
	return a.end - a.start == b.end - b.start &&
	       memcmp(text + a.start, text + b.start, a.end - a.start) == 0;
}

/* Reads "class" or "def", also after "async". The reader is then at the name. */
static bool begins_definition(struct flmem_python_reader *ahead, bool *ret_class)
{
	*ret_class = flmem_python_is(&ahead->word, "class");
	flmem_python_accept(ahead, "async");
	if (!flmem_python_accept(ahead, "def") && !flmem_python_accept(ahead, "class"))
		return false;
	return ahead->word.kind == FLMEM_PYTHON_NAME;
}

static bool begins_source_line(const char *text, const struct flmem_python_word *word)
{
	const char *first = text + word->place.start - (word->place.column - 1);

	return word->place.column <= INDENT_MAX && strspn(first, " \t") == word->place.column - 1;
}

/*
 * Whether a decorator of the standard library or of pytest changes neither arguments nor results.
 */
static bool is_known_decorator(const struct flmem_python_word *name)
{
	static const char *const names[] = {
		"staticmethod", "classmethod", "cache",		  "lru_cache", "abstractmethod",
		"overload",	"override",    "final",		  "dataclass", "fixture",
		"property",	"setter",      "cached_property", NULL};

	return flmem_python_is_any(name, names);
}

/* Reads the decorator after a "@": the last part of its name decides. */
static void read_decorator(struct flmem_python_reader ahead,
			   struct flmem_nvflare_definition *decorated)
{
	const struct flmem_python_word mark = ahead.word;
	struct flmem_python_word name;

	do {
		flmem_python_advance(&ahead);
		name = ahead.word;
		flmem_python_advance(&ahead);
	} while (flmem_python_is(&ahead.word, "."));
	if (!is_known_decorator(&name))
		decorated->decorator = mark;
	decorated->is_property |=
		flmem_python_is(&name, "property") || flmem_python_is(&name, "cached_property");
}

/* Reads the functions and classes of the script. Where one ends is found by the indents. */
static void read_definitions(struct flmem_nvflare_recipes *recipes)
{
	const struct flmem_python_part part = {.line = 1};
	const struct flmem_python_source source = {
		.text = recipes->text, .parts = &part, .count = 1};
	struct flmem_nvflare_definition decorated = {0};
	struct flmem_python_reader reader;
	size_t open[DEFINITIONS_DEPTH], depth = 0;

	flmem_python_start(&reader, &source, 0);
	for (; reader.word.kind != FLMEM_PYTHON_END; flmem_python_advance(&reader)) {
		struct flmem_python_reader ahead = reader;
		struct flmem_nvflare_definition *last;
		bool is_class;

		if (!flmem_python_at_statement(&reader) || reader.word.kind == FLMEM_PYTHON_LINE ||
		    !begins_source_line(recipes->text, &reader.word))
			continue;
		while (depth &&
		       recipes->definitions[open[depth - 1]].column >= reader.word.place.column)
			recipes->definitions[open[--depth]].scope.end = reader.word.place.start;
		if (flmem_python_is(&reader.word, "@"))
			read_decorator(reader, &decorated);
		if (!begins_definition(&ahead, &is_class))
			continue;
		if (recipes->definition_count == FLMEM_NVFLARE_FUNCTIONS_MAX ||
		    depth == DEFINITIONS_DEPTH) {
			recipes->full = true;
			continue;
		}
		open[depth++] = recipes->definition_count;
		last = &recipes->definitions[recipes->definition_count++];
		*last = (struct flmem_nvflare_definition){
			.name = flmem_nvflare_span_of(&ahead.word),
			.scope = {.start = ahead.word.place.start, .end = SIZE_MAX},
			.column = reader.word.place.column,
			.is_class = is_class,
			.is_property = decorated.is_property,
			.decorator = decorated.decorator};
		decorated = (struct flmem_nvflare_definition){0};
	}
}

static int compare_calls(const void *a, const void *b)
{
	const struct flmem_nvflare_recipe_call *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

static bool read_calls(struct flmem_nvflare_recipes *recipes, const struct flmem_check *check)
{
	const struct flmem_node *n = flmem_nvflare_first(check, "calls");
	size_t count = 0;

	for (const struct flmem_node *m = n; m; m = m->next)
		count++;
	recipes->calls = calloc(count + 1, sizeof(*recipes->calls));
	if (!recipes->calls)
		return false;
	for (; n; n = n->next) {
		const char *path = flmem_nvflare_path_text(n);

		recipes->makes_recipe |= flmem_text_ends(path, "Recipe");
		recipes->calls[recipes->call_count++] = (struct flmem_nvflare_recipe_call){
			.start = n->place.start,
			.end = n->place.end,
			.makes_recipe = flmem_text_ends(path, "Recipe"),
			.is_own = flmem_text_starts(path, "nvflare."),
			.of_class = strstr(path, "Recipe.") != NULL};
	}
	qsort(recipes->calls, recipes->call_count, sizeof(*recipes->calls), compare_calls);
	return true;
}

bool flmem_nvflare_recipes_init(struct flmem_nvflare_recipes *recipes,
				const struct flmem_check *check)
{
	memset(recipes, 0, sizeof(*recipes));
	recipes->text = check->input->document.text.data;
	read_definitions(recipes);
	return read_calls(recipes, check);
}

void flmem_nvflare_recipes_clear(struct flmem_nvflare_recipes *recipes)
{
	free(recipes->calls);
}

const struct flmem_nvflare_recipe_call *
flmem_nvflare_recipe_call_at(const struct flmem_nvflare_recipes *recipes, size_t at)
{
	const struct flmem_nvflare_recipe_call key = {.start = at};

	return bsearch(&key, recipes->calls, recipes->call_count, sizeof(*recipes->calls),
		       compare_calls);
}

/* Shortens "a.b" to the part after the last dot. Returns false if there is no dot. */
static bool last_part(const char *text, struct flmem_nvflare_span *name)
{
	const char *dot = memrchr(text + name->start, '.', name->end - name->start);

	if (dot)
		name->start = (size_t)(dot + 1 - text);
	return dot;
}

/* Whether a name is an attribute that holds a recipe, or a property that returns one. */
static bool is_recipe_member(const struct flmem_nvflare_recipes *recipes,
			     struct flmem_nvflare_span name)
{
	if (!last_part(recipes->text, &name))
		return false;
	for (size_t i = 0; i < recipes->name_count; i++)
		if (recipes->names[i].member &&
		    equals_span(recipes->text, recipes->names[i].name, name))
			return true;
	for (size_t i = 0; i < recipes->definition_count; i++)
		if (recipes->definitions[i].is_property && recipes->definitions[i].makes_recipe &&
		    equals_span(recipes->text, recipes->definitions[i].name, name))
			return true;
	return false;
}

bool flmem_nvflare_is_recipe(const struct flmem_nvflare_recipes *recipes,
			     struct flmem_nvflare_span name)
{
	if (is_recipe_member(recipes, name))
		return true;
	for (size_t i = 0; i < recipes->name_count; i++) {
		const struct flmem_nvflare_recipe_name *known = &recipes->names[i];

		if (known->member)
			continue;
		if (name.start >= known->scope.start && name.start < known->scope.end &&
		    equals_span(recipes->text, known->name, name))
			return true;
	}
	return false;
}

static struct flmem_nvflare_definition *definition_at(struct flmem_nvflare_recipes *recipes,
						      size_t at, bool classes)
{
	struct flmem_nvflare_definition *found = NULL;

	for (size_t i = 0; i < recipes->definition_count; i++) {
		struct flmem_nvflare_definition *one = &recipes->definitions[i];

		if ((classes || !one->is_class) && at >= one->scope.start && at < one->scope.end)
			found = one; /* later definitions begin further in */
	}
	return found;
}

struct flmem_nvflare_definition *flmem_nvflare_function_at(struct flmem_nvflare_recipes *recipes,
							   size_t at)
{
	return definition_at(recipes, at, false);
}

static bool add_recipe_name(struct flmem_nvflare_recipes *recipes,
			    const struct flmem_nvflare_recipe_name *name)
{
	if (recipes->name_count == FLMEM_NVFLARE_NAMES_MAX) {
		recipes->full = true;
		return false;
	}
	recipes->names[recipes->name_count++] = *name;
	return true;
}

/*
 * Whether a function has "global NAME" or "nonlocal NAME", so that its names are those of the whole
 * script.
 */
static bool has_globals(const char *text, const struct flmem_nvflare_definition *function)
{
	size_t end = function->scope.end == SIZE_MAX ? strlen(text) : function->scope.end;
	size_t length = end - function->scope.start;

	return memmem(text + function->scope.start, length, "global ", 7) ||
	       memmem(text + function->scope.start, length, "nonlocal ", 9);
}

bool flmem_nvflare_recipe_add(struct flmem_nvflare_recipes *recipes, struct flmem_nvflare_span name)
{
	const struct flmem_nvflare_definition *around = definition_at(recipes, name.start, true);
	const struct flmem_nvflare_definition *function =
		flmem_nvflare_function_at(recipes, name.start);
	struct flmem_nvflare_recipe_name added = {.name = name, .scope = {.end = SIZE_MAX}};

	if (flmem_nvflare_is_recipe(recipes, name))
		return false;
	added.member = last_part(recipes->text, &added.name);
	/* A name of the class is an attribute of its objects, too. */
	if (around && around->is_class && !added.member) {
		struct flmem_nvflare_recipe_name member = added;

		member.member = true;
		add_recipe_name(recipes, &member);
	} else if (function && !added.member && !has_globals(recipes->text, function)) {
		added.scope = function->scope;
	}
	return add_recipe_name(recipes, &added);
}

struct flmem_nvflare_definition *flmem_nvflare_defined(struct flmem_nvflare_recipes *recipes,
						       struct flmem_nvflare_span name)
{
	for (size_t i = 0; i < recipes->definition_count; i++)
		if (equals_span(recipes->text, recipes->definitions[i].name, name))
			return &recipes->definitions[i];
	return NULL;
}

/* The method __init__ of a class of the script; NULL if it has none. */
static struct flmem_nvflare_definition *constructor_of(struct flmem_nvflare_recipes *recipes,
						       const struct flmem_nvflare_definition *class)
{
	static const char name[] = "__init__";

	for (size_t i = 0; i < recipes->definition_count; i++) {
		struct flmem_nvflare_definition *one = &recipes->definitions[i];

		if (one->name.start > class->name.start && one->name.start < class->scope.end &&
		    one->name.end - one->name.start == sizeof(name) - 1 &&
		    strncmp(recipes->text + one->name.start, name, sizeof(name) - 1) == 0)
			return one;
	}
	return NULL;
}

/* A walk over the parameters of a function, from the "(" after its name on. */
struct parameter_reader {
	struct flmem_python_reader reader;
	int depth;
	unsigned index;
};

/* Moves to the next parameter. Returns false at the end. */
static bool next_parameter(struct parameter_reader *at)
{
	for (unsigned i = 0; i < PARAMETERS_MAX && at->reader.word.kind != FLMEM_PYTHON_END; i++) {
		const struct flmem_python_word word = at->reader.word;
		char mark = word.kind == FLMEM_PYTHON_MARK ? *word.text : '\0';

		if (mark && strchr("([{", mark))
			at->depth++;
		else if (mark && strchr(")]}", mark) && --at->depth == 0)
			return false;
		flmem_python_advance(&at->reader);
		if (at->depth == 1 && (mark == '(' || mark == ','))
			return true;
	}
	return false;
}

/* The parameter that receives an argument; an empty name if there is none. */
static struct flmem_nvflare_span find_parameter(const struct flmem_nvflare_recipes *recipes,
						const struct flmem_nvflare_definition *function,
						const struct flmem_nvflare_argument *argument)
{
	const struct flmem_python_part part = {.at = function->name.end, .line = 1};
	const struct flmem_python_source source = {
		.text = recipes->text, .parts = &part, .count = 1};
	struct flmem_nvflare_span none = {0};
	struct parameter_reader at = {.depth = 0};
	unsigned index = 0, wanted = argument->index;
	bool keyed = argument->keyword.end > argument->keyword.start;

	flmem_python_start(&at.reader, &source, 0);
	while (index < PARAMETERS_MAX && next_parameter(&at)) {
		struct flmem_python_reader ahead = at.reader;
		unsigned stars = 0;

		while (flmem_python_accept(&ahead, "*"))
			stars++;
		if (ahead.word.kind != FLMEM_PYTHON_NAME)
			continue;
		if (!index && argument->is_method &&
		    (flmem_python_is(&ahead.word, "self") || flmem_python_is(&ahead.word, "cls")))
			continue;
		if (keyed ? stars == 2 || equals_span(recipes->text, argument->keyword,
						      flmem_nvflare_span_of(&ahead.word))
			  : stars == 1 || index == wanted)
			return flmem_nvflare_span_of(&ahead.word);
		index++;
	}
	return none;
}

bool flmem_nvflare_recipe_pass(struct flmem_nvflare_recipes *recipes,
			       const struct flmem_nvflare_argument *argument, bool *ret_new)
{
	struct flmem_nvflare_argument found = *argument;
	const struct flmem_nvflare_definition *function =
		flmem_nvflare_defined(recipes, argument->function);
	struct flmem_nvflare_span name;

	if (function && function->is_class) {
		function = constructor_of(recipes, function);
		found.is_method = true;
	}
	if (!function)
		return false;
	name = find_parameter(recipes, function, &found);
	if (name.end == name.start)
		return false;
	if (!flmem_nvflare_is_recipe(recipes, name))
		*ret_new |= add_recipe_name(
			recipes, &(struct flmem_nvflare_recipe_name){.name = name,
								     .scope = function->scope,
								     .parameter = true});
	return true;
}
