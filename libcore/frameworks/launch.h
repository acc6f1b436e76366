/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_LAUNCH_H
#define FLMEM_FRAMEWORKS_LAUNCH_H

/*
 * Finds the programs that a file starts, and the variables for them that rules check: shell
 * scripts, Dockerfiles and systemd units by their words, Compose and Kubernetes files by their
 * containers.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/roles.h>

#include "frameworks/files.h"
#include "rules/rules.h"

#define FLMEM_LAUNCHES_MAX	   64
#define FLMEM_LAUNCH_VARIABLES_MAX 128
#define FLMEM_LAUNCH_VALUE_MAX	   256
#define FLMEM_LAUNCH_MOUNTS_MAX	   16
#define FLMEM_LAUNCH_PATH_MAX	   128

/* The variables of any program that rules check. */
#define FLMEM_LAUNCH_ARENA_MAX	 "MALLOC_ARENA_MAX"
#define FLMEM_LAUNCH_LD_PRELOAD	 "LD_PRELOAD"
#define FLMEM_LAUNCH_MALLOC_CONF "MALLOC_CONF"
#define FLMEM_LAUNCH_TMPDIR	 "TMPDIR"
#define FLMEM_LAUNCH_TUNABLES	 "GLIBC_TUNABLES"

struct flmem_launch_variable {
	const char *name; /* static */
	int launch;	  /* index of the only launch to which it applies; -1: the whole file */
	struct flmem_place place; /* of the value without quotes; in ${NAME:-VALUE} of VALUE */
	bool known;		  /* false: the value is not known before the file runs */
	bool local;		  /* a shell's own, which the programs it starts do not get */
	char value[FLMEM_LAUNCH_VALUE_MAX]; /* "" if it is empty or not known */
};

/* A directory in memory: tmpfs, or an emptyDir of medium Memory. */
struct flmem_launch_mount {
	int launch; /* as in struct flmem_launch_variable */
	struct flmem_place place;
	char path[FLMEM_LAUNCH_PATH_MAX];
};

/* A program that starts a process of a federation. A table ends in a row without `word`. */
struct flmem_launch_program {
	const char *before; /* last part of the word in front of it, or NULL */
	const char *word;
	enum flmem_role role;
};

struct flmem_launch {
	enum flmem_framework framework;
	enum flmem_role role; /* server, client, or simulator server for a whole simulator */
	struct flmem_place place;
};

struct flmem_launches {
	struct flmem_launch launches[FLMEM_LAUNCHES_MAX];
	size_t launch_count;
	struct flmem_launch_variable variables[FLMEM_LAUNCH_VARIABLES_MAX];
	size_t variable_count;
	struct flmem_launch_mount mounts[FLMEM_LAUNCH_MOUNTS_MAX];
	size_t mount_count;
	bool open; /* more variables are set elsewhere: flmem env, env_file, envFrom */
	bool musl; /* an image of Alpine Linux */
};

/* Reads an input of any of these kinds; clears `ret_launches` first. */
void flmem_launches_read(const struct flmem_rule_input *input, struct flmem_launches *ret_launches);

/* Whether a text starts one of the programs. */
bool flmem_launch_is_likely(const char *text);

bool flmem_launch_is(const struct flmem_launch_variable *variable, const char *name);

/* Files that start processes of any framework, and files of variables for them. */
extern const struct flmem_input_kind flmem_launch_file;
extern const struct flmem_file_name flmem_launch_file_names[];

/* The mount in memory that contains the path for a launch; NULL if there is none. */
const struct flmem_launch_mount *flmem_launch_mount_of(const struct flmem_launches *launches,
						       int launch, const char *path);

/* A variable of this name that a shell keeps to itself; NULL if there is none. */
const struct flmem_launch_variable *flmem_launch_find_local(const struct flmem_launches *launches,
							    const char *name);

/* The last value that applies to a launch; NULL if there is none. */
const struct flmem_launch_variable *flmem_launch_find(const struct flmem_launches *launches,
						      int launch, const char *name);

#endif
