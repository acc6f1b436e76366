/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_SECRET_OPTIONS_H
#define FLMEM_BASE_SECRET_OPTIONS_H

/* Lists programs with options that take secrets although the options' names do not show it. */

#include <stdbool.h>
#include <stddef.h>

/* A program and its options; the value may be attached to the option. */
struct flmem_secret_options {
	const char *program; /* the file name of a word, or a module of NVFlare */
	const char *options[4];
};

/*
 * Returns the entry of the program that this command line runs, also through another (`sudo
 * mysql`); or NULL.
 */
const struct flmem_secret_options *flmem_secret_options_find(const char *const *words,
							     size_t count);

/* Returns the entry of the program with exactly this name, or NULL. */
const struct flmem_secret_options *flmem_secret_options_of(const char *name, size_t length);

/* Returns the longest of the program's options that the word starts with, or NULL. */
const char *flmem_secret_option_match(const struct flmem_secret_options *program, const char *word);

#endif
