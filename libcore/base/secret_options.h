/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_SECRET_OPTIONS_H
#define FLMEM_BASE_SECRET_OPTIONS_H

/* Programs whose options carry secrets without a name that says so. */

#include <stdbool.h>
#include <stddef.h>

/* What such a program is called by, and its options; the value may be glued on. */
struct flmem_secret_options {
	const char *program; /* the file name of a word, or a module of NVFlare */
	const char *options[4];
};

/* Of the program that this command line runs, also behind another (`sudo mysql`); or NULL. */
const struct flmem_secret_options *flmem_secret_options_find(const char *const *words,
							     size_t count);

/* Of the program whose name this is, in whole; or NULL. */
const struct flmem_secret_options *flmem_secret_options_of(const char *name, size_t length);

/* The longest of the options that the word starts with, or NULL. */
const char *flmem_secret_option_match(const struct flmem_secret_options *program, const char *word);

#endif
