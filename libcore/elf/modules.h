/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ELF_MODULES_H
#define FLMEM_ELF_MODULES_H

/*
 * The ELF files that a process has mapped, with their load bias and their place in the order in
 * which the dynamic linker looks symbols up (its link map, read from the target's memory).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "elf/image.h"
#include "proc/maps.h"
#include "proc/process.h"

struct flmem_image_cache; /* images by device, inode, size and mtime; shared between processes */

struct flmem_image_cache *flmem_image_cache_new(void); /* NULL: out of memory */
void flmem_image_cache_free(struct flmem_image_cache *cache);

struct flmem_module {
	const char *path;    /* as the process sees it, without " (deleted)"; owned by the maps */
	uint64_t start, end; /* of all its mappings */
	uint64_t bias;	     /* add it to symbol values */
	dev_t device;
	uint64_t inode;
	bool executable;	   /* has executable pages */
	bool main;		   /* the program itself */
	int lookup_rank;	   /* place in the global symbol scope; -1: not in it, or unknown */
	struct flmem_image *image; /* owned by the cache; NULL: could not be read */
	const char *unreadable;	   /* static: why image is NULL */
};

struct flmem_modules {
	struct flmem_module *rows; /* by start address */
	size_t count;
	bool has_link_map; /* the lookup order was read; false: static, or too early */
};

/* `maps` must outlive the modules. */
int flmem_modules_load(const struct flmem_process *process, const struct flmem_maps *maps,
		       struct flmem_image_cache *cache, struct flmem_modules *ret_modules,
		       struct flmem_error *err);
void flmem_modules_clear(struct flmem_modules *modules);

#define FLMEM_AUTO_MODULES FLMEM_AUTO(flmem_modules_clear)

const struct flmem_module *flmem_modules_find(const struct flmem_modules *modules,
					      uint64_t address);
const struct flmem_module *flmem_modules_main(const struct flmem_modules *modules);

/*
 * Run-time address of a dynamic symbol of this module, function or data. False when it is not
 * there, or is an STT_GNU_IFUNC (its value is a resolver, not the function).
 */
bool flmem_module_symbol(const struct flmem_module *module, const char *name,
			 uint64_t *ret_address);

/* The same, also from .symtab. */
bool flmem_module_symbol_any(const struct flmem_module *module, const char *name,
			     uint64_t *ret_address);

/*
 * The module whose definition of `name` the dynamic linker gives to the program: the first in
 * lookup order. NULL when none has it or the order is unknown.
 */
const struct flmem_module *flmem_modules_lookup(const struct flmem_modules *modules,
						const char *name, uint64_t *ret_address);

#endif
