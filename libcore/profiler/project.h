/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_PROJECT_H
#define FLMEM_PROFILER_PROJECT_H

/* Stacks reduced to the frames of one kind. */

#include <flmem/heap_profile.h>

/*
 * Merges nodes that become equal, and their sites; ages of sites are not kept. On failure the
 * profile is only to be freed.
 */
int flmem_heap_project(struct flmem_heap_profile *profile, enum flmem_heap_stacks stacks,
		       struct flmem_error *err);

#endif
