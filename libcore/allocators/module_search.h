/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_MODULE_SEARCH_H
#define FLMEM_ALLOCATORS_MODULE_SEARCH_H

/* Queries on a module, shared by the recognise functions of several allocators. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocators/allocator.h"

/*
 * X(NAME, first character, rest): text that a build holds even when stripped of symbols. It is
 * split in two, so that a program with this table does not match all of them. MUSL_NG is the start
 * of mallocng's size classes, 16 bits each, MUSL_OLD that of oldmalloc's bin_tab (musl,
 * src/malloc).
 */
/* clang-format off */
#define FLMEM_MARKERS(X)                                        \
	X(GLIBC, 'm', "unmap_chunk(): invalid pointer")         \
	X(JEMALLOC, '<', "jemalloc>: ")                         \
	X(GPERFTOOLS, 'g', "perftools ")                        \
	X(TCMALLOC, 't', "cmalloc.per_cpu_caches_active")       \
	X(TCMALLOC_MMAP, 'M', "mapAligned() failed")            \
	X(MIMALLOC, 'm', "imalloc: warning: ")                  \
	X(SNMALLOC, 'F', "ailed to initialise snmalloc.")       \
	X(MUSL, 'm', "usl libc (")                              \
	X(MUSL_NG, '\1', "\0\2\0\3\0\4\0\5\0\6\0\7\0\10\0\11\0\12\0\14\0\17\0\22\0\24\0\31\0\37") \
	X(MUSL_OLD, '\40', "\41\42\43\44\44\45\45\46\46\47\47\50\50\50\50\51\51\51\51")
/* clang-format on */

enum flmem_marker_index {
#define FLMEM_MARKER_INDEX(name, first, rest) FLMEM_MARKER_INDEX_##name,
	FLMEM_MARKERS(FLMEM_MARKER_INDEX)
#undef FLMEM_MARKER_INDEX
	FLMEM_MARKER_COUNT
};

enum flmem_marker_bit {
#define FLMEM_MARKER_BIT(name, first, rest) FLMEM_MARKER_##name = 1 << FLMEM_MARKER_INDEX_##name,
	FLMEM_MARKERS(FLMEM_MARKER_BIT)
#undef FLMEM_MARKER_BIT
};

/*
 * Reports whether a module may hold an allocator without exporting its names: the program, or a
 * module that defines malloc and is not a libc. Only these are searched for markers and in .symtab;
 * the files of a large process are hundreds of megabytes.
 */
bool flmem_module_is_deep(const struct flmem_module *module);

/*
 * Returns the bits FLMEM_MARKER_* of the markers found; 0 for a module that is not searched deeply.
 */
uint32_t flmem_module_markers(const struct flmem_module *module);

/* Reports whether the module holds this marker, even if the module is not searched deeply. */
bool flmem_module_has_marker(const struct flmem_module *module, enum flmem_marker_index marker);

/* Reports whether the module defines this dynamic symbol. */
bool flmem_module_exports(const struct flmem_module *module, const char *name);

/* Like flmem_module_exports(), also from .symtab where the module is searched deeply. */
bool flmem_module_defines(const struct flmem_module *module, const char *name);

/*
 * Reports whether the module is flmem's own sampler, of a build with its mark
 * (preload/sampler_state.h).
 */
bool flmem_module_is_sampler(const struct flmem_module *module);

/*
 * The first module in lookup order that exports malloc(). flmem's own sampler is skipped: it hands
 * each call on to the next module and takes no lock. NULL: there is none.
 */
const struct flmem_module *flmem_modules_find_malloc(const struct flmem_modules *modules);

/* Reports whether the module is a program without a dynamic linker, which contains its libc. */
bool flmem_module_is_static(const struct flmem_module *module);

/*
 * Copies the characters of the set `accept` that follow an occurrence of the marker in the
 * read-only data, from the first one with any. False when there are none.
 */
bool flmem_module_text_after_marker(const struct flmem_module *module,
				    enum flmem_marker_index marker, const char *accept,
				    char version[FLMEM_ALLOCATOR_VERSION_MAX]);

/*
 * Results for a file, kept with its image for the next process that maps it. `main` and `deep`
 * state for which kind of search the other fields are valid.
 */
struct flmem_recognition {
	bool main, deep, has_markers, has_rows;
	uint32_t markers;
	size_t count;
	struct flmem_allocator
		rows[FLMEM_ALLOCATORS_MAX]; /* `module` and `serves_malloc` are not valid */
};

/*
 * Returns the cache kept with the image of the module, empty at first; NULL: unreadable or out of
 * memory.
 */
struct flmem_recognition *flmem_module_recognition(const struct flmem_module *module);

#endif
