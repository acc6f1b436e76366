/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_MODULE_FILES_H
#define FLMEM_PROFILER_MODULE_FILES_H

/*
 * Which modules of a profile have the same file: a library that a program opens again and again has
 * a module for each time, and its symbols are read once.
 */

#include "profiler/frame_names.h"

/*
 * For each module the index of the first one with its file and build-id, itself if there is none
 * before it. Only files of modules with `frames` are examined, which sets `silent`: the user that
 * made the profile chose their paths. NULL: memory is out. The caller frees it.
 */
uint32_t *flmem_heap_module_files(struct flmem_heap_module *modules, const size_t *frames,
				  size_t count);

#endif
