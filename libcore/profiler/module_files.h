/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_MODULE_FILES_H
#define FLMEM_PROFILER_MODULE_FILES_H

/*
 * Finds modules of a profile that have the same file: a library that a program opens again and
 * again has a module for each time, and its symbols are read once.
 */

#include "profiler/frame_names.h"

/*
 * Returns for each module the index of the first one with its file and build-id, which is its own
 * if there is none before it. Only files of modules with `frames` are examined, which sets
 * `silent`: the user that made the profile chose their paths. NULL if memory is out. The caller
 * frees the array.
 */
uint32_t *flmem_heap_module_files(struct flmem_heap_module *modules, const size_t *frames,
				  size_t count);

#endif
