/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython_padding.h"

#include <stdbool.h>
#include <string.h>

#include "base/text.h"
#include "elf/modules.h"
#include "proc/maps.h"
#include "proc/process.h"

#define PAGE 4096U

const unsigned char flmem_padding_magic[8] = {'f', 'l', 'm', 'e', 'm', ' ', '\n', 1};

/*
 * The dynamic linker allocates from the rest of its own page before malloc is there (glibc,
 * elf/dl-minimal.c). The program's heap begins with a page of its own (ELF_PAGEALIGN in the kernel's
 * fs/binfmt_elf.c).
 */
static bool is_usable(const struct flmem_module *module)
{
	const char *name = flmem_text_basename(module->path);

	return !flmem_text_starts(name, "ld-") && !flmem_text_starts(name, "ld.");
}

static bool is_private_data(const struct flmem_map *map)
{
	return map && map->flags & FLMEM_MAP_WRITE && !(map->flags & FLMEM_MAP_SHARED) &&
	       !(map->flags & FLMEM_MAP_EXEC);
}

static bool is_free(const struct flmem_view *view, uint64_t address, size_t length)
{
	unsigned char bytes[FLMEM_PADDING_MAX];
	struct flmem_padding_head head;
	size_t first = 0;

	if (length < sizeof(head) ||
	    flmem_process_read_memory(view->process, address, bytes, length))
		return false;
	memcpy(&head, bytes, sizeof(head));
	if (memcmp(head.magic, flmem_padding_magic, sizeof(head.magic)) == 0 && head.done)
		first = head.length < length ? (size_t)head.length : length;
	for (size_t i = first; i < length; i++)
		if (bytes[i])
			return false;
	return true;
}

static bool has_room(const struct flmem_view *view, const struct flmem_module *module,
		     size_t length, uint64_t *ret_address)
{
	struct flmem_image *image = flmem_module_image(module, NULL);
	uint64_t end, bias, start, page_end;

	if (!image || !flmem_image_data_end(image, &end) || !flmem_module_bias(module, &bias))
		return false;
	start = (end + bias + 63) & ~UINT64_C(63);
	page_end = (end + bias + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	if (start > page_end || page_end - start < length ||
	    !is_private_data(flmem_maps_find(view->maps, start)) || !is_free(view, start, length))
		return false;
	*ret_address = start;
	return true;
}

int flmem_padding_find(const struct flmem_view *view, size_t length, uint64_t *ret_address,
		       struct flmem_error *err)
{
	for (size_t i = 0; length <= FLMEM_PADDING_MAX && i < view->modules->count; i++)
		if (is_usable(&view->modules->rows[i]) &&
		    has_room(view, &view->modules->rows[i], length, ret_address))
			return 0;
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "no file of process %d has %zu unused bytes behind its data, "
			       "where the code could wait for its turn",
			       (int)view->process->pid, length);
}
