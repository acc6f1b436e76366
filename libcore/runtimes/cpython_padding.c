/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython_padding.h"

#include <stdbool.h>
#include <string.h>

#include "base/text/text.h"
#include "elf/modules.h"
#include "proc/maps.h"
#include "proc/process.h"

#define PAGE 4096U

const unsigned char flmem_padding_magic[8] = {'f', 'l', 'm', 'e', 'm', ' ', '\n', 1};

static bool has_symbol(const struct flmem_module *module, const char *name)
{
	struct flmem_image *image = flmem_module_image(module, NULL);
	struct flmem_symbol symbol;

	return image && flmem_image_find_dynamic(image, name, &symbol);
}

/*
 * True if the padding of the module may be used. Not that of the dynamic linker: it allocates from
 * the rest of its last page before malloc is available (glibc, elf/dl-minimal.c). A program may
 * name another file as its linker, so what it exports counts, too. The program is usable: its heap
 * begins on a new page (ELF_PAGEALIGN in the kernel's fs/binfmt_elf.c).
 */
static bool is_usable_module(const struct flmem_module *module)
{
	const char *name = flmem_text_basename(module->path);

	return !flmem_text_starts(name, "ld-") && !flmem_text_starts(name, "ld.") &&
	       !has_symbol(module, "_r_debug");
}

/*
 * True for musl, whose malloc takes the rest of the last page of files (reclaim_gaps() in
 * ldso/dynlink.c).
 */
static bool is_rest_in_heap(const struct flmem_modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		if (has_symbol(&modules->rows[i], "_dl_debug_addr"))
			return true;
	return false;
}

static bool is_private_data(const struct flmem_map *map)
{
	return map && map->flags & FLMEM_MAP_WRITE && !(map->flags & FLMEM_MAP_SHARED) &&
	       !(map->flags & FLMEM_MAP_EXEC);
}

/* A place for a text, and its contents while it is unused. */
struct padding_place {
	uint64_t address;
	unsigned char untouched[FLMEM_PADDING_MAX];
};

/*
 * Selects places: those whose contents in the file are zero, or not zero; and whether used-up ones
 * count, which another flmem may still be reading.
 */
struct padding_search {
	size_t length;
	bool zeros, used_up;
};

static bool is_place_free(const struct flmem_view *view, const struct padding_place *place,
			  const struct padding_search *search)
{
	const size_t length = search->length;
	unsigned char bytes[FLMEM_PADDING_MAX];
	struct flmem_padding_head head;
	size_t first = 0;

	if (length < sizeof(head) ||
	    flmem_process_read_memory(view->process, place->address, bytes, length))
		return false;
	memcpy(&head, bytes, sizeof(head));
	if (search->used_up && memcmp(head.magic, flmem_padding_magic, sizeof(head.magic)) == 0 &&
	    head.done)
		first = head.length < length ? (size_t)head.length : length;
	/* An earlier user leaves zeros. */
	for (size_t i = first; i < length; i++)
		if (bytes[i] && bytes[i] != place->untouched[i])
			return false;
	return true;
}

/* Reads the bytes of the file, and zeros after its end. */
static void read_untouched(struct flmem_image *image, uint64_t offset, struct padding_place *place,
			   size_t length)
{
	uint64_t size = flmem_image_size(image);

	memset(place->untouched, 0, length);
	if (offset < size)
		flmem_image_read(image, offset, place->untouched,
				 length < size - offset ? length : (size_t)(size - offset));
}

static bool find_in_module(const struct flmem_view *view, const struct flmem_module *module,
			   const struct padding_search *search, uint64_t *ret_address)
{
	struct flmem_image *image = flmem_module_image(module, NULL);
	const size_t length = search->length;
	struct flmem_data_end end;
	uint64_t bias, last, page_end;
	struct padding_place place;

	if (!image || !flmem_image_data_end(image, &end) || !flmem_module_bias(module, &bias) ||
	    (!search->zeros && !end.file_offset))
		return false;
	last = end.address + bias;
	place.address = (last + 63) & ~UINT64_C(63);
	page_end = (last + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	if (place.address > page_end || page_end - place.address < length ||
	    !is_private_data(flmem_maps_find(view->maps, place.address)))
		return false;
	if (search->zeros)
		memset(place.untouched, 0, length);
	else
		read_untouched(image, end.file_offset + (place.address - last), &place, length);
	if (!is_place_free(view, &place, search))
		return false;
	*ret_address = place.address;
	return true;
}

static bool find_in_modules(const struct flmem_view *view, const struct padding_search *search,
			    uint64_t *ret_address)
{
	for (size_t i = 0; i < view->modules->count; i++)
		if (is_usable_module(&view->modules->rows[i]) &&
		    find_in_module(view, &view->modules->rows[i], search, ret_address))
			return true;
	return false;
}

static bool find_any(const struct flmem_view *view, size_t length, uint64_t *ret_address)
{
	for (unsigned used_up = 0; used_up < 2; used_up++)
		for (unsigned others = 0; others < 2; others++) {
			const struct padding_search search = {length, !others, used_up};

			if (find_in_modules(view, &search, ret_address))
				return true;
		}
	return false;
}

int flmem_padding_find(const struct flmem_view *view, size_t length, uint64_t *ret_address,
		       struct flmem_error *err)
{
	if (is_rest_in_heap(view->modules))
		return flmem_error_set(
			err, FLMEM_EUNSAFE, 0,
			"the C library of process %d uses the unused bytes after the "
			"data of its files as heap, so flmem cannot store code there",
			(int)view->process->pid);
	if (length <= FLMEM_PADDING_MAX && find_any(view, length, ret_address))
		return 0;
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "no file of process %d has %zu unused bytes after its data, in "
			       "which flmem could store the code",
			       (int)view->process->pid, length);
}
