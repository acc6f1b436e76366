/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_DEBUG_FILES_H
#define FLMEM_PROFILER_DEBUG_FILES_H

#include <sys/stat.h>

#include "elf/image.h"
#include "profiler/frame_names.h"

/*
 * Opens an ELF file; NULL if it is unreadable or not a regular ELF file. Sets `silent` if its file
 * system does not answer.
 */
struct flmem_image *flmem_symbol_image_open(const char *path, struct stat *ret_status,
					    bool *silent);

/* Returns true if the file has stopped answering: the data read so far is incomplete. */
bool flmem_symbol_image_is_silent(const struct flmem_image *image);

bool flmem_symbol_image_matches(struct flmem_image *image, const struct flmem_heap_module *module);

/*
 * Opens the separate file with the symbols of a module (gdb manual, "Separate Debug Files"): by its
 * build-id below /usr/lib/debug, by the name in `own`, which is its file (NULL: not readable), or
 * from the servers of DEBUGINFOD_URLS if that is set. Only a file with the build-id of the module
 * is used. NULL: there is none. If the folder does not answer, `silent` is set; while it is, the
 * folder is not asked.
 */
struct flmem_image *flmem_debug_file_open(const struct flmem_heap_module *module,
					  struct flmem_image *own, bool *silent);

#endif
