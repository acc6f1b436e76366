/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_RECIPES_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_RECIPES_H

/*
 * Recipes of a script and their names. A recipe is what a class whose name ends in "Recipe"
 * returns, or a function of the script that returns one; its names are those that it is assigned
 * to, and parameters of functions of the script that receive it. All lists are bounded; `full` is
 * set if a script has more.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "documents/python/python.h"
#include "frameworks/nvflare/rules/nvflare_rules.h"

#define FLMEM_NVFLARE_NAMES_MAX	    64U
#define FLMEM_NVFLARE_FUNCTIONS_MAX 256U

/* A range of the text: a name, also one with dots. */
struct flmem_nvflare_span {
	size_t start, end;
};

/* A name, and the range of the text in which it means a recipe. */
struct flmem_nvflare_recipe_name {
	struct flmem_nvflare_span name, scope;
	/* `member`: the name of an attribute, of any object; `parameter`: of a function. */
	bool member, parameter;
};

/*
 * A function or class that the script defines. `scope` reaches from the name to the end of the
 * body.
 */
struct flmem_nvflare_definition {
	struct flmem_nvflare_span name, scope;
	/* Column of its first word, from 1. */
	unsigned column;
	bool is_class, is_property, makes_recipe;
	/* The "@" of a decorator that may change what it gets or returns; else empty. */
	struct flmem_python_word decorator;
};

/* A call of an imported name. */
struct flmem_nvflare_recipe_call {
	size_t start, end;
	/*
	 * `makes_recipe`: of a class ...Recipe; `is_own`: of NVFlare; `of_class`:
	 * Recipe.METHOD(recipe)
	 */
	bool makes_recipe, is_own, of_class;
};

struct flmem_nvflare_recipes {
	const char *text;
	struct flmem_nvflare_recipe_name names[FLMEM_NVFLARE_NAMES_MAX];
	size_t name_count;
	struct flmem_nvflare_definition definitions[FLMEM_NVFLARE_FUNCTIONS_MAX];
	size_t definition_count;
	struct flmem_nvflare_recipe_call *calls; /* sorted by `start`; owned */
	size_t call_count;
	bool makes_recipe; /* at least one of the calls makes a recipe */
	bool full;	   /* a list has no room for the rest */
};

/* The range of the text that a word takes. */
struct flmem_nvflare_span flmem_nvflare_span_of(const struct flmem_python_word *word);

/* Reads the definitions and calls of the script. Returns false when out of memory. */
bool flmem_nvflare_recipes_init(struct flmem_nvflare_recipes *recipes,
				const struct flmem_check *check);

void flmem_nvflare_recipes_clear(struct flmem_nvflare_recipes *recipes);

#define FLMEM_AUTO_NVFLARE_RECIPES FLMEM_AUTO(flmem_nvflare_recipes_clear)

/* The call that begins at an offset; NULL if none does. */
const struct flmem_nvflare_recipe_call *
flmem_nvflare_recipe_call_at(const struct flmem_nvflare_recipes *recipes, size_t at);

/* Whether the name at this place means a recipe. A name with dots is an attribute. */
bool flmem_nvflare_is_recipe(const struct flmem_nvflare_recipes *recipes,
			     struct flmem_nvflare_span name);

/* Adds a name that means a recipe in the function around it. Returns true if it is new. */
bool flmem_nvflare_recipe_add(struct flmem_nvflare_recipes *recipes,
			      struct flmem_nvflare_span name);

/* The definition of a name without dots; NULL if the script has none. */
struct flmem_nvflare_definition *flmem_nvflare_defined(struct flmem_nvflare_recipes *recipes,
						       struct flmem_nvflare_span name);

/* The innermost function around an offset; NULL if there is none. */
struct flmem_nvflare_definition *flmem_nvflare_function_at(struct flmem_nvflare_recipes *recipes,
							   size_t at);

/* An argument by which a recipe is passed to a function of the script. */
struct flmem_nvflare_argument {
	/* `keyword` is empty for an argument by position. */
	struct flmem_nvflare_span function, keyword;
	unsigned index;
	bool is_method; /* the function is called as a method: its first parameter is the object */
};

/*
 * Adds the parameter that receives a recipe; *ret_new is set to true if its name is new. Returns
 * false if the script does not define the function, or if it has no such parameter.
 */
bool flmem_nvflare_recipe_pass(struct flmem_nvflare_recipes *recipes,
			       const struct flmem_nvflare_argument *argument, bool *ret_new);

/* Adds the names under which the script passes its recipes on. */
void flmem_nvflare_follow_recipes(struct flmem_check *check, struct flmem_nvflare_recipes *recipes);

/* Reports where a script changes the job of a recipe, or passes the job on. */
void flmem_nvflare_check_recipe_jobs(struct flmem_check *check,
				     const struct flmem_nvflare_recipes *recipes);

/* Reports uses of recipes that may change their settings. */
void flmem_nvflare_check_recipe_uses(struct flmem_check *check,
				     struct flmem_nvflare_recipes *recipes);

/* Reports strings that name a configuration file of a job which the script may write. */
void flmem_nvflare_check_job_files(struct flmem_check *check);

/* Names of the methods of recipes; ends in NULL. */
extern const char *const flmem_nvflare_recipe_methods[];

/* Whether a function only shows or tests its arguments. */
bool flmem_nvflare_only_shows_object(const struct flmem_python_word *function);

/* Reports a word of the script, unless a doubt of this kind is reported for its line already. */
void flmem_nvflare_report_word(struct flmem_check *check, const struct flmem_python_word *word,
			       const char *path, const char *detail);

#endif
