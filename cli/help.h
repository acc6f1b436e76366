/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_HELP_H
#define FLMEM_CLI_HELP_H

/*
 * Prints help texts, which are generated from the command and option tables. Each function that
 * prints returns exit status 0.
 */

#include <stddef.h>
#include <stdio.h>

struct cmd;
struct opt;

/* This says in two sentences what flmem is. */
extern const char help_about[];

/* These are topics of `flmem help` besides the commands; the list ends in a row without a name. */
struct help_topic {
	const char *name;
	const char *summary;
	int (*print)(FILE *out);
};

extern const struct help_topic help_topics[];

/* This is a name and its meaning; tables of them end in a row without a name. */
struct help_entry {
	const char *name;
	const char *text;
};

extern const struct help_entry help_values[];	   /* placeholders of options */
extern const struct help_entry help_environment[]; /* variables that flmem reads */

#define HELP_EXIT_STATUS_MAX 255

int help_overview(FILE *out);
int help_command(const struct cmd *cmd, FILE *out);

/* Writes the placeholder of the option's value: "PID", "server|client", or "" for a flag. */
void help_option_value(const struct opt *o, char *out, size_t size);

/* Writes the help text, followed by the choices if they are too many for the placeholder. */
void help_option_text(const struct opt *o, char *out, size_t size);

#define HELP_TEXT_MAX 512

#endif
