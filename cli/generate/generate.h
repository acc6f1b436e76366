/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_GENERATE_GENERATE_H
#define FLMEM_GENERATE_GENERATE_H

/*
 * Generates files from the command and option tables: completions, man pages, the option reference.
 * This is part of flmem-gen, a program of the build (`make generate`), not of flmem.
 */

#include <stdbool.h>
#include <stdio.h>

#include "cmd.h"

void generate_bash(FILE *out);
void generate_zsh(FILE *out);
void generate_fish(FILE *out);
void generate_markdown(FILE *out);
void generate_rules(FILE *out);
void generate_metrics(FILE *out);
void generate_man_overview(FILE *out);
void generate_man_command(const struct cmd *cmd, FILE *out);

/* This text is the second line of every generated file, after the comment mark of its format. */
#define GENERATE_ORIGIN "Generated from the option tables by 'make generate'."

/* Calls `print` for each command, and after it for its verbs. */
void generate_each_command(void (*print)(const struct cmd *cmd, FILE *out), FILE *out);

/* Calls `print` for each option of the command, then for --help. */
void generate_each_option(const struct cmd *cmd,
			  void (*print)(const struct cmd *cmd, const struct opt *o, FILE *out),
			  FILE *out);

/* Prints the text with a backslash in front of each character of `special`. */
void generate_escaped(const char *text, const char *special, FILE *out);

/* Returns how a shell completes the option's value. */
enum opt_complete generate_completes(const struct opt *o);

bool generate_repeats(const struct opt *o);

/* Returns true if any command has verbs. */
bool generate_has_verbs(void);

#endif
