/* SPDX-License-Identifier: Apache-2.0 */
/* Finds where a script reaches variables by names in strings, or all variables at once. */
#include <string.h>

#include "base/text/text.h"
#include "documents/python/python_fields.h"
#include "frameworks/nvflare/recipes/nvflare_recipe_search.h"

/* Whether the current name is the built-in function, not a method: "eval", "builtins.eval". */
static bool is_built_in(const struct flmem_nvflare_use_search *search)
{
	static const char *const modules[] = {"builtins", "__builtins__", "__builtin__", NULL};

	return !flmem_python_is(&search->reader.before, ".") ||
	       flmem_python_is_any(&search->earlier, modules);
}

/* Whether a name that is a recipe, or a function that makes one, is visible at the current word. */
static bool has_recipe_in_scope(const struct flmem_nvflare_use_search *search)
{
	const struct flmem_nvflare_recipes *recipes = search->recipes;
	size_t at = search->reader.word.place.start;

	for (size_t i = 0; i < recipes->name_count; i++)
		if (at >= recipes->names[i].scope.start && at < recipes->names[i].scope.end)
			return true;
	for (size_t i = 0; i < recipes->definition_count; i++)
		if (recipes->definitions[i].makes_recipe)
			return true;
	return false;
}

static bool is_f_string(const struct flmem_python_word *word)
{
	size_t prefix = strcspn(word->text, "\"'");

	return memchr(word->text, 'f', prefix) || memchr(word->text, 'F', prefix);
}

static bool equals_part(const char *text, struct flmem_nvflare_span name, const char *part,
			size_t length)
{
	return name.end - name.start == length && memcmp(text + name.start, part, length) == 0;
}

/*
 * Whether a string is the name of a recipe, or a path that ends in one. An f-string may be any
 * name.
 */
static bool names_recipe(const struct flmem_nvflare_recipes *recipes,
			 const struct flmem_python_word *word)
{
	const char *start = word->text + strcspn(word->text, "\"'"), *end, *dot;
	size_t length;

	start += strspn(start, "\"'");
	end = word->text + (word->place.end - word->place.start);
	length = start < end ? strcspn(start, "\"'") : 0;
	dot = memrchr(start, '.', length);
	if (dot) {
		length -= (size_t)(dot + 1 - start);
		start = dot + 1;
	}
	for (size_t i = 0; i < recipes->name_count; i++)
		if (equals_part(recipes->text, recipes->names[i].name, start, length))
			return true;
	for (size_t i = 0; i < recipes->definition_count; i++)
		if (recipes->definitions[i].makes_recipe &&
		    equals_part(recipes->text, recipes->definitions[i].name, start, length))
			return true;
	return is_f_string(word);
}

/* Whether "[KEY]" or ".get(KEY" of a map of variables may select a recipe. */
static bool takes_recipe(const struct flmem_nvflare_recipes *recipes,
			 struct flmem_python_reader ahead)
{
	static const char *const methods[] = {"get", "pop", "setdefault", NULL};

	if (flmem_python_accept(&ahead, ".")) {
		if (flmem_python_is(&ahead.word, "keys"))
			return false;
		if (!flmem_python_is_any(&ahead.word, methods))
			return true;
		flmem_python_advance(&ahead);
	}
	flmem_python_advance(&ahead);
	return !flmem_python_at_literal(&ahead) || names_recipe(recipes, &ahead.word);
}

/* Whether locals(), globals() or vars() without an object is used so that it may reach a recipe. */
static bool reads_variables(struct flmem_nvflare_use_search *search,
			    struct flmem_python_reader ahead)
{
	static const char *const tests[] = {"in", "%", NULL};
	const struct flmem_python_word *function = &flmem_nvflare_use_level(search)->function;

	if (!flmem_python_accept(&ahead, "(") || !flmem_python_accept(&ahead, ")"))
		return false;
	if (flmem_python_is(&ahead.word, "[") || flmem_python_is(&ahead.word, "."))
		return takes_recipe(search->recipes, ahead);
	return !flmem_python_is_any(&search->reader.before, tests) &&
	       !flmem_python_is(function, "format") && !flmem_nvflare_only_shows_object(function);
}

/* Whether a built-in function is kept without a call: "e = exec". */
static bool is_kept_built_in(const struct flmem_nvflare_use_search *search,
			     const struct flmem_python_reader *ahead)
{
	static const char *const fronts[] = {"def", "class", "as", NULL};
	static const char *const nexts[] = {"(", "=", ".", ":", NULL};

	return !search->declares && !flmem_python_is_any(&search->reader.before, fronts) &&
	       !flmem_python_is_any(&ahead->word, nexts);
}

/* Whether eval(TEXT) runs code that is not one literal; a literal is read elsewhere. */
static bool runs_unknown_code(struct flmem_python_reader ahead)
{
	static const char *const ends[] = {")", ",", NULL};
	bool literal;

	if (!flmem_python_accept(&ahead, "(") || flmem_python_is(&ahead.word, ")"))
		return false;
	literal = ahead.word.kind == FLMEM_PYTHON_STRING && !is_f_string(&ahead.word);
	flmem_python_advance(&ahead);
	return !literal || !flmem_python_is_any(&ahead.word, ends);
}

