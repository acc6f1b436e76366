/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_START_OPS_H
#define FLMEM_FRAMEWORKS_START_OPS_H

/* How to start the roles of a framework, if the user gives no command. */

#include <stdbool.h>

#include <flmem/roles.h>

#define FLMEM_START_WORDS     16
#define FLMEM_START_VALUE_MAX 512

/* The role to start, and its names. All texts belong to the caller. */
struct flmem_start_request {
	enum flmem_role role;
	const char *workspace;
	const char *site; /* name of the site; for clients */
	const char *org;  /* its organisation; "" if it has none */
};

/* The command for a role. The words are constants, texts of the request, or in `values`. */
struct flmem_start_command {
	const char *words[FLMEM_START_WORDS]; /* ends in NULL */
	char values[2][FLMEM_START_VALUE_MAX];
};

/* The start operations of a framework. Texts are static. */
struct flmem_start_ops {
	/* Fills the command of a role. Returns false if the role has none. */
	bool (*command)(const struct flmem_start_request *request,
			struct flmem_start_command *ret_command);
	/* Name of the variable that enables jemalloc in the framework's start scripts. */
	const char *jemalloc_variable;
	/*
	 * The parts of the start script for sh: in front of the memory settings, after them, and
	 * after the function run(), which executes the command. The script sets workspace and kit;
	 * run() of the framework's command also uses site and org.
	 */
	const char *script_kit; /* what the script starts, without the role: "an NVFlare" */
	const char *script_head, *script_middle, *script_tail;
	/*
	 * For a site and an organisation that the user has not named: text that precedes them, and
	 * the words for each.
	 */
	const char *script_names, *script_site, *script_org;
	/* Returns the text of the function run() for a role. */
	const char *(*script_run)(enum flmem_role role);
};

/*
 * The operations for start scripts of a framework: its own, or if it has no start script, those of
 * the first framework that has one, since the script runs any command.
 */
const struct flmem_start_ops *flmem_start_script_of(enum flmem_framework framework);

/* The start operations of a framework; NULL if it has no commands. */
const struct flmem_start_ops *flmem_start_of(enum flmem_framework framework);

#endif
