/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/module_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/forked_task.h"
#include "proc/files/local_path.h"
#include "profiler/index_set.h"

#define PATHS_AT_ONCE	128U
#define PATIENCE_US	UINT64_C(2000000)
#define PATIENCE_ALL_US UINT64_C(5000000) /* time for all files together, from a slow disk */

/* Identity of a file; both numbers are 0 for a path that does not exist. */
struct module_file {
	dev_t device;
	ino_t inode;
};

struct module_file_search {
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
	const struct module_file_search *search = context;
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

/* Several paths for one child, since a child takes a millisecond. */
struct path_batch {
	const char *paths[PATHS_AT_ONCE]; /* NULL: no path */
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

/* Examines the paths, in a child process. */
static int examine_forked(void *context)
{
	struct path_batch *examination = context;

	for (size_t i = 0; i < PATHS_AT_ONCE; i++)
		if (examination->paths[i])
			examine_path(examination->paths[i], &examination->files[i]);
	return 0;
}

static bool examine_paths(struct path_batch *examination, uint64_t patience_us)
{
	const struct flmem_forked_task task = {
		.run = examine_forked,
		.context = examination,
		.size = sizeof(*examination),
	};
	int rc = flmem_forked_task_run(&task, patience_us);

	return rc != -ETIMEDOUT && rc != -EBUSY;
}

/* Examines a file without a child. Returns false if a child is needed. */
static bool examine_here(const char *path, struct module_file *ret_file)
{
	struct stat status;
	FLMEM_AUTO_CLOSE int found = flmem_local_path_find(path, &status);

	if (found >= 0)
		*ret_file = (struct module_file){status.st_dev, status.st_ino};
	return found >= 0 || found == -ENOENT;
}

/* Examines at most PATHS_AT_ONCE files, by their indexes. */
static void examine_some(struct flmem_heap_module *modules, const uint32_t *wanted, size_t count,
			 struct module_file *files)
{
	struct path_batch all = {.paths = {NULL}};
	bool together;

	for (size_t i = 0; i < count; i++)
		all.paths[i] = modules[wanted[i]].path;
	together = examine_paths(&all, PATIENCE_ALL_US);
	for (size_t i = 0; i < count; i++) {
		struct flmem_heap_module *module = &modules[wanted[i]];
		struct path_batch one = {.paths = {module->path}, .files = {all.files[i]}};

		/*
		 * If they did not answer together, ask one after the other; each one that does not
		 * answer takes its time.
		 */
		module->silent = !together && !examine_paths(&one, PATIENCE_US);
		if (!module->silent)
			files[wanted[i]] = one.files[0];
	}
}

/* Examines the files of modules with frames. Returns false if memory is out. */
static bool examine_files(struct flmem_heap_module *modules, const size_t *frames, size_t count,
			  struct module_file *files)
{
	FLMEM_AUTO_FREE uint32_t *elsewhere = calloc(count + 1, sizeof(*elsewhere));
	size_t left = 0;

	for (uint32_t i = 0; elsewhere && i < count; i++)
		if (frames[i] && modules[i].path && !examine_here(modules[i].path, &files[i]))
			elsewhere[left++] = i;
	for (size_t i = 0; i < left; i += PATHS_AT_ONCE)
		examine_some(modules, elsewhere + i,
			     left - i < PATHS_AT_ONCE ? left - i : PATHS_AT_ONCE, files);
	return elsewhere != NULL;
}

uint32_t *flmem_heap_module_files(struct flmem_heap_module *modules, const size_t *frames,
				  size_t count)
{
	FLMEM_AUTO_FREE struct module_file *files = calloc(count + 1, sizeof(*files));
	FLMEM_AUTO_FREE uint32_t *first = calloc(count + 1, sizeof(*first));
	FLMEM_AUTO_INDEX_SET struct flmem_index_set set;

	flmem_index_set_init(&set);
	if (!files || !first || !examine_files(modules, frames, count, files))
		return NULL;
	for (uint32_t i = 0; i < count; i++) {
		struct module_file_search search = {modules, files, i};
		const struct flmem_index_key key = {hash_file(set.seed, &modules[i], &files[i]),
						    has_same_file, &search};

		first[i] = flmem_index_set_take(&set, &key, i);
		if (first[i] == FLMEM_INDEX_NONE)
			return NULL;
	}
	return FLMEM_TAKE(first);
}
