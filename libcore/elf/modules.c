/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/modules.h"

#include <elf.h>
#include <limits.h>
#include <string.h>

#include "base/text/text.h"
#include "elf/modules_private.h"

#define DELETED_SUFFIX " (deleted)"

struct mapping_run {
	const struct flmem_map *first, *last, *text;
};

/*
 * Reports whether a mapping continues the run before it: the same file at a higher offset. Segments
 * of a small file share a page, so the same offset may follow; offset 0 may repeat only after the
 * text, else a second mapping of the file begins.
 */
static bool continues_run(const struct mapping_run *run, const struct flmem_map *map)
{
	const struct flmem_map *last = run->last;

	if (map->inode != last->inode || map->device != last->device ||
	    map->offset < last->offset || strcmp(map->name, last->name) != 0)
		return false;
	return map->offset || (run->text && !(map->flags & FLMEM_MAP_EXEC));
}

/*
 * Recognises the gap between segments that are aligned to more than a page: the dynamic linker
 * leaves a part of the first mapping inaccessible, with an offset higher than that of the next
 * segment.
 */
static bool is_hole(const struct flmem_map *map)
{
	return !(map->flags & (FLMEM_MAP_READ | FLMEM_MAP_WRITE | FLMEM_MAP_EXEC));
}

/* Finds the next run of mappings of one file at or after *index; moves *index past the run. */
static bool find_next_run(const struct flmem_maps *maps, size_t *index, struct mapping_run *ret_run)
{
	struct mapping_run run = {0};
	size_t i = *index;

	for (; i < maps->count; i++) {
		const struct flmem_map *map = &maps->rows[i];

		if (!map->inode || is_hole(map))
			continue; /* skip .bss, and parts that were made anonymous */
		if (!run.first)
			run.first = map;
		else if (!continues_run(&run, map))
			break;
		if (map->flags & FLMEM_MAP_EXEC && !run.text)
			run.text = map;
		run.last = map;
	}
	*index = i;
	*ret_run = run;
	return run.first != NULL;
}

static char *copy_path(const struct flmem_modules *modules, const struct flmem_map *map,
		       bool deleted)
{
	size_t length = strlen(map->name), root = strlen(modules->root);
	const char *path = map->name;

	if (deleted)
		length -= strlen(DELETED_SUFFIX);
	/*
	 * For a process in a chroot, maps shows the whole path, but the process sees it from its
	 * root.
	 */
	if (root && length > root && strncmp(path, modules->root, root) == 0 && path[root] == '/') {
		path += root;
		length -= root;
	}
	return strndup(path, length);
}

static bool add_module(struct flmem_modules *modules, const struct mapping_run *run)
{
	const struct flmem_map *map = run->text ? run->text : run->first;
	bool deleted = flmem_map_is_deleted(map);
	char *path = copy_path(modules, map, deleted);

	if (!path)
		return false;
	modules->rows[modules->count++] = (struct flmem_module){
		.path = path,
		.start = run->first->start,
		.end = run->last->end,
		.device = map->device,
		.inode = map->inode,
		.deleted = deleted,
		.lookup_rank = -1,
		.map = map,
		.owner = modules,
	};
	return true;
}

static size_t count_runs(const struct flmem_maps *maps)
{
	size_t count = 0, index = 0;

	for (struct mapping_run run; find_next_run(maps, &index, &run);)
		count++;
	return count;
}

static void read_auxv(struct flmem_modules *modules)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	uint64_t pair[2];

	if (flmem_process_read(modules->process, "auxv", &buf))
		return;
	for (size_t at = 0; at + sizeof(pair) <= buf.length; at += sizeof(pair)) {
		memcpy(pair, buf.data + at, sizeof(pair));
		if (pair[0] == AT_PHDR)
			modules->headers = pair[1];
		else if (pair[0] == AT_PHNUM)
			modules->header_count = pair[1];
		else if (pair[0] == AT_BASE)
			modules->linker = pair[1];
	}
}

