/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_CLI_START_H
#define FLMEM_CLI_START_H

/* Declares the modes of `flmem start`, one file each. */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/error.h>

#include "options/role_options.h"

struct start_options {
	struct role_options role; /* must be first: ROLE_OPTIONS requires it */
	bool jemalloc;
	bool no_inherit_preload;
	bool profile_ready;
	bool profile_socket;
	bool assume_seccomp;
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
	const char *command;
	uint64_t tasks;
};

extern const char *const start_emit_choices[];
extern const char *const start_command_choices[];

/* Prints or saves a script or unit; `argv` NULL means the standard command of the role. */
int start_emit(const struct start_options *options, char *const *argv, struct flmem_error *err);

/* Supervises the command; ret_status is the exit status on success. */
int start_supervise(const struct start_options *options, char *const *argv,
		    char *const *environment, int *ret_status, struct flmem_error *err);

#endif
