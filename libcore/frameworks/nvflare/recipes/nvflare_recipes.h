/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_RECIPES_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_RECIPES_H

/*
 * The names under which a script has recipes: what it assigns what a class ending in "Recipe", or a
 * function of the script, returns, and parameters of functions of the script that get one. All
 * lists are bounded, and of a script with more than that `full` is set.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "documents/python/python.h"
#include "frameworks/nvflare/rules/nvflare_rules.h"

#define FLMEM_NVFLARE_NAMES_MAX	    64U
#define FLMEM_NVFLARE_FUNCTIONS_MAX 256U

/* A part of the text: a name, also one with dots. */
struct flmem_nvflare_span {
	size_t start, end;
};

/* A name, in the part of the text where it means a recipe. */
struct flmem_nvflare_recipe_name {
	struct flmem_nvflare_span name, scope;
	bool member, parameter; /* an attribute, of whatever object; of a function */
};

/* A function or class that the script defines. */
struct flmem_nvflare_definition {
	struct flmem_nvflare_span name, scope;
	unsigned column;
	bool is_class, is_property, makes_recipe;
	struct flmem_python_word decorator; /* that may change what it gets or returns */
};

/* A call of something imported. */
struct flmem_nvflare_recipe_call {
	size_t start, end;
	bool makes_recipe, is_own, of_class; /* it is NVFlare's; Recipe.METHOD(recipe) */
};

struct flmem_nvflare_recipes {
	const char *text;
	struct flmem_nvflare_recipe_name names[FLMEM_NVFLARE_NAMES_MAX];
	size_t name_count;
	struct flmem_nvflare_definition definitions[FLMEM_NVFLARE_FUNCTIONS_MAX];
	size_t definition_count;
	struct flmem_nvflare_recipe_call *calls; /* by their start */
	size_t call_count;
	bool makes_recipe; /* one of the calls does */
	bool full;
};

struct flmem_nvflare_span flmem_nvflare_span_of(const struct flmem_python_word *word);

/* Reads the definitions and calls of the script. False when out of memory. */
bool flmem_nvflare_recipes_init(struct flmem_nvflare_recipes *recipes,
				const struct flmem_check *check);

void flmem_nvflare_recipes_clear(struct flmem_nvflare_recipes *recipes);

#define FLMEM_AUTO_NVFLARE_RECIPES FLMEM_AUTO(flmem_nvflare_recipes_clear)

/* The call that begins at an offset; NULL: none is known. */
const struct flmem_nvflare_recipe_call *
flmem_nvflare_recipe_call_at(const struct flmem_nvflare_recipes *recipes, size_t at);

/* Whether the name that is there means a recipe; ".NAME" is an attribute. */
bool flmem_nvflare_is_recipe(const struct flmem_nvflare_recipes *recipes,
			     struct flmem_nvflare_span name);

/* Adds a name that means a recipe in the function that it is in; true if it is new. */
bool flmem_nvflare_recipe_add(struct flmem_nvflare_recipes *recipes,
			      struct flmem_nvflare_span name);

/* The definition of a name without dots; NULL: the script has none. */
struct flmem_nvflare_definition *flmem_nvflare_defined(struct flmem_nvflare_recipes *recipes,
						       struct flmem_nvflare_span name);

/* The innermost function around an offset; NULL: none. */
struct flmem_nvflare_definition *flmem_nvflare_function_at(struct flmem_nvflare_recipes *recipes,
							   size_t at);

/* Where a recipe is passed to a function of the script. */
struct flmem_nvflare_argument {
	struct flmem_nvflare_span function, keyword; /* `keyword` is empty for one by position */
	unsigned index;
	bool is_method; /* of an object, which is the first parameter */
};

/*
 * Adds the parameter that receives a recipe. False if the script does not define the function;
 * `*ret_new` is set if the name is new.
 */
bool flmem_nvflare_recipe_pass(struct flmem_nvflare_recipes *recipes,
			       const struct flmem_nvflare_argument *argument, bool *ret_new);

/* Adds the names of recipes, as far as they are passed on within the script. */
void flmem_nvflare_follow_recipes(struct flmem_check *check, struct flmem_nvflare_recipes *recipes);

/* Reports where a script changes the job of a recipe, or passes it on. */
void flmem_nvflare_check_recipe_jobs(struct flmem_check *check,
				     const struct flmem_nvflare_recipes *recipes);

/* Reports what a script does with its recipes that may change their settings. */
void flmem_nvflare_check_recipe_uses(struct flmem_check *check,
				     struct flmem_nvflare_recipes *recipes);

/* Reports strings that name a configuration file of a job, which the script may write. */
void flmem_nvflare_check_job_files(struct flmem_check *check);

/* Methods of recipes; ends in NULL. */
extern const char *const flmem_nvflare_recipe_methods[];

/* Functions that only show or test their arguments. */
bool flmem_nvflare_only_shows_object(const struct flmem_python_word *function);

/* Reports a word of the script, unless its line has been reported for a doubt of this kind. */
void flmem_nvflare_report_word(struct flmem_check *check, const struct flmem_python_word *word,
			       const char *path, const char *detail);

#endif
