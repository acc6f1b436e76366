/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_PROGRAM_H
#define FLMEM_FRAMEWORKS_PROGRAM_H

/*
 * The program that a command line runs, or the module or script that a Python interpreter runs. All
 * texts point into the words and are untrusted.
 */

#include <stdbool.h>
#include <stddef.h>

#include "proc/argv_env.h"

struct flmem_program {
	const char *name;   /* last component of the script, of the module's file or of argv[0] */
	const char *module; /* python -m MODULE, or NULL */
	const char *script; /* python SCRIPT, or NULL */
	size_t arguments;   /* index of the first word after the program */
};

/*
 * Tools that run another module or script in their own process (memray run -m MODULE) are skipped.
 * `name` is "" for an empty command line.
 */
void flmem_program_parse(const struct flmem_argv_env *command, struct flmem_program *ret_program);

/*
 * Value of an option among the arguments: the word after `option`, or the text after "option=".
 * NULL if it is absent.
 */
const char *flmem_program_option(const struct flmem_argv_env *command,
				 const struct flmem_program *program, const char *option);

/* Value of the KEY=VALUE words that follow `option`, up to the next option: --set a=1 b=2. */
const char *flmem_program_setting(const struct flmem_argv_env *command,
				  const struct flmem_program *program, const char *option,
				  const char *key);

#endif
