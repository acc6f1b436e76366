/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/module_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/apart.h"
#include "profiler/index_set.h"

#define PATHS_AT_ONCE	128U
#define PATIENCE_US	UINT64_C(2000000)
#define PATIENCE_ALL_US UINT64_C(5000000) /* of so many, from a slow disk */

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

/* Some paths at once, since a child takes a millisecond. */
struct examination {
	const char *paths[PATHS_AT_ONCE]; /* NULL: none */
	struct module_file files[PATHS_AT_ONCE];
};

static void examine_path(const char *path, struct module_file *ret_file)
{
	FLMEM_AUTO_CLOSE int seen = open(path, O_PATH | O_CLOEXEC);
	struct stat status;
	char byte;

	if (seen < 0 || fstat(seen, &status) < 0)
		return;
	*ret_file = (struct module_file){status.st_dev, status.st_ino};
	if (S_ISREG(status.st_mode)) {
		FLMEM_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

		if (fd >= 0 && pread(fd, &byte, 1, 0) < 0)
			return;
	}
}

/* In a child process. */
static int examine_apart(void *context)
{
	struct examination *examination = context;

	for (size_t i = 0; i < PATHS_AT_ONCE; i++)
		if (examination->paths[i])
			examine_path(examination->paths[i], &examination->files[i]);
	return 0;
}

static bool examine_paths(struct examination *examination, uint64_t patience_us)
{
	const struct flmem_apart apart = {
		.run = examine_apart,
		.context = examination,
		.size = sizeof(*examination),
	};
	int rc = flmem_apart_run(&apart, patience_us);

	return rc != -ETIMEDOUT && rc != -EBUSY;
}

static bool is_examined(const struct flmem_heap_module *module, size_t frames)
{
	return frames && module->path;
}

/* Those that answer, one after the other; each silent one takes its time. */
static void examine_each(struct flmem_heap_module *modules, const size_t *frames, size_t count,
			 struct module_file *files)
{
	for (size_t i = 0; i < count; i++) {
		struct examination one = {.paths = {modules[i].path}};

		if (!is_examined(&modules[i], frames[i]))
			continue;
		modules[i].silent = !examine_paths(&one, PATIENCE_US);
		if (!modules[i].silent)
			files[i] = one.files[0];
	}
}

static void examine_files(struct flmem_heap_module *modules, const size_t *frames, size_t count,
			  struct module_file *files)
{
	for (size_t first = 0; first < count; first += PATHS_AT_ONCE) {
		size_t some = count - first < PATHS_AT_ONCE ? count - first : PATHS_AT_ONCE;
		struct examination examination = {.paths = {NULL}};
		bool any = false;

		for (size_t i = 0; i < some; i++) {
			if (!is_examined(&modules[first + i], frames[first + i]))
				continue;
			examination.paths[i] = modules[first + i].path;
			any = true;
		}
		if (!any)
			continue;
		if (examine_paths(&examination, PATIENCE_ALL_US))
			memcpy(&files[first], examination.files, some * sizeof(*files));
		else
			examine_each(modules + first, frames + first, some, files + first);
	}
}

uint32_t *flmem_heap_module_files(struct flmem_heap_module *modules, const size_t *frames,
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
