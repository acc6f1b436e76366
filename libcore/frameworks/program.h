/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_PROGRAM_H
#define FLMEM_FRAMEWORKS_PROGRAM_H

/*
 * Finds the program that a command line runs; for a Python interpreter, the module or script that
 * it runs. All texts point into the words and are untrusted.
 */

#include <stdbool.h>
#include <stddef.h>

#include "proc/argv_env.h"

struct flmem_program {
	/* Last part of the path of the script, of the file of the module, or of argv[0] */
	const char *name;
	const char *module; /* MODULE of python -m MODULE; or NULL */
	const char *script; /* SCRIPT of python SCRIPT; or NULL */
	size_t arguments;   /* index of the first word after the program */
};

/*
 * Parses a command line. Tools that run another module or script in their own process (memray run
 * -m MODULE) are skipped. `name` becomes "" for an empty command line.
 */
void flmem_program_parse(const struct flmem_argv_env *command, struct flmem_program *ret_program);

/*
 * The value of an option among the arguments: the word after `option`, or the text after "option=";
 * NULL if it is absent.
 */
const char *flmem_program_option(const struct flmem_argv_env *command,
				 const struct flmem_program *program, const char *option);

/*
 * The VALUE of `key` among the words KEY=VALUE after `option`, up to the next option: --set a=1
 * b=2. NULL if it is absent.
 */
const char *flmem_program_setting(const struct flmem_argv_env *command,
				  const struct flmem_program *program, const char *option,
				  const char *key);

#endif
