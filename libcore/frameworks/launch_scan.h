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

/* The index of the launch; -1 where there is no room. */
int flmem_launch_add(struct flmem_launches *launches, const struct flmem_launch *launch);

/* Reads the words of a script; `shell`: only exported variables reach its programs. */
void flmem_launch_read_script(const char *text, bool shell, struct flmem_launches *launches);

/* Every map may be a container. */
void flmem_launch_read_containers(const struct flmem_node *node, struct flmem_launches *launches);

#endif
