/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a use of a recipe by a script may change the settings of its job. Methods are
 * those of 2.7.2 to 2.9.0, recipe/spec.py and classes that inherit from it.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "documents/python/python_fields.h"
#include "frameworks/nvflare/nvflare_classes.h"
#include "frameworks/nvflare/recipes/nvflare_recipe_search.h"

/* Brackets that are skipped in one walk: a hostile script nests any number. */
#define SKIPS_MAX   256U
#define SKIPPED_MAX 4096U

struct flmem_nvflare_use_level *flmem_nvflare_use_level(struct flmem_nvflare_use_search *search)
{
	return &search->levels[search->depth < FLMEM_NVFLARE_LEVELS_MAX
				       ? search->depth
				       : FLMEM_NVFLARE_LEVELS_MAX - 1];
}

/* Methods of recipes. Their arguments are checked by other rules. */
const char *const flmem_nvflare_recipe_methods[] = {"execute",
						    "run",
						    "export",
						    "process_env",
						    "finalize",
						    "configured_sites",
						    "add_client_config",
						    "add_client_file",
						    "add_client_input_filter",
						    "add_client_output_filter",
						    "add_server_config",
						    "add_server_file",
						    "add_server_input_filter",
						    "add_server_output_filter",
						    "add_cse_validator_if_needed",
						    "add_decomposers",
						    "enable_log_streaming",
						    "enable_tensor_streaming",
						    "set_per_site_config",
						    "set_server_prop",
						    "set_client_prop",
						    NULL};

/* Methods that only read the object that an attribute holds. */
static bool is_reading_method(const struct flmem_python_word *name)
{
	static const char *const names[] = {"get",    "keys",	    "items",	"values", "copy",
					    "count",  "index",	    "format",	"join",	  "lower",
					    "upper",  "startswith", "endswith", "split",  "strip",
					    "exists", "replace",    NULL};

	return flmem_python_is_any(name, names);
}

/* Attributes of every Python object that only describe it. */
static bool is_description(const struct flmem_python_word *name)
{
	static const char *const names[] = {"__class__", "__doc__", "__module__", "__name__",
					    "__repr__",	 "__str__", "__eq__",	  NULL};

	return flmem_python_is_any(name, names);
}

/* The names and keys after a dotted name: ".a.b[c].d". */
struct attribute_path {
	struct flmem_python_word first, last;
	unsigned count;
};

static void skip_use_brackets(struct flmem_nvflare_use_search *search,
			      struct flmem_python_reader *ahead)
{
	int depth = 0;

	if (search->skips >= SKIPS_MAX)
		return;
	search->skips++;
	for (unsigned i = 0; i < SKIPPED_MAX && ahead->word.kind != FLMEM_PYTHON_END; i++) {
		char mark = ahead->word.kind == FLMEM_PYTHON_MARK ? *ahead->word.text : '\0';

		depth += (mark && strchr("([{", mark)) - (mark && strchr(")]}", mark));
		flmem_python_advance(ahead);
		if (!depth)
			return;
	}
}

static struct attribute_path read_chain(struct flmem_nvflare_use_search *search,
					struct flmem_python_reader *ahead)
{
	struct attribute_path chain = {.count = 0};

	while (chain.count < FLMEM_NVFLARE_LEVELS_MAX) {
		if (flmem_python_is(&ahead->word, "[")) {
			chain.last = ahead->word;
			skip_use_brackets(search, ahead);
		} else if (flmem_python_accept(ahead, ".")) {
			chain.last = ahead->word;
			flmem_python_advance(ahead);
		} else {
			return chain;
		}
		if (!chain.count++)
			chain.first = chain.last;
	}
	return chain;
}

static bool is_assigned(const struct flmem_nvflare_use *use,
			const struct flmem_python_reader *ahead)
{
	return flmem_python_assigns(ahead) || flmem_python_is(&use->front, "del");
}

/*
 * Whether a method is kept, as in "f = recipe.run" or recipe.run.__self__: its later calls are not
 * checked.
 */
static bool keeps_method(struct flmem_nvflare_use_search *search,
			 const struct flmem_nvflare_use *use, const struct attribute_path *chain)
{
	const struct flmem_python_word *function = &flmem_nvflare_use_level(search)->function;

	if (chain->count > 1)
		return !is_description(&chain->last);
	return !flmem_python_is(&use->front, "if") && !flmem_python_is(function, "callable") &&
	       !flmem_nvflare_only_shows_object(function);
}

