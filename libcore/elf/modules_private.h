/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ELF_MODULES_PRIVATE_H
#define FLMEM_ELF_MODULES_PRIVATE_H

#include "elf/modules.h"

/*
 * Opens the very file that the module was mapped from, or says why not (a static text). A file of
 * the same name that took its place is not it.
 */
int flmem_module_open_file(const struct flmem_module *module, const char **ret_why);

/* Image of the module from the cache, opening it when it is not there. */
struct flmem_image *flmem_image_cache_get(struct flmem_image_cache *cache,
					  const struct flmem_module *module, const char **ret_why);

/* Run-time address of the head of the list of loaded objects, or false. */
bool flmem_modules_read_link_map(struct flmem_modules *modules);

#endif
