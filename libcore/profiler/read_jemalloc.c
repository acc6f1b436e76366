/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "base/files/file_place.h"
#include "base/text/text.h"
#include "elf/symbolize.h"
#include "profiler/debug_files.h"
#include "profiler/jemalloc_dump.h"
#include "profiler/module_files.h"
#include "profiler/read_private.h"

#define ENTRY_FRAMES 16U /* largest distance of the allocator's entry from the innermost frame */

struct dump_reader {
	struct flmem_profile_reader reader;
	const struct flmem_jemalloc_dump *dump;
	time_t written_s;
	/* Addresses of the dump, sorted, without duplicates; each has a record of a frame. */
	uint64_t *addresses;
	uint32_t address_count;
	uint32_t *module_of_map;   /* FLMEM_PROFILE_NONE: no file */
	const char **unidentified; /* for each module: why its file gives no names; NULL: it does */
	/* For each frame, before equal ones were merged: it is the allocator's. */
	unsigned char *of_allocator;
};

static void clear_dump_reader(struct dump_reader *reader)
{
	flmem_profile_reader_clear(&reader->reader);
	free(reader->addresses);
	free(reader->module_of_map);
	free(reader->unidentified);
	free(reader->of_allocator);
}

static int compare_return_addresses(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int sort_addresses(struct dump_reader *r, struct flmem_error *err)
{
	size_t count = r->dump->node_count, kept = 0;

	r->addresses = calloc(count, sizeof(*r->addresses));
	if (!r->addresses)
		return flmem_error_nomem(err, "cannot store its stacks");
	for (size_t i = 1; i < count; i++)
		r->addresses[i - 1] = r->dump->nodes[i].address;
	qsort(r->addresses, count - 1, sizeof(*r->addresses), compare_return_addresses);
	for (size_t i = 0; i + 1 < count; i++)
		if (!kept || r->addresses[kept - 1] != r->addresses[i])
			r->addresses[kept++] = r->addresses[i];
	if (kept > FLMEM_JEMALLOC_ADDRESSES_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "its stacks have more than %zu addresses",
				       FLMEM_JEMALLOC_ADDRESSES_MAX);
	r->address_count = (uint32_t)kept;
	return 0;
}

/*
 * Identifies the file of a module. The text has no build-ids. The file that was mapped is known by
 * its inode and by not having changed since; names of another one would be wrong.
 */
static const char *identify_module(const struct dump_reader *r, const struct flmem_map *map,
				   struct flmem_heap_module *module)
{
	FLMEM_AUTO_IMAGE struct flmem_image *image = NULL;
	struct stat status;
	bool silent = false;

	if (flmem_map_is_deleted(map))
		return "the file of the code was replaced or removed before the dump";
	image = flmem_symbol_image_open(map->name, &status, &silent);
	if (silent)
		return FLMEM_HEAP_FILE_SILENT;
	if (!image)
		return "the file of the code cannot be read here";
	if (status.st_ino != map->inode)
		return "the file of the code is not the one that was mapped (another inode)";
	if (status.st_mtime > r->written_s)
		return "the file of the code has changed since the dump";
	if (!flmem_image_bias(image, map->start, map->offset, true, &module->bias))
		return "the file of the code has no code at this place";
	module->build_id_size =
		(uint32_t)flmem_image_build_id(image, module->build_id, sizeof(module->build_id));
	return NULL;
}

static bool fill_dump_module(struct dump_reader *r, const struct flmem_map *map, bool symbols)
{
	struct flmem_profile_reader *reader = &r->reader;
	struct flmem_heap_module *module = &reader->modules[reader->module_count];

	*module = (struct flmem_heap_module){
		.path = flmem_string_pool_keep(reader->profile->texts, map->name,
					       strlen(map->name)),
		.start = map->start,
		.end = map->end,
		.bias = map->start - map->offset,
	};
	if (!module->path)
		return false;
	if (symbols)
		r->unidentified[reader->module_count] = identify_module(r, map, module);
	reader->module_count++;
	return true;
}

/* True if the mapping has a frame: only files with frames are opened. */
static bool has_dump_frame(const struct dump_reader *r, const struct flmem_map *map)
{
	size_t low = 0, high = r->address_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (r->addresses[middle] <= map->start) /* a return address is after the call */
			low = middle + 1;
		else
			high = middle;
	}
	return low < r->address_count && r->addresses[low] <= map->end;
}