/* Whether recipe.METHOD(...) or recipe.ATTRIBUTE = value may change the recipe. */
static bool changes_member(struct flmem_nvflare_use_search *search,
			   const struct flmem_nvflare_use *use)
{
	/* Checked in nvflare_recipe_jobs.c. */
	static const char *const checked[] = {"job", "_job", NULL};
	struct flmem_python_reader ahead = use->ahead;
	struct attribute_path chain = read_chain(search, &ahead);

	if (flmem_python_is_any(&chain.first, checked))
		return false;
	if (search->field && (flmem_text_starts(chain.first.text, "add_") ||
			      flmem_text_starts(chain.first.text, "set_")))
		return true;
	if (flmem_python_is(&use->front, "@") && !flmem_python_is(&ahead.word, "("))
		return true;
	if (is_assigned(use, &ahead) ||
	    (flmem_python_is(&ahead.word, ":") && flmem_python_ends(&use->front)))
		return true;
	if (flmem_python_is(&ahead.word, "("))
		return chain.count == 1
			       ? !flmem_python_is_any(&chain.first, flmem_nvflare_recipe_methods) &&
					 !is_description(&chain.first)
			       : !is_reading_method(&chain.last);
	if (flmem_python_is_any(&chain.first, flmem_nvflare_recipe_methods))
		return keeps_method(search, use, &chain);
	if (flmem_python_is(&chain.first, "__dict__"))
		return chain.count == 1 && !flmem_nvflare_only_shows_object(&use->front_earlier) &&
		       !flmem_python_is(&ahead.word, ")");
	return *chain.first.text == '_' && !is_description(&chain.first);
}

/*
 * Whether what a showing function returns is changed: vars(recipe).clear(), type(recipe).run = f,
 * vars(recipe)["_job"] = x.
 */
static bool changes_shown(struct flmem_nvflare_use_search *search,
			  const struct flmem_nvflare_use *use)
{
	const struct flmem_nvflare_use_level *level = flmem_nvflare_use_level(search);
	const struct flmem_python_word *front = &search->levels[search->depth - 1].front;
	struct flmem_python_reader ahead = use->ahead;
	struct attribute_path chain;

	if (!flmem_python_accept(&ahead, ")"))
		return false;
	chain = read_chain(search, &ahead);
	if (flmem_python_assigns(&ahead))
		return chain.count;
	if (flmem_python_is(front, "del"))
		return true;
	if (flmem_python_is(&ahead.word, "("))
		return !chain.count || !is_reading_method(&chain.last);
	return !chain.count && flmem_python_is(&level->function, "vars") &&
	       flmem_python_is(front, "=");
}

/* Whether the content of a string is one of the names. */
static bool is_quoted(const char *string, const char *const *names)
{
	const char *text = string + strcspn(string, "\"'") + 1;

	for (; *names; names++)
		if (strncmp(text, *names, strlen(*names)) == 0 &&
		    strchr("\"'", text[strlen(*names)]))
			return true;
	return false;
}

/*
 * Whether getattr() only reads: getattr(recipe, "name"), not getattr(recipe, name)(...) or
 * getattr(recipe, "job").to(...).
 */
static bool reads_attribute(struct flmem_nvflare_use_search *search,
			    const struct flmem_nvflare_use *use)
{
	struct flmem_python_reader ahead = use->ahead;
	struct flmem_python_word name;
	struct attribute_path chain;

	if (!flmem_python_accept(&ahead, ",") || !flmem_python_at_literal(&ahead))
		return false;
	name = ahead.word;
	if (name.text[strcspn(name.text, "\"'") + 1] == '_')
		return false;
	for (unsigned i = 0; i < SKIPPED_MAX && !flmem_python_is(&ahead.word, ")"); i++)
		flmem_python_advance(&ahead);
	flmem_python_advance(&ahead);
	chain = read_chain(search, &ahead);
	if (flmem_python_is(&ahead.word, "("))
		return chain.count ? is_reading_method(&chain.last)
				   : is_quoted(name.text, flmem_nvflare_recipe_methods);
	return !(chain.count && is_assigned(use, &ahead));
}

/* Whether a call may change a recipe that is its argument. */
static bool changes_argument(struct flmem_nvflare_use_search *search,
			     const struct flmem_nvflare_use *use,
			     const struct flmem_nvflare_use_level *level)
{
	const struct flmem_nvflare_recipe_call *call =
		flmem_nvflare_recipe_call_at(search->recipes, level->first.place.start);
	struct flmem_nvflare_argument argument = {.function =
							  flmem_nvflare_span_of(&level->function),
						  .keyword = flmem_nvflare_span_of(&level->keyword),
						  .index = level->index,
						  .is_method = level->member};

	if (call)
		return !call->is_own || call->of_class;
	if (flmem_nvflare_only_shows_object(&level->function))
		return changes_shown(search, use);
	if (flmem_python_is(&level->function, "getattr"))
		return !reads_attribute(search, use);
	if (flmem_text_starts(level->function.text, "assert"))
		return false;
	return !flmem_nvflare_recipe_pass(search->recipes, &argument, &search->grown);
}

