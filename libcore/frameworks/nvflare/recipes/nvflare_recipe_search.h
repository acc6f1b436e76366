/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_RECIPE_SEARCH_H
#define FLMEM_FRAMEWORKS_NVFLARE_NVFLARE_RECIPE_SEARCH_H

/* The walk over the words of a script that finds what is done with recipes, and its judgement. */

#include "frameworks/nvflare/recipes/nvflare_recipes.h"

#define FLMEM_NVFLARE_LEVELS_MAX  64U
#define FLMEM_NVFLARE_TARGETS_MAX 4U

/* What is open: the statement, or a bracket in it. */
struct flmem_nvflare_use_level {
	char mark;		     /* NUL for the statement */
	bool header, lambda, member; /* of a definition; it has one; a method is called */
	unsigned index;		     /* of the argument */
	struct flmem_python_word function, first; /* of a call: "c" and "a" of a.b.c( */
	struct flmem_python_word front, keyword;  /* what the operand begins after */
};

/* A walk over the words of a script. */
struct flmem_nvflare_use_search {
	struct flmem_check *check;
	struct flmem_nvflare_recipes *recipes;
	struct flmem_python_reader reader;
	struct flmem_python_word earlier; /* than the one before */
	struct flmem_python_word first;	  /* of the dotted name that ends before the reader */
	struct flmem_nvflare_use_level levels[FLMEM_NVFLARE_LEVELS_MAX];
	size_t depth; /* of open brackets, also those that have no level */
	struct flmem_nvflare_span targets[FLMEM_NVFLARE_TARGETS_MAX];
	size_t target_count;
	struct flmem_python_word statement; /* its first word */
	bool declares, imports;		    /* it only makes names known; those of other packages */
	bool rebinds;			    /* it assigns something to the name of a recipe */
	bool compound;			    /* "if" and the like, up to its colon */
	bool reports, grown;		    /* the last walk; a name was added */
	bool field;			    /* of a string, whose arguments no other rule reads */
	unsigned reported, skips;
};

/* A recipe in an expression, and what is around it. */
struct flmem_nvflare_use {
	struct flmem_python_word word; /* the first */
	struct flmem_python_word front, front_earlier;
	struct flmem_python_reader ahead; /* after it */
	size_t end;			  /* of the name; 0: it is a call */
	bool kept;			  /* a function that makes one, which is not called there */
};

/* The level that the reader is in. */
struct flmem_nvflare_use_level *flmem_nvflare_use_level(struct flmem_nvflare_use_search *search);

/* Whether a recipe, or a name of one, begins at a reader. */
bool flmem_nvflare_use_find(struct flmem_nvflare_use_search *search,
			    const struct flmem_python_reader *at,
			    struct flmem_nvflare_use *ret_use);

/* Whether the use may change it; where it gets another name, that is added. */
bool flmem_nvflare_use_changes(struct flmem_nvflare_use_search *search,
			       const struct flmem_nvflare_use *use);

/*
 * Whether the word at the reader reaches variables without their names in the source, or by code
 * that is not known before the script runs: locals(), eval(), getattr(module, "recipe").
 */
bool flmem_nvflare_use_reaches(struct flmem_nvflare_use_search *search);

#endif