static bool list_modules_of_dump(struct dump_reader *r, bool symbols)
{
	const struct flmem_maps *maps = &r->dump->maps;

	r->module_of_map = calloc(maps->count + 1, sizeof(*r->module_of_map));
	r->reader.modules = calloc(maps->count + 1, sizeof(*r->reader.modules));
	r->unidentified = calloc(maps->count + 1, sizeof(const char *));
	if (!r->module_of_map || !r->reader.modules || !r->unidentified)
		return false;
	for (size_t i = 0; i < maps->count; i++) {
		const struct flmem_map *map = &maps->rows[i];

		r->module_of_map[i] = FLMEM_PROFILE_NONE;
		if (!(map->flags & FLMEM_MAP_EXEC) || map->name[0] != '/' ||
		    !has_dump_frame(r, map))
			continue;
		r->module_of_map[i] = (uint32_t)r->reader.module_count;
		if (!fill_dump_module(r, map, symbols))
			return false;
	}
	return true;
}

/*
 * True for a file of the allocator, or of the sampler, through which the calls of a process pass
 * that both sample.
 */
static bool is_allocator_file(const struct flmem_map *map)
{
	return flmem_text_starts(flmem_text_basename(map->name), "libjemalloc") ||
	       flmem_map_is_sampler(map);
}

static bool push_address_frame(struct dump_reader *r, uint64_t address)
{
	const struct flmem_maps *maps = &r->dump->maps;
	const struct flmem_map *map = flmem_maps_find(maps, address - 1);
	uint32_t module = map ? r->module_of_map[map - maps->rows] : FLMEM_PROFILE_NONE;
	struct flmem_heap_frame frame = {.offset = address - 1};

	if (module == FLMEM_PROFILE_NONE) {
		frame.unresolved =
			r->dump->cut ? "the dump is truncated" : "the code was not in a file";
	} else {
		frame.offset -= r->reader.modules[module].bias;
		frame.module = r->reader.modules[module].path;
		frame.unresolved = r->unidentified[module];
		r->of_allocator[r->reader.profile->frame_count] = is_allocator_file(map);
		if (frame.unresolved)
			module = FLMEM_PROFILE_NONE;
	}
	return flmem_profile_reader_push_frame(&r->reader, &frame, module);
}

static bool read_dump_frames(struct dump_reader *r, bool symbols)
{
	struct flmem_profile_reader *reader = &r->reader;

	reader->frame_map = calloc((size_t)r->address_count + 1, sizeof(*reader->frame_map));
	r->of_allocator = calloc((size_t)r->address_count + 1, sizeof(*r->of_allocator));
	if (!reader->frame_map || !r->of_allocator)
		return false;
	for (uint32_t i = 0; i < r->address_count; i++) {
		if (!push_address_frame(r, r->addresses[i]))
			return false;
		reader->frame_map[i] = i + 1;
	}
	return flmem_profile_reader_finish_frames(reader, r->address_count, symbols);
}

/*
 * True for functions that a program calls; frames below them are the allocator's own (jeprof, for
 * heaps).
 */
static bool is_allocator_entry(const char *function)
{
	static const char *const names[] = {
		"malloc",	 "calloc",	   "realloc", "memalign", "posix_memalign",
		"aligned_alloc", "valloc",	   "pvalloc", "mallocx",  "rallocx",
		"xallocx",	 "prof_backtrace", "newImpl",
	};

	if (!function)
		return false;
	if (flmem_text_starts(function, "je_"))
		return true;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++)
		if (!strcmp(function, names[i]))
			return true;
	return flmem_text_starts(function, "operator new");
}