/*
 * Adds the targets of an assignment whose value is, or may be, the recipe. Returns true if there
 * are none.
 */
static bool note_alias(struct flmem_nvflare_use_search *search)
{
	for (size_t i = 0; i < search->target_count; i++)
		search->grown |= flmem_nvflare_recipe_add(search->recipes, search->targets[i]);
	return !search->target_count;
}

/*
 * Adds a parameter whose default is a recipe: "def f(recipe=FedAvgRecipe())". Returns true if it
 * has no name.
 */
static bool note_default_recipe(struct flmem_nvflare_use_search *search,
				const struct flmem_nvflare_use_level *level)
{
	if (level->keyword.text)
		search->grown |= flmem_nvflare_recipe_add(search->recipes,
							  flmem_nvflare_span_of(&level->keyword));
	return !level->keyword.text;
}

static bool note_returned(struct flmem_nvflare_use_search *search,
			  const struct flmem_nvflare_use *use)
{
	struct flmem_nvflare_definition *function =
		flmem_nvflare_function_at(search->recipes, use->word.place.start);

	if (flmem_python_is(&use->ahead.word, ","))
		return true;
	if (function && !function->makes_recipe) {
		function->makes_recipe = true;
		search->grown = true;
	}
	return false;
}

/* Whether operators beside the recipe only test it. */
static bool is_tested(const struct flmem_nvflare_use *use)
{
	static const char *const fronts[] = {"if", "elif",   "while", "not",	"is",
					     "in", "assert", "def",   "class",	"raise",
					     "%",  "<",	     ">",     "lambda", NULL};
	static const char *const marks[] = {"=", "!", "<", ">", NULL};
	static const char *const nexts[] = {"is", "in", "not", "!", "<", ">", NULL};
	const struct flmem_python_reader *ahead = &use->ahead;

	if (flmem_python_is(&use->front, "for") || flmem_python_is(&use->front, "as"))
		return false;
	if (flmem_python_is_any(&use->front, fronts) || flmem_python_is_any(&ahead->word, nexts))
		return true;
	if (flmem_python_is(&use->front, "=") && flmem_python_is_any(&use->front_earlier, marks) &&
	    use->front_earlier.place.end == use->front.place.start)
		return true;
	return flmem_python_is(&ahead->word, "=") && ahead->word.text[1] == '=';
}

/* The level whose operand the recipe is. Parentheses that only group are not a level. */
static const struct flmem_nvflare_use_level *operand_level(struct flmem_nvflare_use_search *search,
							   const struct flmem_nvflare_use *use)
{
	size_t depth = search->depth < FLMEM_NVFLARE_LEVELS_MAX ? search->depth
								: FLMEM_NVFLARE_LEVELS_MAX - 1;

	while (depth && search->levels[depth].mark == '(' && !search->levels[depth].function.text &&
	       !flmem_python_is(&search->levels[depth].front, "=") &&
	       !search->levels[depth].index && !flmem_python_is(&use->ahead.word, ","))
		depth--;
	return &search->levels[depth];
}

/* Whether a recipe that is a whole operand is passed to something that may change it. */
static bool passes_recipe(struct flmem_nvflare_use_search *search,
			  const struct flmem_nvflare_use *use)
{
	static const char *const keeps[] = {"with",  "del",    "await", "if", "elif",
					    "while", "assert", "raise", NULL};
	const struct flmem_nvflare_use_level *level = operand_level(search, use);
	const struct flmem_python_word *front = &level->front;

	if (flmem_python_is(&use->front, "@"))
		return true;
	if (level->header)
		return flmem_python_is(front, "=") && note_default_recipe(search, level);
	if (level->lambda || search->depth >= FLMEM_NVFLARE_LEVELS_MAX)
		return true;
	if (level->mark)
		return level->mark != '(' || !level->function.text ||
		       flmem_python_is(&use->front, "*") || changes_argument(search, use, level);
	if (flmem_python_is(front, "="))
		return note_alias(search);
	if (flmem_python_is(front, "return"))
		return note_returned(search, use);
	return !flmem_python_is_any(front, keeps) &&
	       !(flmem_python_ends(front) && flmem_python_ends(&use->ahead.word));
}