static bool add_modules(struct flmem_modules *modules)
{
	size_t index = 0;

	for (struct mapping_run run; find_next_run(modules->maps, &index, &run);) {
		bool holds_program =
			run.first->start <= modules->headers && modules->headers < run.last->end;

		/*
		 * A program that moved its text to huge pages has no executable mapping of its
		 * file.
		 */
		if ((run.text || holds_program) && !add_module(modules, &run))
			return false;
	}
	return true;
}

static void read_root(struct flmem_modules *modules)
{
	char root[PATH_MAX];

	if (!flmem_process_readlink(modules->process, "root", root, sizeof(root)) &&
	    strcmp(root, "/") != 0)
		modules->root = strdup(root);
	else
		modules->root = strdup("");
}

static void mark_main(struct flmem_modules *modules)
{
	const struct flmem_module *main_module;

	/* The first object is the program even if the kernel started the dynamic linker. */
	if (modules->rank_count) {
		modules->by_rank[0]->main = true;
		return;
	}
	main_module = flmem_modules_find(modules, modules->headers);
	if (main_module)
		modules->rows[main_module - modules->rows].main = true;
}

int flmem_modules_load(const struct flmem_process *process, const struct flmem_maps *maps,
		       struct flmem_image_cache *cache, struct flmem_modules *ret_modules,
		       struct flmem_error *err)
{
	struct flmem_modules *modules = ret_modules;
	size_t count = count_runs(maps);

	*modules = (struct flmem_modules){.process = process, .maps = maps, .cache = cache};
	modules->load = cache ? flmem_image_cache_begin(cache) : 0;
	modules->rows = calloc(count + 1, sizeof(*modules->rows));
	modules->by_rank = calloc(count + 1, sizeof(*modules->by_rank));
	read_root(modules);
	read_auxv(modules);
	if (!modules->rows || !modules->by_rank || !modules->root || !add_modules(modules)) {
		flmem_modules_clear(modules);
		return flmem_error_nomem(err, "cannot allocate the list of modules of process %d",
					 (int)process->pid);
	}
	modules->has_link_map = flmem_modules_read_link_map(modules);
	mark_main(modules);
	return 0;
}

bool flmem_modules_are_loading(const struct flmem_modules *modules)
{
	const struct flmem_module *program = flmem_modules_main(modules);
	const char *why;
	struct flmem_image *image = program ? flmem_module_image(program, &why) : NULL;

	return image && flmem_image_has_interpreter(image) &&
	       (modules->changing || !modules->has_link_map);
}

void flmem_modules_clear(struct flmem_modules *modules)
{
	if (modules->cache)
		flmem_image_cache_forget(modules->cache, modules);
	for (size_t i = 0; modules->rows && i < modules->count; i++)
		free(modules->rows[i].path);
	free(modules->rows);
	free(modules->by_rank);
	free(modules->root);
	*modules = (struct flmem_modules){0};
}

