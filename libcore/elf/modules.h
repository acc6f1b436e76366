/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ELF_MODULES_H
#define FLMEM_ELF_MODULES_H

/*
 * The ELF files that a process runs code from, and their rank in the order in which the dynamic
 * linker looks up symbols (its link map, read from the target's memory). Files are opened on first
 * use: a PyTorch process has 200 of them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "elf/image.h"
#include "proc/maps.h"
#include "proc/process.h"

/*
 * A cache of images, shared between processes. The key is device, inode and name as /proc/PID/maps
 * shows them. It keeps at most 192 files open and closes the least recently used one.
 */
struct flmem_image_cache;

struct flmem_image_cache *flmem_image_cache_new(void); /* NULL: out of memory */
void flmem_image_cache_free(struct flmem_image_cache *cache);

static inline void flmem_cleanup_image_cache(struct flmem_image_cache **cache)
{
	flmem_image_cache_free(*cache);
}

#define FLMEM_AUTO_IMAGE_CACHE FLMEM_AUTO(flmem_cleanup_image_cache)

struct flmem_module {
	char *path; /* as the process sees it, without " (deleted)"; owned by the modules */
	uint64_t start, end; /* range of the file's mappings; most of .bss follows them */
	dev_t device;
	uint64_t inode;
	bool deleted;	 /* the file was removed or replaced since it was mapped */
	bool main;	 /* the program itself */
	int lookup_rank; /* place in the global symbol scope; -1: not in it, or unknown */
	const struct flmem_map *map;	   /* the module's first executable mapping, or its first */
	const struct flmem_modules *owner; /* the list that contains the module; it must not move */
};

struct flmem_modules {
	struct flmem_module *rows; /* sorted by start address */
	size_t count;
	struct flmem_module **by_rank;
	size_t rank_count;
	bool changing;	   /* libraries were just being loaded or unloaded */
	bool has_link_map; /* the lookup order was read; false: static, or too early */
	const struct flmem_process *process;
	const struct flmem_maps *maps;
	struct flmem_image_cache *cache;
	uint64_t load; /* number that the cache gave to this list */
	/* Address at which the kernel mapped the program headers (AT_PHDR), or 0. */
	uint64_t headers;
	uint64_t header_count; /* number of program headers (AT_PHNUM) */
	/* Address at which the kernel mapped the dynamic linker (AT_BASE), or 0. */
	uint64_t linker;
	char *root; /* the process's root as this process sees it; "" when it is the same */
};

/*
 * Lists the modules of a process. `process`, `maps` and `cache` must outlive the modules, and
 * `ret_modules` must stay in place.
 */
int flmem_modules_load(const struct flmem_process *process, const struct flmem_maps *maps,
		       struct flmem_image_cache *cache, struct flmem_modules *ret_modules,
		       struct flmem_error *err);
void flmem_modules_clear(struct flmem_modules *modules);

#define FLMEM_AUTO_MODULES FLMEM_AUTO(flmem_modules_clear)

/* Returns the module that has the address among its mappings, or NULL. */
const struct flmem_module *flmem_modules_find(const struct flmem_modules *modules,
					      uint64_t address);
const struct flmem_module *flmem_modules_main(const struct flmem_modules *modules);

/* Returns the dynamic linker, which is the C library with musl; NULL if the program has none. */
const struct flmem_module *flmem_modules_linker(const struct flmem_modules *modules);

/*
 * Returns the module's file, opened on the first call, or, when the file is gone, the part of it
 * that is mapped (no sections, no .symtab). NULL when neither can be read; then `ret_why` (may be
 * NULL) is the reason, a static text. The cache owns the image: use it at once, do not keep it
 * across calls for other modules.
 */
struct flmem_image *flmem_module_image(const struct flmem_module *module, const char **ret_why);

/*
 * Finds the load bias, which is added to symbol values. False when the file cannot be read or does
 * not fit.
 */
bool flmem_module_bias(const struct flmem_module *module, uint64_t *ret_bias);

/* Converts a virtual address of the file to a run-time address; false if that is not mapped. */
bool flmem_module_address(const struct flmem_module *module, uint64_t value, uint64_t *ret_address);

/*
 * Reports whether the dynamic linker is loading libraries: the process has just executed its
 * program, or is in dlopen().
 */
bool flmem_modules_are_loading(const struct flmem_modules *modules);

/*
 * Finds the run-time address of a dynamic symbol of this module, function or data. False when the
 * symbol is missing, is an STT_GNU_IFUNC (its value is a resolver, not the function), or is
 * thread-local.
 */
bool flmem_module_symbol(const struct flmem_module *module, const char *name,
			 uint64_t *ret_address);

/* Like flmem_module_symbol(), also from .symtab. */
bool flmem_module_symbol_any(const struct flmem_module *module, const char *name,
			     uint64_t *ret_address);

/*
 * Returns the module whose definition of `name` the dynamic linker gives to the program: the first
 * in lookup order. NULL when none defines it or the order is unknown. `ret_address` (may be NULL)
 * is set to its run-time address, 0 when unknown.
 */
const struct flmem_module *flmem_modules_lookup(const struct flmem_modules *modules,
						const char *name, uint64_t *ret_address);

/*
 * Reports whether `address` is this module's PLT entry for the function. The whole process uses
 * that entry as the function's address if a program at a fixed address takes the address.
 */
bool flmem_module_is_plt_entry(const struct flmem_module *module, const char *name,
			       uint64_t address);

/*
 * Returns the module that the GOT slot of `importer` for `name` points into. NULL: no such import,
 * the memory cannot be read, or the slot is not bound yet.
 */
const struct flmem_module *flmem_module_got_target(const struct flmem_module *importer,
						   const char *name);

#endif
