/* SPDX-License-Identifier: Apache-2.0 */
/* The dynamic linker's list in the memory of a process, and the ELF images that are read there. */
#include <elf.h>

#include "elf/modules_private.h"
#include "memory.h"

#define MODULES	     4U
#define MODULE_BYTES 0x1000U
/* More reads than any walk needs: 4096 objects of two pages each, and the images. */
#define READS_MAX 400000U

static void make_maps(struct flmem_map rows[MODULES])
{
	for (size_t i = 0; i < MODULES; i++)
		rows[i] = (struct flmem_map){
			.start = FUZZ_MEMORY_START + i * MODULE_BYTES,
			.end = FUZZ_MEMORY_START + (i + 1) * MODULE_BYTES,
			.inode = 100 + i,
			.flags = FLMEM_MAP_READ | FLMEM_MAP_EXEC,
			.name = i ? "/lib/ld-linux.so (deleted)" : "/bin/program (deleted)",
		};
}

static void make_modules(struct flmem_modules *modules, struct flmem_module rows[MODULES])
{
	for (size_t i = 0; i < MODULES; i++)
		rows[i] = (struct flmem_module){
			.path = strdup(i ? "/lib/ld-linux.so" : "/bin/program"),
			.start = modules->maps->rows[i].start,
			.end = modules->maps->rows[i].end,
			.inode = modules->maps->rows[i].inode,
			.deleted = true,
			.lookup_rank = -1,
			.map = &modules->maps->rows[i],
			.owner = modules,
		};
}

static void check(const struct flmem_modules *modules)
{
	if (modules->rank_count > modules->count)
		abort();
	for (size_t i = 0; i < modules->rank_count; i++)
		if (modules->by_rank[i]->lookup_rank != (int)i)
			abort();
}

/* The first byte counts the program headers, which are at the beginning of the memory. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FLMEM_AUTO_IMAGE_CACHE struct flmem_image_cache *cache = flmem_image_cache_new();
	struct flmem_process process = FLMEM_PROCESS_INIT;
	struct flmem_map map_rows[MODULES];
	struct flmem_module rows[MODULES], *by_rank[MODULES + 1] = {0};
	struct flmem_maps maps = {.rows = map_rows, .count = MODULES};
	struct flmem_modules modules = {
		.rows = rows,
		.count = MODULES,
		.by_rank = by_rank,
		.process = &process,
		.maps = &maps,
		.cache = cache,
		.headers = FUZZ_MEMORY_START,
		.header_count = size ? data[0] : 0,
	};
	uint64_t address;

	if (!cache || !size)
		return 0;
	fuzz_memory_set(data + 1, size - 1, READS_MAX);
	make_maps(map_rows);
	make_modules(&modules, rows);
	flmem_modules_read_link_map(&modules);
	check(&modules);
	flmem_modules_lookup(&modules, "malloc", &address);
	flmem_module_symbol_any(&rows[0], "malloc", &address);
	flmem_image_cache_forget(cache, &modules);
	for (size_t i = 0; i < MODULES; i++)
		free(rows[i].path);
	return 0;
}
