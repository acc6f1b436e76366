/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_FRAME_NAMES_H
#define FLMEM_PROFILER_FRAME_NAMES_H

/*
 * Finds the names of native functions in the symbol tables of the files that the process had
 * mapped, or of their debug files (debug_files.h). Names of C++ are demangled. A file with another
 * build-id than the mapped one is not used: its names would be wrong.
 */

#include <flmem/heap_profile.h>

#include "profiler/string_pool.h"

#define FLMEM_BUILD_ID_MAX 36U

#define FLMEM_HEAP_FILE_SILENT "the file of the code is on a file system that does not answer"
#define FLMEM_HEAP_DEBUG_SILENT \
	"the files of debug symbols are on a file system that does not answer"

struct flmem_heap_module {
	const char *path; /* path of the file; NULL: unknown */
	bool silent;	  /* the file does not answer, so it is not opened */
	uint64_t start, end, bias;
	uint32_t build_id_size; /* 0: the build-id is unknown */
	unsigned char build_id[FLMEM_BUILD_ID_MAX];
};

/*
 * Names the native frames of one module: `frames` points to these, which have their offsets. Sets
 * the function, or the reason why there is none. `debug_silent`: as in debug_files.h. Returns false
 * if memory is out.
 */
bool flmem_heap_symbols_resolve(const struct flmem_heap_module *module,
				struct flmem_heap_frame *const *frames, size_t count,
				struct flmem_string_pool *texts, bool *debug_silent);

#endif
