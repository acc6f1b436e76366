/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_FRAMEWORKS_LAUNCH_SCAN_H
#define FLMEM_FRAMEWORKS_LAUNCH_SCAN_H

/* What the readers of scripts and of containers share. */

#include "frameworks/launch.h"

/* The name as the tables spell it; NULL: no rule checks the variable. */
const char *flmem_launch_variable_name(const char *text, size_t length);

/* A value of NULL is not known. */
void flmem_launch_add_variable(struct flmem_launches *launches, const char *name, const char *value,
			       int launch, const struct flmem_place *place);

/* Adds a path, which may be followed by a colon and options. */
void flmem_launch_add_mount(struct flmem_launches *launches, const char *path, int launch,
			    const struct flmem_place *place);

/*
 * Reads a text that holds a command with its variables, which get the place of the text. The first
 * launch in it becomes *launch, to which its variables apply. False if it starts none of the
 * programs.
 */
bool flmem_launch_read_inner(struct flmem_launches *launches, const char *text,
			     const struct flmem_place *place, int *launch);

/* Every map may be a container. */
void flmem_launch_read_containers(const struct flmem_node *node, struct flmem_launches *launches);

#endif
