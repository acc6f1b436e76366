/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_DEBUG_FILES_H
#define FLMEM_PROFILER_DEBUG_FILES_H

#include <sys/stat.h>

#include "elf/image.h"
#include "profiler/frame_names.h"

/* A regular file; NULL if unreadable or not an ELF file. Sets `silent` if none answers. */
struct flmem_image *flmem_symbol_image_open(const char *path, struct stat *ret_status,
					    bool *silent);

/* Whether its file has stopped answering: the data read so far is incomplete. */
bool flmem_symbol_image_is_silent(const struct flmem_image *image);

bool flmem_symbol_image_matches(struct flmem_image *image, const struct flmem_heap_module *module);

/*
 * The symbols of a module that are kept apart (gdb manual, "Separate Debug Files"): by its build-id
 * below /usr/lib/debug, by the name in `own`, its file (NULL: not readable), and from the servers
 * of DEBUGINFOD_URLS where that is set. Only a file with the build-id of the module. NULL: none.
 * Where that folder does not answer, `silent` is set; while it is, it is not asked.
 */
struct flmem_image *flmem_debug_file_open(const struct flmem_heap_module *module,
					  struct flmem_image *own, bool *silent);

#endif
