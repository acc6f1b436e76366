/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/module_files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "profiler/index_set.h"

/* Of a path that is not there, both are 0. */
struct module_file {
	dev_t device;
	ino_t inode;
};

struct module_search {
	const struct flmem_heap_module *modules;
	const struct module_file *files;
	uint32_t wanted;
};

static bool is_file_there(const struct module_file *file)
{
	return file->device || file->inode;
}

static const char *path_of(const struct flmem_heap_module *module)
{
	return module->path ? module->path : "";
}

static bool has_same_file(const void *context, uint32_t index)
{
	const struct module_search *search = context;
	const struct flmem_heap_module *one = &search->modules[index];
	const struct flmem_heap_module *other = &search->modules[search->wanted];
	const struct module_file *file = &search->files[index];
	const struct module_file *wanted = &search->files[search->wanted];

	if (one->build_id_size != other->build_id_size ||
	    memcmp(one->build_id, other->build_id, one->build_id_size) != 0 ||
	    file->device != wanted->device || file->inode != wanted->inode)
		return false;
	return is_file_there(file) || strcmp(path_of(one), path_of(other)) == 0;
}

static uint64_t hash_file(uint64_t seed, const struct flmem_heap_module *module,
			  const struct module_file *file)
{
	uint64_t hash = flmem_fnv_mix(seed, module->build_id, module->build_id_size);

	if (!is_file_there(file))
		return flmem_fnv_mix(hash, path_of(module), strlen(path_of(module)));
	hash = flmem_fnv_mix(hash, &file->device, sizeof(file->device));
	return flmem_fnv_mix(hash, &file->inode, sizeof(file->inode));
}

static void examine_files(const struct flmem_heap_module *modules, const size_t *frames,
			  size_t count, struct module_file *files)
{
	struct stat status;

	for (size_t i = 0; i < count; i++)
		if (frames[i] && modules[i].path && stat(modules[i].path, &status) == 0)
			files[i] = (struct module_file){status.st_dev, status.st_ino};
}

uint32_t *flmem_heap_module_files(const struct flmem_heap_module *modules, const size_t *frames,
				  size_t count)
{
	FLMEM_AUTO_FREE struct module_file *files = calloc(count + 1, sizeof(*files));
	FLMEM_AUTO_FREE uint32_t *first = calloc(count + 1, sizeof(*first));
	FLMEM_AUTO_INDEX_SET struct flmem_index_set set;

	flmem_index_set_init(&set);
	if (!files || !first)
		return NULL;
	examine_files(modules, frames, count, files);
	for (uint32_t i = 0; i < count; i++) {
		struct module_search search = {modules, files, i};
		const struct flmem_index_key key = {hash_file(set.seed, &modules[i], &files[i]),
						    has_same_file, &search};

		first[i] = flmem_index_set_take(&set, &key, i);
		if (first[i] == FLMEM_INDEX_NONE)
			return NULL;
	}
	return FLMEM_TAKE(first);
}
