/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_CMD_H
#define FLMEM_CLI_CMD_H

/*
 * The commands. Each cmd_<name>.c ends in one constant descriptor; cmd_table.c lists them, and
 * that list is the only one: dispatch, help, completions and man pages walk it.
 */

#include <stdbool.h>
#include <stddef.h>

#include "opt.h"

struct cmd {
	const char *name;
	const char *summary;	     /* one line, no full stop */
	const char *arguments;	     /* after the options in the usage line, or NULL */
	const char *description;     /* paragraphs, wrapped when printed */
	const char *const *examples; /* pairs of command line and what it does; NULL-terminated */
	const struct opt *options;
	size_t options_size;
	bool takes_command;	    /* the first non-option word starts a command line */
	enum opt_complete complete; /* completion of the arguments */
	/*
	 * `options` is filled from the command line. Prints the result and returns the exit status,
	 * on failure that of cmd_fail().
	 *	 
	 */
	int (*run)(const struct cmd *cmd, void *options, const struct opt_rest *rest);
};

extern const struct cmd *const cmd_table[]; /* ends in NULL */

const struct cmd *cmd_find(const char *name);

/*
 * Prints the error as one line on stderr, with `json` also as an object on stdout. Returns its exit
 * status.
 */
int cmd_fail(const struct cmd *cmd, bool json, const struct flmem_error *err);

/* FLMEM_EUSAGE if there are arguments. */
int cmd_no_arguments(const struct opt_rest *rest, struct flmem_error *err);

#endif
