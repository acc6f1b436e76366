/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the objects that the dynamic linker has loaded, and the symbols that they define. */

#include <dlfcn.h>
#include <string.h>
#include <sys/auxv.h>

#include "preload/sampler/got.h"

#define ADDRESS_SELF   ((uintptr_t)sampler_own_malloc)
#define VERSION_HIDDEN 0x8000U /* the symbol version is not the default */

/*
 * Returns the address of a table. The linker relocates it on most machines; that of the vDSO is not
 * relocated.
 */
static uintptr_t find_object_table(const struct sampler_object *object, const ElfW(Dyn) * entry)
{
	uintptr_t at = entry->d_un.d_ptr;

	return at < object->start ? at + object->base : at;
}

static void take_object_tables(struct sampler_object *object, const ElfW(Dyn) * entry)
{
	size_t skipped = 0;
	bool has_rela = false;

	for (; entry->d_tag != DT_NULL; entry++) {
		switch (entry->d_tag) {
		case DT_STRTAB:
			object->names = (const char *)find_object_table(object, entry);
			break;
		case DT_SYMTAB:
			object->symbols = (const void *)find_object_table(object, entry);
			break;
		case DT_GNU_HASH:
			object->hash = (const void *)find_object_table(object, entry);
			break;
		case DT_HASH:
			object->old_hash = (const void *)find_object_table(object, entry);
			break;
		case DT_VERSYM:
			object->versions = (const void *)find_object_table(object, entry);
			break;
		case DT_RELA:
			object->tables[0] = (const void *)find_object_table(object, entry);
			break;
		case DT_RELASZ:
			object->counts[0] = entry->d_un.d_val / sizeof(ElfW(Rela));
			break;
		case DT_RELACOUNT: /* relocations without a symbol, which come first */
			skipped = entry->d_un.d_val;
			break;
		case DT_JMPREL:
			object->tables[1] = (const void *)find_object_table(object, entry);
			break;
		case DT_PLTRELSZ:
			object->counts[1] = entry->d_un.d_val / sizeof(ElfW(Rela));
			break;
		case DT_PLTREL:
			has_rela = entry->d_un.d_val == DT_RELA;
			break;
		default:
			break;
		}
	}
	if (!has_rela)
		object->counts[1] = 0;
	if (object->tables[0] && skipped <= object->counts[0]) {
		object->tables[0] += skipped;
		object->counts[0] -= skipped;
	}
}

static void take_segment(struct sampler_object *object, const ElfW(Phdr) * part,
			 const ElfW(Dyn) * *ret_dynamic)
{
	uintptr_t at = object->base + part->p_vaddr, end = at + part->p_memsz;

	if (part->p_type == PT_DYNAMIC)
		*ret_dynamic = (const void *)at;
	if (part->p_type == PT_GNU_RELRO) {
		object->sealed_start = sampler_page_of(at);
		object->sealed_end = sampler_page_of(end);
	}
	if (part->p_type != PT_LOAD)
		return;
	object->start = at < object->start ? at : object->start;
	object->end = end > object->end ? end : object->end;
}

static bool read_any_object(const struct dl_phdr_info *info, struct sampler_object *ret)
{
	struct sampler_object object = {.base = info->dlpi_addr, .start = UINTPTR_MAX};
	const ElfW(Dyn) *dynamic = NULL;

	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		take_segment(&object, &info->dlpi_phdr[i], &dynamic);
	if (!dynamic || object.start >= object.end)
		return false;
	take_object_tables(&object, dynamic);
	object.is_main = info->dlpi_phdr == (const void *)getauxval(AT_PHDR);
	*ret = object;
	return object.symbols && object.names;
}

static bool has_address(const struct sampler_object *object, uintptr_t address)
{
	return address >= object->start && address < object->end;
}

