/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_START_OPS_H
#define FLMEM_FRAMEWORKS_START_OPS_H

/* How to start the roles of a framework if the user gives no command. */

#include <stdbool.h>

#include <flmem/roles.h>

#define FLMEM_START_WORDS     16
#define FLMEM_START_VALUE_MAX 512

struct flmem_start_request {
	enum flmem_role role;
	const char *workspace;
	const char *site; /* name of the client */
	const char *org;  /* its organisation; "" for none */
};

/* The words are constants, the request's, or in `values`. */
struct flmem_start_command {
	const char *words[FLMEM_START_WORDS]; /* ends in NULL */
	char values[2][FLMEM_START_VALUE_MAX];
};

struct flmem_start_ops {
	/* False if the role has no command. */
	bool (*command)(const struct flmem_start_request *request,
			struct flmem_start_command *ret_command);
	/* The variable that enables jemalloc in start scripts. */
	const char *jemalloc_variable;
	/*
	 * The start script, for sh: before the memory settings, after them, and after the function
	 * run(), which executes the command. It sets workspace and kit; run() of the framework's
	 * command also uses site and org.
	 */
	const char *script_kit; /* what it starts, before the role: "an NVFlare" */
	const char *script_head, *script_middle, *script_tail;
	/* Text before the words for a site and an organisation that the user has not named. */
	const char *script_names, *script_site, *script_org;
	const char *(*script_run)(enum flmem_role role);
};

/*
 * The start operations of the framework; those of the first framework with a start script if it has
 * none, since the script runs any command.
 */
const struct flmem_start_ops *flmem_start_script_of(enum flmem_framework framework);

/* NULL: the framework has no commands. */
const struct flmem_start_ops *flmem_start_of(enum flmem_framework framework);

#endif