/*
 * Whether sys.modules[__name__] or import_module(__name__) is used, not only its __doc__ or
 * __file__.
 */
static bool is_own_module_name(const struct flmem_nvflare_use_search *search,
			       struct flmem_python_reader ahead)
{
	static const char *const functions[] = {"modules", "import_module", "__import__", "reload",
						NULL};

	if (!flmem_python_is_any(&search->earlier, functions))
		return false;
	if (!flmem_python_accept(&ahead, "]") && !flmem_python_accept(&ahead, ")"))
		return true;
	return !flmem_python_accept(&ahead, ".") || !flmem_text_starts(ahead.word.text, "__");
}

static bool has_member(const struct flmem_nvflare_recipes *recipes)
{
	for (size_t i = 0; i < recipes->name_count; i++)
		if (recipes->names[i].member)
			return true;
	return false;
}

/* Whether getattr(self, NAME) or getattr(CLASS, NAME) may select an attribute that is a recipe. */
static bool takes_any_member(const struct flmem_nvflare_use_search *search,
			     struct flmem_python_reader ahead)
{
	const struct flmem_nvflare_definition *class;

	if (!flmem_python_accept(&ahead, "(") || !has_member(search->recipes))
		return false;
	class = flmem_nvflare_defined(search->recipes, flmem_nvflare_span_of(&ahead.word));
	if (!(class && class->is_class) && !flmem_python_is(&ahead.word, "self") &&
	    !flmem_python_is(&ahead.word, "cls"))
		return false;
	flmem_python_advance(&ahead);
	return flmem_python_accept(&ahead, ",") && !flmem_python_at_literal(&ahead);
}

/* Whether the script imports itself as a module: "import SCRIPT", "from SCRIPT import r". */
static bool imports_itself(const struct flmem_nvflare_use_search *search,
			   const struct flmem_python_reader *ahead)
{
	const char *name = flmem_text_basename(search->check->input->file);
	const struct flmem_python_word *word = &search->reader.word,
				       *before = &search->reader.before;
	size_t length = strcspn(name, ".");

	if (word->place.end - word->place.start != length ||
	    strncmp(word->text, name, length) != 0 || flmem_python_is(&ahead->word, "."))
		return false;
	if (flmem_python_is(&search->statement, "import"))
		return flmem_python_is(before, "import") || flmem_python_is(before, ",");
	return flmem_python_is(&search->statement, "from") &&
	       (flmem_python_is(before, "from") ||
		(flmem_python_is(before, "import") && flmem_python_is(&search->earlier, ".")));
}

/* Whether gc.get_objects() and the like are used, not only for their number. */
static bool reaches_objects(struct flmem_nvflare_use_search *search)
{
	static const char *const names[] = {"get_objects", "get_referrers", "get_referents",
					    "py_object", NULL};

	return flmem_python_is_any(&search->reader.word, names) && !search->declares &&
	       !flmem_nvflare_only_shows_object(&flmem_nvflare_use_level(search)->function);
}

static bool reaches_by_name(struct flmem_nvflare_use_search *search)
{
	static const char *const frames[] = {"f_locals",    "f_globals", "__globals__",
					     "__closure__", "__main__",	 NULL};
	static const char *const spaces[] = {"locals", "globals", "vars", NULL};
	static const char *const runs[] = {"eval", "exec", "compile", NULL};
	const struct flmem_python_word *word = &search->reader.word;
	struct flmem_python_reader ahead = search->reader;

	flmem_python_advance(&ahead);
	if (flmem_python_is_any(word, frames) || reaches_objects(search) ||
	    imports_itself(search, &ahead))
		return true;
	if (flmem_python_is(word, "__name__"))
		return is_own_module_name(search, ahead);
	if (!is_built_in(search))
		return false;
	if (flmem_python_is_any(word, spaces))
		return reads_variables(search, ahead) ||
		       (!flmem_python_is(word, "vars") && is_kept_built_in(search, &ahead));
	if (flmem_python_is_any(word, runs))
		return runs_unknown_code(ahead) ||
		       (!flmem_python_is(word, "compile") && is_kept_built_in(search, &ahead));
	return flmem_python_is(word, "getattr") && takes_any_member(search, ahead);
}

bool flmem_nvflare_use_reaches(struct flmem_nvflare_use_search *search)
{
	static const char *const functions[] = {"getattr", "getattr_static", "attrgetter", NULL};
	const struct flmem_python_word *word = &search->reader.word;
	const struct flmem_nvflare_use_level *level = flmem_nvflare_use_level(search);

	if (!has_recipe_in_scope(search))
		return false;
	if (word->kind == FLMEM_PYTHON_NAME)
		return reaches_by_name(search);
	return flmem_python_is_any(&level->function, functions) &&
	       level->index == !flmem_python_is(&level->function, "attrgetter") &&
	       !is_f_string(word) && names_recipe(search->recipes, word);
}