const struct flmem_module *flmem_modules_find(const struct flmem_modules *modules, uint64_t address)
{
	size_t low = 0, high = modules->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (modules->rows[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < modules->count && modules->rows[low].start <= address)
		return &modules->rows[low];
	return NULL;
}

const struct flmem_module *flmem_modules_main(const struct flmem_modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		if (modules->rows[i].main)
			return &modules->rows[i];
	return NULL;
}

const struct flmem_module *flmem_modules_linker(const struct flmem_modules *modules)
{
	/* If the linker was started as the program, the kernel mapped no other linker. */
	const struct flmem_module *found =
		flmem_modules_find(modules, modules->linker ? modules->linker : modules->headers);

	return found && !found->main ? found : NULL;
}

struct flmem_image *flmem_module_image(const struct flmem_module *module, const char **ret_why)
{
	const char *why = NULL;
	struct flmem_image *image = flmem_image_cache_get(module->owner->cache, module, &why);

	if (!image && ret_why)
		*ret_why = why;
	return image;
}

bool flmem_module_bias(const struct flmem_module *module, uint64_t *ret_bias)
{
	const struct flmem_image *image = flmem_module_image(module, NULL);
	const struct flmem_map *map = module->map;

	return image && flmem_image_bias(image, map->start, map->offset,
					 (map->flags & FLMEM_MAP_EXEC) != 0, ret_bias);
}

bool flmem_module_address(const struct flmem_module *module, uint64_t value, uint64_t *ret_address)
{
	uint64_t bias;

	if (!flmem_module_bias(module, &bias) ||
	    !flmem_maps_find(module->owner->maps, value + bias))
		return false;
	*ret_address = value + bias;
	return true;
}

/*
 * Reports whether the symbol's value, once relocated, is the address of the function or variable
 * itself.
 */
static bool is_address_symbol(const struct flmem_symbol *symbol)
{
	return symbol->section != SHN_ABS &&
	       (symbol->type == STT_FUNC || symbol->type == STT_OBJECT ||
		symbol->type == STT_NOTYPE);
}

bool flmem_module_symbol(const struct flmem_module *module, const char *name, uint64_t *ret_address)
{
	struct flmem_image *image = flmem_module_image(module, NULL);
	struct flmem_symbol symbol;

	return image && flmem_image_find_dynamic(image, name, &symbol) &&
	       is_address_symbol(&symbol) &&
	       flmem_module_address(module, symbol.value, ret_address);
}

bool flmem_module_symbol_any(const struct flmem_module *module, const char *name,
			     uint64_t *ret_address)
{
	struct flmem_image *image = flmem_module_image(module, NULL);
	struct flmem_symbol symbol;

	return image && flmem_image_find_any(image, name, &symbol) && is_address_symbol(&symbol) &&
	       flmem_module_address(module, symbol.value, ret_address);
}

const struct flmem_module *flmem_modules_lookup(const struct flmem_modules *modules,
						const char *name, uint64_t *ret_address)
{
	for (size_t i = 0; i < modules->rank_count; i++) {
		const struct flmem_module *module = modules->by_rank[i];
		struct flmem_image *image = flmem_module_image(module, NULL);
		struct flmem_symbol symbol;
		uint64_t address = 0;

		if (!image || !flmem_image_find_dynamic(image, name, &symbol))
			continue;
		if (is_address_symbol(&symbol))
			(void)flmem_module_address(module, symbol.value, &address);
		if (ret_address)
			*ret_address = address;
		return module;
	}
	return NULL;
}

static bool read_slot(const struct flmem_module *importer, const char *name, uint64_t *ret_value)
{
	struct flmem_image *image = flmem_module_image(importer, NULL);
	uint64_t slot;

	return image && flmem_image_find_got_slot(image, name, &slot) &&
	       flmem_module_address(importer, slot, &slot) &&
	       !flmem_process_read_memory(importer->owner->process, slot, ret_value,
					  sizeof(*ret_value));
}

bool flmem_module_is_plt_entry(const struct flmem_module *module, const char *name,
			       uint64_t address)
{
	struct flmem_image *image = flmem_module_image(module, NULL);
	struct flmem_symbol symbol;
	uint64_t entry;

	return image && flmem_image_find_import(image, name, &symbol) && symbol.value &&
	       flmem_module_address(module, symbol.value, &entry) && entry == address;
}

const struct flmem_module *flmem_module_got_target(const struct flmem_module *importer,
						   const char *name)
{
	const struct flmem_module *target;
	uint64_t value;

	if (!read_slot(importer, name, &value))
		return NULL;
	target = flmem_modules_find(importer->owner, value);
	if (target && target != importer && flmem_module_is_plt_entry(target, name, value)) {
		importer = target;
		if (!read_slot(importer, name, &value))
			return NULL;
		target = flmem_modules_find(importer->owner, value);
	}
	/* Until the first call the slot points back into the importer's own PLT. */
	if (target == importer && !flmem_image_find_dynamic(flmem_module_image(importer, NULL),
							    name, &(struct flmem_symbol){0}))
		return NULL;
	return target;
}
