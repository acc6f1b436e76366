/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_CMD_H
#define FLMEM_CLI_CMD_H

/*
 * Declares the commands. Each cmd_<name>.c ends in one constant descriptor; cmd_table.c lists them,
 * and that list is the only one: dispatch, help, completions and man pages walk it. A command may
 * have verbs (`flmem aggregate inspect`), which are descriptors of the same kind in a separate
 * list.
 */

#include <stdbool.h>
#include <stddef.h>

#include "options/opt.h"

struct cmd {
	const char *name;	     /* name, with that of its command: "aggregate inspect" */
	const char *summary;	     /* one line without a full stop */
	const char *arguments;	     /* text after the options in the usage line, or NULL */
	const char *description;     /* paragraphs, which are wrapped when printed */
	const char *const *examples; /* pairs of a command line and its effect; NULL-terminated */
	const struct opt *options;
	size_t options_size;
	bool takes_command; /* the first non-option word starts a command line */
	bool ends_first;    /* calls oom_end_first(); the command executes no other program */
	enum opt_complete complete; /* how a shell completes the arguments */
	/*
	 * The commands that follow the name of this one, or NULL. The list ends in NULL. Another
	 * word in that place is an argument, unless the command has no `run`.
	 */
	const struct cmd *const *verbs;
	/*
	 * Runs the command with `options` filled from the command line. It prints the result and
	 * returns the exit status, on failure that of cmd_fail(). NULL for a command that only has
	 * verbs.
	 */
	int (*run)(const struct cmd *cmd, void *options, const struct opt_rest *rest);
};

extern const struct cmd *const cmd_table[]; /* the list ends in NULL */

/* Finds a command, or a verb of `cmd`, by its name. Each returns NULL where there is none. */
const struct cmd *cmd_find(const char *name);
const struct cmd *cmd_find_verb(const struct cmd *cmd, const char *word);

/* Returns the command above a verb, or NULL for a command of cmd_table. */
const struct cmd *cmd_parent(const struct cmd *verb);

/* Returns the word that selects the command or verb: "inspect". */
const char *cmd_word(const struct cmd *cmd);

/* Writes the name as one word: "aggregate-inspect" with the separator '-'. */
void cmd_join_name(const struct cmd *cmd, char separator, char *out, size_t size);

/* Returns the word in `table` nearest to this one, or NULL if none is near. */
const char *cmd_nearest(const struct cmd *const *table, const char *word);

/*
 * Finds what an unknown command may stand for, and writes it in quotes: the verbs with this name,
 * whatever command they are below, else the command nearest to it. Returns false where nothing is
 * near.
 */
bool cmd_suggest(const char *word, char *out, size_t size);

#define CMD_NAME_MAX 64

/*
 * Prints the error as one line on stderr, with `json` also as an object on stdout. Returns the exit
 * status of the error.
 */
int cmd_fail(const struct cmd *cmd, bool json, const struct flmem_error *err);

/* Sums up the results of several targets. */
struct cmd_codes {
	size_t done, failed;
	int code; /* 0, or a code of enum flmem_code that all failed ones have, or FLMEM_EPARTLY */
};

/* Counts one target. Its code is 0 if it did not fail. */
void cmd_codes_add(struct cmd_codes *codes, int code);

/* Returns 0 if none failed, the common code if all failed alike, else FLMEM_EPARTLY. */
int cmd_codes_combine(const struct cmd_codes *codes);

/* Raises the soft limit of open files, usually 1024, to the hard limit. */
void cmd_raise_descriptor_limit(void);

/* Returns FLMEM_EUSAGE if there are arguments. */
int cmd_no_arguments(const struct cmd *cmd, const struct opt_rest *rest, struct flmem_error *err);

#endif