static bool is_target_name(const struct flmem_nvflare_use_search *search,
			   const struct flmem_nvflare_use *use)
{
	for (size_t i = 0; i < search->target_count; i++)
		if (search->targets[i].start == use->word.place.start &&
		    search->targets[i].end == use->end)
			return true;
	return false;
}

/* Whether a name is bound to something else than a recipe: "as NAME", "(NAME := value". */
static bool is_other_target(const struct flmem_nvflare_use *use)
{
	struct flmem_python_reader ahead = use->ahead;

	if (flmem_python_is(&use->front, "as"))
		return true;
	return flmem_python_accept(&ahead, ":") && flmem_python_is(&ahead.word, "=");
}

static bool is_keyword_at(const struct flmem_nvflare_use_search *search,
			  const struct flmem_python_reader *ahead)
{
	return search->depth && flmem_python_is(&ahead->word, "=") && ahead->word.text[1] != '=';
}

bool flmem_nvflare_use_changes(struct flmem_nvflare_use_search *search,
			       const struct flmem_nvflare_use *use)
{
	const struct flmem_python_reader *ahead = &use->ahead;

	if (use->kept)
		return !search->declares;
	if (use->end && (is_target_name(search, use) || is_keyword_at(search, ahead)))
		return false;
	if (search->imports)
		return flmem_python_is(&use->front, "as") ||
		       (flmem_python_is(&search->statement, "from") &&
			!flmem_python_is(&use->front, "from"));
	if (use->end && is_other_target(use))
		return true;
	if (flmem_python_is(&ahead->word, "."))
		return changes_member(search, use);
	if (flmem_python_is(&ahead->word, "(") || flmem_python_is(&ahead->word, "["))
		return !flmem_python_is(&use->front, "def");
	if (is_tested(use))
		return false;
	if (flmem_python_assigns(ahead))
		return true;
	return passes_recipe(search, use);
}

/*
 * Whether make(...) or self.make(...) of the script returns a recipe here. *ret_kept: the function
 * is not called.
 */
static bool is_made(struct flmem_nvflare_use_search *search, struct flmem_python_reader *ahead,
		    bool *ret_kept)
{
	static const char *const nexts[] = {"=", ":", NULL};
	const struct flmem_nvflare_definition *made;
	struct flmem_python_word name, before = ahead->before;

	for (unsigned i = 0; i < FLMEM_NVFLARE_TARGETS_MAX; i++) {
		name = ahead->word;
		flmem_python_advance(ahead);
		if (name.kind != FLMEM_PYTHON_NAME || !flmem_python_accept(ahead, "."))
			break;
	}
	made = flmem_nvflare_defined(search->recipes, flmem_nvflare_span_of(&name));
	if (!made || !made->makes_recipe || search->skips >= SKIPS_MAX ||
	    flmem_python_is(&before, "def"))
		return false;
	*ret_kept = !flmem_python_is(&ahead->word, "(");
	if (*ret_kept)
		return !made->is_property && !flmem_python_is_any(&ahead->word, nexts);
	skip_use_brackets(search, ahead);
	return true;
}

/* Whether the name of a recipe begins at the use. */
static bool is_recipe_named(const struct flmem_nvflare_use_search *search,
			    struct flmem_nvflare_use *use)
{
	struct flmem_python_reader *ahead = &use->ahead;
	bool member = flmem_python_is(&ahead->before, ".");
	struct flmem_nvflare_span name = {.start = member ? ahead->before.place.start
							  : ahead->word.place.start};

	for (unsigned i = 0; i < FLMEM_NVFLARE_TARGETS_MAX && ahead->word.kind == FLMEM_PYTHON_NAME;
	     i++) {
		use->end = name.end = ahead->word.place.end;
		flmem_python_advance(ahead);
		if (flmem_nvflare_is_recipe(search->recipes, name))
			return true;
		if (!flmem_python_accept(ahead, "."))
			return false;
	}
	return false;
}

bool flmem_nvflare_use_find(struct flmem_nvflare_use_search *search,
			    const struct flmem_python_reader *at, struct flmem_nvflare_use *ret_use)
{
	const struct flmem_nvflare_recipe_call *call =
		flmem_nvflare_recipe_call_at(search->recipes, at->word.place.start);
	struct flmem_python_reader made = *at;

	ret_use->word = at->word;
	ret_use->ahead = *at;
	ret_use->end = 0;
	ret_use->kept = false;
	if (call && call->makes_recipe) {
		ret_use->ahead.python.at = call->end;
		flmem_python_advance(&ret_use->ahead);
		return true;
	}
	if (is_made(search, &made, &ret_use->kept)) {
		ret_use->ahead = made;
		return true;
	}
	return is_recipe_named(search, ret_use);
}
