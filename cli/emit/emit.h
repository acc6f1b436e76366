/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_EMIT_H
#define FLMEM_CLI_EMIT_H

/*
 * Generates files from the command and option tables: completions, man pages, the option reference.
 * Part of flmem-gen, a program of the build (`make generate`), not of flmem.
 */

#include <stdbool.h>
#include <stdio.h>

#include "cmd.h"

void emit_bash(FILE *out);
void emit_zsh(FILE *out);
void emit_fish(FILE *out);
void emit_markdown(FILE *out);
void emit_rules(FILE *out);
void emit_metrics(FILE *out);
void emit_man_overview(FILE *out);
void emit_man_command(const struct cmd *cmd, FILE *out);

/* The second line of every generated file, after the comment mark of its format. */
#define EMIT_ORIGIN "Generated from the option tables by 'make generate'."

/* Calls `print` for each command, and after it for its verbs. */
void emit_each_command(void (*print)(const struct cmd *cmd, FILE *out), FILE *out);

/* Calls `print` for each option of the command, then for --help. */
void emit_each_option(const struct cmd *cmd,
		      void (*print)(const struct cmd *cmd, const struct opt *o, FILE *out),
		      FILE *out);

/* Prints the text with `mark` in front of each character of `special`. */
void emit_marked(const char *text, const char *special, const char *mark, FILE *out);

/* Completion of the option's value. */
enum opt_complete emit_completes(const struct opt *o);

bool emit_repeats(const struct opt *o);

/* True if any command has verbs. */
bool emit_has_verbs(void);

#endif