/* Returns the record of the frame of a node's address. */
static uint32_t record_of_node(const struct dump_reader *r, uint32_t node)
{
	const uint64_t *found =
		bsearch(&r->dump->nodes[node].address, r->addresses, r->address_count,
			sizeof(*r->addresses), compare_return_addresses);

	return (uint32_t)(found - r->addresses);
}

/* Returns the innermost call of a stack that is not one of the allocator's own. */
static uint32_t caller_of_allocator(const struct dump_reader *r, uint32_t leaf)
{
	uint32_t caller = leaf, node = leaf;

	for (size_t i = 0; node && i < ENTRY_FRAMES; i++) {
		uint32_t record = record_of_node(r, node);
		const struct flmem_heap_frame *frame =
			&r->reader.profile->frames[r->reader.frame_map[record] - 1];
		bool own = (r->of_allocator[record] && caller == node) ||
			   is_allocator_entry(frame->function);

		node = r->dump->nodes[node].parent;
		if (own)
			caller = node;
	}
	return caller;
}

static void fill_dump_amounts(const struct flmem_jemalloc_dump *dump,
			      const struct flmem_jemalloc_stack *stack,
			      struct flmem_heap_amounts *to)
{
	const struct flmem_jemalloc_count *live = &stack->live, *all = &stack->allocated;

	to->bytes[FLMEM_HEAP_LIVE] = live->bytes;
	to->count[FLMEM_HEAP_LIVE] = live->objects;
	if (!dump->accumulated)
		return;
	to->bytes[FLMEM_HEAP_ALLOCATED] = all->bytes;
	to->count[FLMEM_HEAP_ALLOCATED] = all->objects;
	if (all->bytes > live->bytes)
		to->bytes[FLMEM_HEAP_FREED] = all->bytes - live->bytes;
	if (all->objects > live->objects)
		to->count[FLMEM_HEAP_FREED] = all->objects - live->objects;
}

static void add_dump_site(struct dump_reader *r, const struct flmem_jemalloc_stack *stack)
{
	struct flmem_heap_profile *p = r->reader.profile;
	struct flmem_heap_site *site = &p->sites[p->site_count++];

	*site = (struct flmem_heap_site){
		.node = caller_of_allocator(r, stack->node),
		.oldest_us = FLMEM_UNKNOWN("jemalloc does not record ages"),
	};
	fill_dump_amounts(r->dump, stack, &site->amounts);
}

/* Adds the nodes that are above sites, and changes `numbers` to those of the profile. */
static bool add_dump_nodes(struct dump_reader *r, uint32_t *numbers)
{
	struct flmem_heap_profile *p = r->reader.profile;
	const struct flmem_jemalloc_node *nodes = r->dump->nodes;

	for (size_t i = 0; i < p->site_count; i++)
		numbers[p->sites[i].node] = 1;
	for (size_t i = r->dump->node_count; i-- > 1;)
		if (numbers[i])
			numbers[nodes[i].parent] = 1;
	numbers[0] = 0;
	for (uint32_t i = 1; i < r->dump->node_count; i++) {
		if (!numbers[i])
			continue;
		numbers[i] = (uint32_t)p->node_count;
		if (!flmem_profile_reader_push_node(&r->reader, numbers[nodes[i].parent],
						    r->reader.frame_map[record_of_node(r, i)] - 1))
			return false;
	}
	for (size_t i = 0; i < p->site_count; i++)
		p->sites[i].node = numbers[p->sites[i].node];
	return true;
}

static bool read_dump_sites(struct dump_reader *r)
{
	struct flmem_heap_profile *p = r->reader.profile;
	FLMEM_AUTO_FREE uint32_t *numbers = calloc(r->dump->node_count, sizeof(*numbers));

	r->reader.room = 0;
	p->sites = calloc(r->dump->stack_count + 1, sizeof(*p->sites));
	if (!numbers || !p->sites ||
	    !flmem_profile_reader_push_node(&r->reader, 0, FLMEM_HEAP_NO_FRAME))
		return false;
	for (size_t i = 0; i < r->dump->stack_count; i++)
		add_dump_site(r, &r->dump->stacks[i]);
	return add_dump_nodes(r, numbers);
}