static uint32_t hash_name(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

static bool is_symbol_named(const struct sampler_object *object, uint32_t index, const char *name)
{
	const ElfW(Sym) *symbol = &object->symbols[index];

	return symbol->st_shndx != SHN_UNDEF && symbol->st_value &&
	       strcmp(object->names + symbol->st_name, name) == 0;
}

static bool is_definition(const struct sampler_object *object, uint32_t index)
{
	return ELF64_ST_TYPE(object->symbols[index].st_info) == STT_FUNC &&
	       !(object->versions && object->versions[index] & VERSION_HIDDEN);
}

/* Returns 1 if the symbol at the index defines that name in the object, else 0. */
static unsigned count_symbol(const struct sampler_object *object, uint32_t index, const char *name,
			     const ElfW(Sym) * *found)
{
	if (!is_symbol_named(object, index, name))
		return 0;
	if (!*found && is_definition(object, index))
		*found = &object->symbols[index];
	return 1;
}

/*
 * Returns the number of symbols that the object defines under that name. *ret_found is the first
 * function among them.
 */
static unsigned search_hash(const struct sampler_object *object, const char *name,
			    const ElfW(Sym) * *ret_found)
{
	const uint32_t *table = object->hash, *buckets, *chain;
	uint32_t hash = hash_name(name), index, other;
	const ElfW(Addr) * bloom;
	unsigned bits = 8 * sizeof(ElfW(Addr)), count = 0;

	if (!table[0])
		return 0;
	bloom = (const void *)(table + 4);
	buckets = (const void *)(bloom + table[2]);
	chain = buckets + table[0];
	if (!(bloom[hash / bits % table[2]] >> hash % bits & 1) ||
	    !(bloom[hash / bits % table[2]] >> (hash >> table[3]) % bits & 1))
		return 0;
	index = buckets[hash % table[0]];
	if (index < table[1])
		return 0;
	do {
		other = chain[index - table[1]];
		if ((other | 1) == (hash | 1))
			count += count_symbol(object, index, name, ret_found);
		index++;
	} while (!(other & 1));
	return count;
}

/*
 * Searches DT_HASH, which has the number of buckets, that of symbols, the buckets and the chains.
 */
static unsigned search_old_hash(const struct sampler_object *object, const char *name,
				const ElfW(Sym) * *ret_found)
{
	const uint32_t *table = object->old_hash;
	unsigned count = 0;

	for (uint32_t index = 1; index < table[1]; index++)
		count += count_symbol(object, index, name, ret_found);
	return count;
}

static unsigned search_symbol(const struct sampler_object *object, const char *name,
			      const ElfW(Sym) * *ret_symbol)
{
	*ret_symbol = NULL;
	if (object->hash)
		return search_hash(object, name, ret_symbol);
	return object->old_hash ? search_old_hash(object, name, ret_symbol) : 0;
}

unsigned sampler_object_define(const struct sampler_object *object, const char *name,
			       uintptr_t *ret_function)
{
	const ElfW(Sym) * symbol;
	unsigned count = search_symbol(object, name, &symbol);

	*ret_function = symbol ? object->base + symbol->st_value : 0;
	return count;
}

bool sampler_object_function(const struct dl_phdr_info *info, const char *name,
			     uintptr_t *ret_start, uintptr_t *ret_end)
{
	struct sampler_object object;
	const ElfW(Sym) *symbol = NULL;

	if (read_any_object(info, &object))
		search_symbol(&object, name, &symbol);
	if (!symbol)
		return false;
	*ret_start = object.base + symbol->st_value;
	*ret_end = *ret_start + symbol->st_size;
	return true;
}

bool sampler_object_read(const struct dl_phdr_info *info, struct sampler_object *ret)
{
	uintptr_t unused;

	/*
	 * These objects are left out: the linker's own malloc() is not called by others, nor
	 * anything of the vDSO. There may be another sampler: of two that were loaded at once one
	 * is refused and stays.
	 */
	return read_any_object(info, ret) && !has_address(ret, getauxval(AT_BASE)) &&
	       !has_address(ret, getauxval(AT_SYSINFO_EHDR)) && !has_address(ret, ADDRESS_SELF) &&
	       !sampler_object_define(ret, FLMEM_SAMPLER_ORDER_SYMBOL, &unused);
}

struct object_search {
	const char *name;
	uintptr_t found;
	unsigned count;
	bool own_too;
};

static int search_object(struct dl_phdr_info *info, size_t size, void *context)
{
	struct object_search *search = context;
	struct sampler_object object;
	uintptr_t found;

	(void)size;
	if (search->own_too ? !read_any_object(info, &object) : !sampler_object_read(info, &object))
		return 0;
	search->count += sampler_object_define(&object, search->name, &found);
	if (!search->found)
		search->found = found;
	return 0;
}

uintptr_t sampler_symbol_find(const char *name, unsigned *ret_count)
{
	struct object_search search = {.name = name};

	/* The walk is in the order of the link map, in which the linker searches, too. */
	sampler_walk(search_object, &search);
	if (ret_count)
		*ret_count = search.count;
	return search.found;
}

void *sampler_look_up(void *scope, const char *name)
{
	unsigned count;

	sampler_symbol_find(name, &count);
	return count ? dlsym(scope, name) : NULL;
}

uintptr_t sampler_first_definition(const char *name)
{
	struct object_search search = {.name = name, .own_too = true};

	sampler_walk(search_object, &search);
	return search.found;
}

bool sampler_is_alone(void)
{
	struct object_search search = {.name = FLMEM_SAMPLER_ORDER_SYMBOL, .own_too = true};

	sampler_walk(search_object, &search);
	return search.count == 1;
}

/*
 * The check is for mmap(), because a program may have its own malloc() and still call the sampler's
 * mmap().
 */
bool sampler_is_interposed(void)
{
	return sampler_first_definition("malloc") == (uintptr_t)sampler_own_malloc ||
	       sampler_first_definition("mmap") == (uintptr_t)sampler_own_mmap;
}
