/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_RECIPE_SEARCH_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_RECIPE_SEARCH_H

/*
 * The walk over the words of a script that finds uses of recipes, and the functions that judge a
 * use (nvflare_recipe_changes.c, nvflare_recipe_scopes.c).
 */

#include "frameworks/nvflare/recipes/nvflare_recipes.h"

/* Brackets within brackets, and names in "a = b = value", that are followed. */
#define FLMEM_NVFLARE_LEVELS_MAX  64U
#define FLMEM_NVFLARE_TARGETS_MAX 4U

/* The statement (level 0), or an open bracket in it. */
struct flmem_nvflare_use_level {
	char mark; /* the bracket; NUL for the statement */
	/*
	 * `header`: of a definition; `lambda`: the level contains one; `member`: a method is
	 * called.
	 */
	bool header, lambda, member;
	unsigned index; /* index of the current argument, from 0 */
	/* Last and first name of a call: "c" and "a" of a.b.c(. */
	struct flmem_python_word function, first;
	/*
	 * `front`: the word after which the current operand begins; `keyword`: NAME of
	 * NAME=operand.
	 */
	struct flmem_python_word front, keyword;
};

/* A walk over the words of a script. */
struct flmem_nvflare_use_search {
	struct flmem_check *check;
	struct flmem_nvflare_recipes *recipes;
	struct flmem_python_reader reader;
	struct flmem_python_word earlier; /* the word before reader.before */
	/* First word of the dotted name that ends before the reader. */
	struct flmem_python_word first;
	/* By depth; the statement is level 0. */
	struct flmem_nvflare_use_level levels[FLMEM_NVFLARE_LEVELS_MAX];
	size_t depth; /* number of open brackets, also of those without a level */
	/* Names to which the statement assigns. */
	struct flmem_nvflare_span targets[FLMEM_NVFLARE_TARGETS_MAX];
	size_t target_count;
	struct flmem_python_word statement; /* first word of the statement */
	/*
	 * `declares`: the statement only binds names (import, global); `imports`: those of other
	 * packages than NVFlare.
	 */
	bool declares, imports;
	bool rebinds;  /* the statement assigns to the name of a recipe */
	bool compound; /* a statement such as "if", which goes up to its colon */
	/* `reports`: this walk reports; `grown`: it has added a name, so another walk is needed. */
	bool reports, grown;
	/* Within a field of an f-string: no other rule reads the arguments of calls there. */
	bool field;
	unsigned reported, skips; /* findings so far; brackets that were skipped */
};

/* A recipe in an expression, and the words around it. */
struct flmem_nvflare_use {
	struct flmem_python_word word; /* the first word of the recipe */
	/* The word before it, and the one before that. */
	struct flmem_python_word front, front_earlier;
	struct flmem_python_reader ahead; /* a reader after it */
	size_t end; /* offset of the end of the name; 0: the recipe is a call, not a name */
	bool kept;  /* it is a function that makes a recipe and that is not called here */
};

/* The level of the innermost open bracket, or of the statement. */
struct flmem_nvflare_use_level *flmem_nvflare_use_level(struct flmem_nvflare_use_search *search);

/* Whether a recipe, or the name of one, begins at the reader `at`; fills *ret_use. */
bool flmem_nvflare_use_find(struct flmem_nvflare_use_search *search,
			    const struct flmem_python_reader *at,
			    struct flmem_nvflare_use *ret_use);

/* Whether a use may change the recipe. If the use gives it another name, adds that name. */
bool flmem_nvflare_use_changes(struct flmem_nvflare_use_search *search,
			       const struct flmem_nvflare_use *use);

/*
 * Whether the current word reaches variables without their names, or by code that is known only
 * when the script runs: locals(), eval(), getattr(module, "recipe").
 */
bool flmem_nvflare_use_reaches(struct flmem_nvflare_use_search *search);

#endif
