/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ELF_MODULES_PRIVATE_H
#define FLMEM_ELF_MODULES_PRIVATE_H

#include "elf/modules.h"

/*
 * Opens exactly the file that the module was mapped from, or sets the reason (a static text). A
 * file of the same name that replaced it is refused.
 */
int flmem_module_open_file(const struct flmem_module *module, const char **ret_why);

/*
 * Opens an image of the module's mapped memory, for a file that can no longer be opened. The image
 * must not outlive the module.
 */
int flmem_module_open_memory(const struct flmem_module *module, struct flmem_image **ret_image);

/* Returns the number of a list of modules that is about to be loaded. */
uint64_t flmem_image_cache_begin(struct flmem_image_cache *cache);

/* Closes the images that read the memory of these modules. */
void flmem_image_cache_forget(struct flmem_image_cache *cache, const struct flmem_modules *modules);

/* Returns the image of the module from the cache, opened when it is not cached. */
struct flmem_image *flmem_image_cache_get(struct flmem_image_cache *cache,
					  const struct flmem_module *module, const char **ret_why);

/* Sets the lookup ranks from the dynamic linker's list; false when no list was found. */
bool flmem_modules_read_link_map(struct flmem_modules *modules);

#endif
