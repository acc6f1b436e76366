/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "elf/modules.h"
#include "elf/modules_private.h"

#define ENTRIES 192U /* well below the usual limit of 1024 descriptors */
#define BUCKETS 256U
#define NONE	UINT16_MAX

struct image_entry {
	dev_t device;
	uint64_t inode;
	char *name;
	struct flmem_image *image; /* NULL: the file could not be opened */
	/* Static: why the file could not be opened through `tried_by`. */
	const char *why;
	/* The modules whose memory the image reads; NULL: it reads a file. */
	const struct flmem_modules *owner;
	pid_t tried_by;
	/* `load`: the list of modules for which the file was last compared. */
	uint64_t last_use, load;
	uint16_t next; /* index of the next entry in the bucket */
};

struct flmem_image_cache {
	struct image_entry entries[ENTRIES];
	uint16_t buckets[BUCKETS];
	uint16_t count;
	uint64_t clock, loads;
};

struct flmem_image_cache *flmem_image_cache_new(void)
{
	struct flmem_image_cache *cache = calloc(1, sizeof(*cache));

	if (cache)
		memset(cache->buckets, 0xff, sizeof(cache->buckets));
	return cache;
}

static void clear_entry(struct image_entry *entry)
{
	flmem_image_free(entry->image);
	free(entry->name);
	*entry = (struct image_entry){0};
}

void flmem_image_cache_free(struct flmem_image_cache *cache)
{
	if (!cache)
		return;
	for (uint16_t i = 0; i < cache->count; i++)
		clear_entry(&cache->entries[i]);
	free(cache);
}

static uint16_t *bucket_of(struct flmem_image_cache *cache, dev_t device, uint64_t inode)
{
	uint64_t hash = (inode ^ (uint64_t)device << 32) * UINT64_C(0x9e3779b97f4a7c15);

	return &cache->buckets[(hash >> 32) % BUCKETS];
}

/*
 * The name is part of the key because a file system with subvolumes (btrfs) uses an inode number
 * several times with one device number.
 */
static struct image_entry *find_cached_image(struct flmem_image_cache *cache,
					     const struct flmem_module *module)
{
	const struct flmem_map *map = module->map;
	uint16_t i = *bucket_of(cache, map->device, map->inode);

	for (; i != NONE; i = cache->entries[i].next) {
		struct image_entry *entry = &cache->entries[i];

		if (entry->inode == map->inode && entry->device == map->device &&
		    (!entry->owner || entry->owner == module->owner) &&
		    strcmp(entry->name, map->name) == 0)
			return entry;
	}
	return NULL;
}

static void unlink_entry(struct flmem_image_cache *cache, uint16_t index)
{
	const struct image_entry *entry = &cache->entries[index];
	uint16_t *link = bucket_of(cache, entry->device, entry->inode);

	while (*link != index)
		link = &cache->entries[*link].next;
	*link = entry->next;
}

static uint16_t evict_oldest(struct flmem_image_cache *cache)
{
	uint16_t oldest = 0;

	for (uint16_t i = 1; i < cache->count; i++)
		if (cache->entries[i].last_use < cache->entries[oldest].last_use)
			oldest = i;
	unlink_entry(cache, oldest);
	clear_entry(&cache->entries[oldest]);
	return oldest;
}

static struct image_entry *new_entry(struct flmem_image_cache *cache, const struct flmem_map *map)
{
	FLMEM_AUTO_FREE char *name = strdup(map->name);
	uint16_t index, *bucket = bucket_of(cache, map->device, map->inode);
	struct image_entry *entry;

	if (!name)
		return NULL;
	index = cache->count < ENTRIES ? cache->count++ : evict_oldest(cache);
	entry = &cache->entries[index];
	*entry = (struct image_entry){
		.device = map->device,
		.inode = map->inode,
		.name = FLMEM_TAKE(name),
		.next = *bucket,
	};
	*bucket = index;
	return entry;
}

static void open_entry(struct image_entry *entry, const struct flmem_module *module)
{
	int fd = flmem_module_open_file(module, &entry->why);

	entry->tried_by = module->owner->process->pid;
	if (fd >= 0) {
		if (flmem_image_open(fd, &entry->image, NULL))
			entry->why = "not a valid 64-bit ELF file";
	} else if (!flmem_module_open_memory(module, &entry->image)) {
		entry->owner = module->owner;
	}
}

/*
 * Drops the image of a file that was overwritten, as by cp, which keeps its inode. The file is
 * checked once for each list of modules: a process may have been started from a later content.
 */
static void drop_if_changed(struct image_entry *entry, const struct flmem_module *module)
{
	if (entry->load == module->owner->load)
		return;
	entry->load = module->owner->load;
	if (!entry->image || !flmem_image_has_changed(entry->image))
		return;
	flmem_image_free(FLMEM_TAKE(entry->image));
	entry->tried_by = 0;
}

uint64_t flmem_image_cache_begin(struct flmem_image_cache *cache)
{
	return ++cache->loads;
}

/* The emptied entries stay in the list until they are the oldest. */
void flmem_image_cache_forget(struct flmem_image_cache *cache, const struct flmem_modules *modules)
{
	for (uint16_t i = 0; i < cache->count; i++) {
		struct image_entry *entry = &cache->entries[i];

		if (entry->owner != modules)
			continue;
		flmem_image_free(FLMEM_TAKE(entry->image));
		entry->owner = NULL;
		entry->tried_by = 0;
	}
}

struct flmem_image *flmem_image_cache_get(struct flmem_image_cache *cache,
					  const struct flmem_module *module, const char **ret_why)
{
	struct image_entry *entry = find_cached_image(cache, module);

	if (!entry) {
		entry = new_entry(cache, module->map);
		if (!entry) {
			*ret_why = "flmem is out of memory";
			return NULL;
		}
	}
	entry->last_use = ++cache->clock;
	drop_if_changed(entry, module);
	/* A file that cannot be opened through one process may open through another. */
	if (!entry->image && entry->tried_by != module->owner->process->pid)
		open_entry(entry, module);
	if (!entry->image)
		*ret_why = entry->why;
	return entry->image;
}
