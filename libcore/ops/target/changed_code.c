/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/target/changed_code.h"

#include <string.h>

#include "base/cleanup.h"
#include "elf/image.h"
#include "elf/modules.h"
#include "elf/symbolize.h"
#include "proc/maps.h"
#include "proc/pages.h"
#include "remote/code_change.h"

#define PLACES_MAX 64U

/*
 * Parts of the names of functions that a release of memory may run, without leading underscores and
 * without what a compiler appends (".constprop.0").
 */
static const char *const release_parts[] = {
	"malloc_trim",
	"mtrim",
	"systrim",
	"malloc_consolidate",
	"unlink_chunk",
	"ptmalloc_init",
	"default_morecore",
	"glibc_morecore",
	"lll_lock_wait_private",
	"lll_lock_wake_private",
	"madvise",
	"brk",
	"sbrk",
	NULL,
};

/*
 * Functions that programs call, so tools set breakpoints there to measure; a release of memory does
 * not call them.
 */
static const char *const allocation_functions[] = {
	"malloc",	 "free",     "calloc", "realloc", "reallocarray", "posix_memalign",
	"aligned_alloc", "memalign", "valloc", "pvalloc", NULL,
};

struct changed_places {
	const struct flmem_view *view;
	const struct flmem_module *library;
	struct flmem_image *image;
	struct flmem_pages pages;
	const struct flmem_map *map;
	/* End of the range in which the mapping was compared with the file. */
	uint64_t bias, checked;
	struct flmem_address rows[PLACES_MAX];
	size_t count;
	bool more; /* there are more places than `rows` holds */
	bool libc, unread, known[PLACES_MAX];
	uint64_t refused; /* the first changed address that counts; 0: none is known */
	const char *name; /* name of the changed function */
	char text[64];
};

static bool has_function_name(const char *const *names, const char *name, size_t length)
{
	for (size_t i = 0; names[i]; i++)
		if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0)
			return true;
	return false;
}

/*
 * Takes the name of the function at a changed place, and decides whether a release of memory may
 * run it.
 */
static void take_function_name(void *context, size_t index, const char *name, size_t length)
{
	struct changed_places *places = context;
	const char *dot;

	while (length && *name == '_') {
		name++;
		length--;
	}
	dot = memchr(name, '.', length);
	if (dot)
		length = (size_t)(dot - name);
	places->known[index] = places->libc ? !has_function_name(release_parts, name, length)
					    : has_function_name(allocation_functions, name, length);
	if (places->known[index] || places->name || length >= sizeof(places->text))
		return;
	memcpy(places->text, name, length);
	places->text[length] = '\0';
	places->name = places->text;
}

static void add_place(struct changed_places *places, uint64_t address)
{
	if (places->count == PLACES_MAX) {
		places->more = true;
		return;
	}
	places->rows[places->count] = (struct flmem_address){
		.value = address - places->bias,
		.index = places->count,
	};
	places->count++;
}

/* Compares a page with the file. Of adjacent changed bytes only the first is recorded. */
static void compare_page(struct changed_places *places, uint64_t address, size_t length)
{
	unsigned char built[4096], now[sizeof(built)];
	const uint64_t offset = places->map->offset + (address - places->map->start);
	const uint64_t size = flmem_image_size(places->image);
	bool differs = false;

	if (offset >= size)
		return;
	if (length > size - offset)
		length = (size_t)(size - offset);
	if (!flmem_image_read(places->image, offset, built, length) ||
	    flmem_process_read_memory(places->view->process, address, now, length)) {
		places->unread = true;
		return;
	}
	for (size_t i = 0; i < length; i++) {
		if (!differs && built[i] != now[i])
			add_place(places, address + i);
		differs = built[i] != now[i];
	}
}

static void compare_code_range(void *context, uint64_t start, uint64_t end)
{
	struct changed_places *places = context;

	/* If the image was read from memory, there is no file to compare with. */
	if (flmem_image_is_mapped(places->image))
		places->more = true;
	for (uint64_t at = start; at < end && !places->more; at += 4096)
		compare_page(context, at, end - at < 4096 ? (size_t)(end - at) : 4096);
}

/*
 * Checks the pages up to `end`: a page that is present and not the file's, or swapped out, is a
 * copy.
 */
static void check_up_to(struct changed_places *places, uint64_t end)
{
	if (end > places->checked &&
	    flmem_pages_each_kept(&places->pages, places->checked, end, compare_code_range, places))
		places->unread = true;
}

static void skip_file_pages(void *context, uint64_t start, uint64_t end)
{
	struct changed_places *places = context;

	check_up_to(places, start);
	places->checked = end;
}

static bool holds_code(const struct flmem_module *library, const struct flmem_map *map)
{
	/* A mapping that is also writable holds data (old linkers, and -N). */
	return map->flags & FLMEM_MAP_EXEC && !(map->flags & FLMEM_MAP_WRITE) &&
	       map->inode == library->inode && map->device == library->device &&
	       map->start >= library->start && map->end <= library->end;
}

static void find_changed_places(struct changed_places *places)
{
	const struct flmem_maps *maps = places->view->maps;

	for (size_t i = 0; i < maps->count; i++) {
		const struct flmem_map *map = &maps->rows[i];

		if (!holds_code(places->library, map))
			continue;
		places->map = map;
		places->checked = map->start;
		if (flmem_pages_of_file(&places->pages, map->start, map->end, skip_file_pages,
					places))
			places->unread = true;
		check_up_to(places, map->end);
	}
}

/* Naming may sort the rows. */
static uint64_t first_refused(const struct changed_places *places)
{
	uint64_t first = 0;

	for (size_t i = 0; i < places->count; i++) {
		const uint64_t at = places->rows[i].value + places->bias;

		if (!places->known[places->rows[i].index] && (!first || at < first))
			first = at;
	}
	return first;
}

static bool is_code_changed(struct changed_places *places)
{
	const struct flmem_addresses addresses = {
		.rows = places->rows,
		.count = places->count,
		.found = take_function_name,
		.context = places,
	};

	if (places->unread || places->more)
		return true;
	if (places->count)
		flmem_image_name_addresses(places->image, &addresses);
	places->refused = first_refused(places);
	return places->refused;
}

int flmem_changed_code_check(const struct flmem_view *view, const struct flmem_module *library,
			     bool libc, struct flmem_error *err)
{
	struct changed_places places = {
		.view = view, .library = library, .libc = libc, .pages = FLMEM_PAGES_INIT};
	int rc;

	places.image = flmem_module_image(library, NULL);
	if (!places.image || !flmem_module_bias(library, &places.bias))
		return 0;
	rc = flmem_pages_open(view->process, &places.pages, err);
	if (rc)
		return rc;
	find_changed_places(&places);
	flmem_pages_close(&places.pages);
	if (!is_code_changed(&places))
		return 0;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "code of '%s' in process %d is not that of the file (%s), and a "
			       "borrowed thread must not run it: %s",
			       library->path, (int)view->process->pid,
			       places.name ? places.name : "no function has a name there",
			       flmem_code_change_cause(view, places.refused));
}
