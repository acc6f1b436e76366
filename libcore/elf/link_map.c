/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the dynamic linker's list of loaded objects from the target's memory. */
#include <elf.h>
#include <link.h>
#include <string.h>

#include "base/text/text.h"
#include "elf/modules_private.h"

#define PHDRS_MAX   64U
#define DYNAMIC_MAX 512U
#define OBJECTS_MAX 4096U

/* The head of glibc's and musl's list entries, the same in both (link.h, musl's ldso/dynlink.c). */
struct remote_object {
	uint64_t bias, name, dynamic, next, previous;
};

struct remote_debug {
	int32_t version, padding;
	uint64_t first_object, on_change;
	int32_t state; /* 0, RT_CONSISTENT: no object is being added or removed */
};

/* Finds the program's dynamic section in memory from its program headers. */
static bool find_dynamic(const struct flmem_modules *modules, uint64_t *ret_address,
			 uint64_t *ret_count)
{
	Elf64_Phdr rows[PHDRS_MAX];
	uint64_t at = modules->headers, count = modules->header_count;
	uint64_t bias = 0, address = 0, size = 0;
	const struct flmem_module *module;

	if (!at || count > PHDRS_MAX ||
	    flmem_process_read_memory(modules->process, at, rows, count * sizeof(rows[0])))
		return false;
	/*
	 * Most programs have PT_PHDR, the address of their headers; else the file gives the bias.
	 */
	module = flmem_modules_find(modules, at);
	for (uint64_t i = 0; i < count; i++) {
		if (rows[i].p_type == PT_PHDR) {
			bias = at - rows[i].p_vaddr;
			module = NULL;
		} else if (rows[i].p_type == PT_DYNAMIC) {
			address = rows[i].p_vaddr;
			size = rows[i].p_memsz;
		}
	}
	if (!address || (module && !flmem_module_bias(module, &bias)))
		return false;
	*ret_address = address + bias;
	*ret_count = size / sizeof(Elf64_Dyn);
	return true;
}

static bool find_debug_by_dynamic(const struct flmem_modules *modules, uint64_t *ret_debug)
{
	Elf64_Dyn rows[DYNAMIC_MAX];
	uint64_t at, count;

	if (!find_dynamic(modules, &at, &count))
		return false;
	if (count > DYNAMIC_MAX)
		count = DYNAMIC_MAX;
	if (flmem_process_read_memory(modules->process, at, rows, count * sizeof(rows[0])))
		return false;
	for (uint64_t i = 0; i < count && rows[i].d_tag != DT_NULL; i++) {
		if (rows[i].d_tag != DT_DEBUG || !rows[i].d_un.d_ptr)
			continue;
		*ret_debug = rows[i].d_un.d_ptr;
		return true;
	}
	return false;
}

/*
 * Finds the list for a program that was started as an argument of its dynamic linker. The kernel's
 * auxiliary vector then describes the linker, whose own dynamic section has no DT_DEBUG.
 */
static bool find_debug_by_symbol(const struct flmem_modules *modules, uint64_t *ret_debug)
{
	for (size_t i = 0; i < modules->count; i++) {
		const struct flmem_module *module = &modules->rows[i];
		const char *name = flmem_text_basename(module->path);
		uint64_t address;

		if (!flmem_text_starts(name, "ld-") && !flmem_text_starts(name, "ld64"))
			continue;
		if (flmem_module_symbol(module, "_r_debug", ret_debug))
			return true;
		if (flmem_module_symbol(module, "_dl_debug_addr", &address) &&
		    !flmem_process_read_memory(modules->process, address, ret_debug,
					       sizeof(*ret_debug)))
			return true;
	}
	return false;
}

static bool find_first_object(struct flmem_modules *modules, uint64_t *ret_address)
{
	struct remote_debug debug = {0};
	uint64_t address;

	if ((!find_debug_by_dynamic(modules, &address) &&
	     !find_debug_by_symbol(modules, &address)) ||
	    flmem_process_read_memory(modules->process, address, &debug, sizeof(debug)) ||
	    !debug.first_object)
		return false;
	modules->changing = debug.state != 0;
	*ret_address = debug.first_object;
	return true;
}

static struct flmem_module *find_module_of(const struct flmem_modules *modules,
					   const struct remote_object *object)
{
	const struct flmem_module *found = flmem_modules_find(modules, object->dynamic);

	return found ? &modules->rows[found - modules->rows] : NULL;
}

/*
 * The last page that was read: entries next to each other in the list are usually close in memory.
 */
struct cached_page {
	uint64_t start; /* 0: no page was read */
	unsigned char bytes[4096];
};

static bool read_object(const struct flmem_modules *modules, uint64_t at, struct cached_page *near,
			struct remote_object *ret_object)
{
	const uint64_t start = at & ~(uint64_t)(sizeof(near->bytes) - 1);
	const uint64_t offset = at - start;

	if (offset > sizeof(near->bytes) - sizeof(*ret_object))
		return !flmem_process_read_memory(modules->process, at, ret_object,
						  sizeof(*ret_object));
	if (near->start != start) {
		near->start = 0;
		if (flmem_process_read_memory(modules->process, start, near->bytes,
					      sizeof(near->bytes)))
			return false;
		near->start = start;
	}
	memcpy(ret_object, near->bytes + offset, sizeof(*ret_object));
	return true;
}

bool flmem_modules_read_link_map(struct flmem_modules *modules)
{
	struct remote_object object;
	struct cached_page near = {0};
	uint64_t at;

	if (!find_first_object(modules, &at))
		return false;
	/* Objects without a file (the vdso) get no rank; a cycle ends the walk. */
	for (unsigned i = 0; at && i < OBJECTS_MAX; i++, at = object.next) {
		struct flmem_module *module;

		if (!read_object(modules, at, &near, &object))
			break;
		module = find_module_of(modules, &object);
		if (!module)
			continue;
		if (module->lookup_rank >= 0)
			break;
		module->lookup_rank = (int)modules->rank_count;
		modules->by_rank[modules->rank_count++] = module;
	}
	return modules->rank_count > 0;
}