static uint32_t lacking_parts_of_dump(const struct flmem_jemalloc_dump *dump)
{
	const uint32_t modules = 1U << FLMEM_HEAP_PART_MODULES;

	if (dump->lacks_stacks)
		return modules | 1U << FLMEM_HEAP_PART_AMOUNTS | 1U << FLMEM_HEAP_PART_STACKS;
	return dump->cut ? modules : 0;
}

/*
 * Makes amounts unknown if no stack is known, since 0 would be a guess; a partial sum over the
 * stacks is shown as such.
 */
static void forget_cut_stacks(const struct flmem_jemalloc_dump *dump, struct flmem_heap_profile *p)
{
	for (enum flmem_heap_measure m = 0; m < FLMEM_HEAP_MEASURE_COUNT; m++)
		if (dump->lacks_stacks && !p->site_count)
			p->unknown[m] = "the dump was truncated before its stacks; copy it again, "
					"with all its bytes";
}

static bool fill_dump_facts(const char *path, const struct flmem_jemalloc_dump *dump,
			    struct flmem_heap_profile *p)
{
	static const char total[] = "jemalloc counts it only with prof_accum:true in MALLOC_CONF";

	p->texts = flmem_string_pool_new();
	p->path = strdup(path);
	if (!p->texts || !p->path)
		return false;
	p->program = p->command = "";
	p->allocator = "jemalloc";
	p->ending = FLMEM_HEAP_DUMPED;
	p->interval_bytes = dump->interval_bytes;
	p->interval_full_bytes = p->interval_now_bytes = dump->interval_bytes;
	p->no_python = "a dump of jemalloc has native stacks only";
	p->unrecorded = "a dump of jemalloc does not record it";
	p->cut = dump->cut;
	p->lacks = lacking_parts_of_dump(dump);
	p->skipped = dump->skipped;
	p->cut_stacks = dump->cut_stacks;
	p->unknown[FLMEM_HEAP_PEAK] = "a dump of jemalloc is a snapshot; it has no peak";
	if (!dump->accumulated)
		p->unknown[FLMEM_HEAP_ALLOCATED] = p->unknown[FLMEM_HEAP_FREED] = total;
	return true;
}

static int read_dump(const struct flmem_heap_request *request, int fd,
		     const struct flmem_jemalloc_dump *dump, struct flmem_heap_profile *p,
		     struct flmem_error *err)
{
	FLMEM_AUTO(clear_dump_reader)
	struct dump_reader r = {.reader = {.profile = p}, .dump = dump};
	bool symbols = !request->no_symbols;
	struct stat status;
	int rc;

	if (!fstat(fd, &status))
		r.written_s = status.st_mtime;
	if (!fill_dump_facts(request->path, dump, p))
		return flmem_error_nomem(err, "cannot store its stacks");
	rc = sort_addresses(&r, err);
	if (rc)
		return rc;
	if (!list_modules_of_dump(&r, symbols) || !read_dump_frames(&r, symbols) ||
	    !read_dump_sites(&r))
		return flmem_error_nomem(err, "cannot store its stacks");
	forget_cut_stacks(dump, p);
	return flmem_profile_reader_finish(request, p, err);
}

int flmem_profile_read_jemalloc(const struct flmem_heap_request *request, int fd,
				struct flmem_heap_profile *profile, struct flmem_error *err)
{
	FLMEM_AUTO_JEMALLOC_DUMP struct flmem_jemalloc_dump dump = {0};
	char shown[256];
	int rc = flmem_jemalloc_dump_read(fd, &dump, err);

	if (!rc)
		rc = read_dump(request, fd, &dump, profile, err);
	if (!rc)
		return 0;
	flmem_text_escape(request->path, shown, sizeof(shown));
	return flmem_error_prefix(err, rc, "cannot read the dump of jemalloc '%s'", shown);
}
