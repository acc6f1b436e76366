/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_PROJECT_H
#define FLMEM_PROFILER_PROJECT_H

/* Reduces stacks to the requested frames. */

#include <flmem/heap_profile.h>

/*
 * Keeps frames of profile->stacks; those of Python's import system only as the request says. Merges
 * nodes that become equal, and their sites; ages of sites are not kept. After a failure the profile
 * can only be freed.
 */
int flmem_heap_project(struct flmem_heap_profile *profile, const struct flmem_heap_request *request,
		       struct flmem_error *err);

#endif
