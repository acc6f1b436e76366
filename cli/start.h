/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_START_H
#define FLMEM_CLI_START_H

/* The ways of `flmem start`, each in a file of its own. */

#include <stdbool.h>

#include <flmem/error.h>

#include "role_options.h"

struct start_options {
	struct role_options role; /* first, as ROLE_OPTIONS wants it */
	bool jemalloc;
	bool no_inherit_preload;
	bool dry_run;
	bool json;
	bool supervise;
	const char *workspace;
	const char *wait;
	const char *grace;
	const char *emit;
	const char *output;
	const char *site;
	const char *org;
	const char *image;
};

extern const char *const start_emit_choices[];

/* Prints or saves a script or unit; `argv` is NULL for the role's standard command. */
int start_emit(const struct start_options *options, char *const *argv, struct flmem_error *err);

/* Keeps the command alive; ret_status is the exit status when all went well. */
int start_supervise(const struct start_options *options, char *const *argv,
		    char *const *environment, int *ret_status, struct flmem_error *err);

#endif
