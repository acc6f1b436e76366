/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols of an image: hash tables, the linear .symtab, and the slots that calls go through. */
#include <string.h>

#include "elf/image.h"
#include "elf/image_private.h"

#define CHAIN_MAX	  4096U
#define NAME_HITS_MAX	  64U
#define SYMBOL_NAME_MAX	  256U
#define RELOCATIONS_MAX	  ((uint64_t)1 << 20)
#define ENTRIES_PER_CHUNK 512U

static bool symbol_at(struct flmem_image *image, uint32_t index, Elf64_Sym *ret_symbol)
{
	return flmem_image_read_address(image,
					image->dynamic.symtab + (uint64_t)index * sizeof(Elf64_Sym),
					ret_symbol, sizeof(*ret_symbol));
}

static bool symbol_is_named(struct flmem_image *image, const Elf64_Sym *symbol, const char *name,
			    size_t size)
{
	const struct flmem_dynamic *dynamic = &image->dynamic;
	char found[SYMBOL_NAME_MAX];

	return symbol->st_name < dynamic->strtab_size &&
	       size <= dynamic->strtab_size - symbol->st_name && size <= sizeof(found) &&
	       flmem_image_read_address(image, dynamic->strtab + symbol->st_name, found, size) &&
	       memcmp(found, name, size) == 0;
}

static void fill_symbol(const Elf64_Sym *symbol, uint32_t index, struct flmem_symbol *ret_symbol)
{
	*ret_symbol = (struct flmem_symbol){
		.value = symbol->st_value,
		.size = symbol->st_size,
		.index = index,
		.section = symbol->st_shndx,
		.type = ELF64_ST_TYPE(symbol->st_info),
		.binding = ELF64_ST_BIND(symbol->st_info),
	};
}

/* Reports whether the symbol at `index` is a definition of `name`, or an import of it. */
static bool match_symbol(struct flmem_image *image, uint32_t index, const char *name, bool defined,
			 struct flmem_symbol *ret_symbol)
{
	Elf64_Sym symbol;

	if (!symbol_at(image, index, &symbol) || (symbol.st_shndx != SHN_UNDEF) != defined ||
	    !symbol_is_named(image, &symbol, name, strlen(name) + 1))
		return false;
	fill_symbol(&symbol, index, ret_symbol);
	return true;
}

static uint32_t hash_gnu(const char *name)
{
	uint32_t hash = 5381;

	for (const unsigned char *p = (const unsigned char *)name; *p; p++)
		hash = hash * 33 + *p;
	return hash;
}

static uint32_t hash_sysv(const char *name)
{
	uint32_t hash = 0;

	for (const unsigned char *p = (const unsigned char *)name; *p; p++) {
		hash = (hash << 4) + *p;
		hash ^= (hash >> 24) & 0xf0;
	}
	return hash & 0x0fffffff;
}

static bool load_gnu_hash(struct flmem_image *image)
{
	struct flmem_gnu_hash *table = &image->gnu_hash;
	uint32_t header[4];
	size_t bloom_size;

	if (table->tried)
		return table->usable;
	table->tried = true;
	if (!image->dynamic.gnu_hash ||
	    !flmem_image_read_address(image, image->dynamic.gnu_hash, header, sizeof(header)))
		return false;
	table->bucket_count = header[0];
	table->symbol_base = header[1];
	table->bloom_count = header[2];
	table->bloom_shift = header[3];
	/* The dynamic linker masks instead of dividing, so only powers of two can be in use. */
	if (!header[0] || !header[2] || (header[2] & (header[2] - 1)) || header[3] > 31)
		return false;
	bloom_size = (size_t)table->bloom_count * sizeof(*table->bloom);
	table->bloom_at = image->dynamic.gnu_hash + sizeof(header);
	table->buckets_at = table->bloom_at + bloom_size;
	table->chains_at = table->buckets_at + (uint64_t)table->bucket_count * sizeof(uint32_t);
	table->usable = true;
	if (bloom_size > IMAGE_BLOOM_KEPT)
		return true;
	table->bloom = malloc(bloom_size);
	if (table->bloom &&
	    !flmem_image_read_address(image, table->bloom_at, table->bloom, bloom_size))
		table->usable = false;
	return table->usable;
}

/* False if the table certainly does not hold the name. */
static bool bloom_may_hold(struct flmem_image *image, uint32_t hash)
{
	const struct flmem_gnu_hash *table = &image->gnu_hash;
	uint32_t index = (hash / 64) & (table->bloom_count - 1);
	uint64_t word, bits;

	if (table->bloom)
		word = table->bloom[index];
	else if (!flmem_image_read_address(image, table->bloom_at + (uint64_t)index * sizeof(word),
					   &word, sizeof(word)))
		return false;
	bits = UINT64_C(1) << (hash % 64) | UINT64_C(1) << ((hash >> table->bloom_shift) % 64);
	return (word & bits) == bits;
}

static bool find_gnu(struct flmem_image *image, const char *name, bool defined,
		     struct flmem_symbol *ret_symbol)
{
	const struct flmem_gnu_hash *table = &image->gnu_hash;
	uint32_t hash = hash_gnu(name), index, entry = 0;

	if (!bloom_may_hold(image, hash) ||
	    !flmem_image_read_address(image,
				      table->buckets_at + (uint64_t)(hash % table->bucket_count) *
								  sizeof(index),
				      &index, sizeof(index)) ||
	    index < table->symbol_base)
		return false;
	for (unsigned i = 0; i < CHAIN_MAX && !(entry & 1); i++, index++) {
		if (!flmem_image_read_address(image,
					      table->chains_at +
						      (uint64_t)(index - table->symbol_base) *
							      sizeof(entry),
					      &entry, sizeof(entry)))
			return false;
		if ((entry | 1) == (hash | 1) &&
		    match_symbol(image, index, name, defined, ret_symbol))
			return true;
	}
	return false;
}

static bool find_sysv(struct flmem_image *image, const char *name, struct flmem_symbol *ret_symbol)
{
	uint64_t table = image->dynamic.hash;
	uint32_t counts[2], index;

	if (!table || !flmem_image_read_address(image, table, counts, sizeof(counts)) || !counts[0])
		return false;
	table += sizeof(counts);
	if (!flmem_image_read_address(
		    image, table + (uint64_t)(hash_sysv(name) % counts[0]) * sizeof(index), &index,
		    sizeof(index)))
		return false;
	table += (uint64_t)counts[0] * sizeof(index);
	for (unsigned i = 0; i < CHAIN_MAX && index != STN_UNDEF && index < counts[1]; i++) {
		if (match_symbol(image, index, name, true, ret_symbol))
			return true;
		if (!flmem_image_read_address(image, table + (uint64_t)index * sizeof(index),
					      &index, sizeof(index)))
			return false;
	}
	return false;
}

bool flmem_image_find_dynamic(struct flmem_image *image, const char *name,
			      struct flmem_symbol *ret_symbol)
{
	if (!image->dynamic.symtab || !image->dynamic.strtab)
		return false;
	if (load_gnu_hash(image))
		return find_gnu(image, name, true, ret_symbol);
	return find_sysv(image, name, ret_symbol);
}

/* A symbol table and its strings, as ranges of the file. */
struct symbol_table {
	struct flmem_extent symbols, names;
};

/* Offsets in the string table at which the wanted name occurs; tails of longer names count. */
struct name_hits {
	uint64_t base;
	uint64_t offsets[NAME_HITS_MAX];
	size_t count;
};

static bool keep_name_hit(struct flmem_image *image, uint64_t offset, void *data)
{
	struct name_hits *hits = data;

	(void)image;
	hits->offsets[hits->count++] = offset - hits->base;
	return hits->count == NAME_HITS_MAX;
}

static bool is_name_hit(const struct name_hits *hits, const Elf64_Sym *symbol)
{
	for (size_t i = 0; i < hits->count; i++)
		if (symbol->st_name == hits->offsets[i])
			return true;
	return false;
}

/*
 * Linear search through the strings: first the offsets of the name, then the symbol that points to
 * one of them. Two sequential reads replace one read per symbol.
 */
static bool search_table(struct flmem_image *image, const struct symbol_table *table,
			 const char *name, bool defined, struct flmem_symbol *ret_symbol)
{
	Elf64_Sym symbols[ENTRIES_PER_CHUNK];
	struct name_hits hits = {.base = table->names.offset};
	uint64_t count = table->symbols.size / sizeof(*symbols);

	flmem_image_search_extent(image, table->names, name, strlen(name) + 1, keep_name_hit,
				  &hits);
	if (!hits.count)
		return false;
	if (count > IMAGE_SYMBOLS_MAX)
		count = IMAGE_SYMBOLS_MAX;
	for (uint64_t first = 0; first < count; first += ENTRIES_PER_CHUNK) {
		size_t step = count - first < ENTRIES_PER_CHUNK ? (size_t)(count - first)
								: ENTRIES_PER_CHUNK;

		if (!flmem_image_read(image, table->symbols.offset + first * sizeof(*symbols),
				      symbols, step * sizeof(*symbols)))
			return false;
		for (size_t i = 0; i < step; i++) {
			if ((symbols[i].st_shndx != SHN_UNDEF) != defined ||
			    !is_name_hit(&hits, &symbols[i]))
				continue;
			fill_symbol(&symbols[i], (uint32_t)(first + i), ret_symbol);
			return true;
		}
	}
	return false;
}

static bool find_static_table(struct flmem_image *image, struct symbol_table *ret_table)
{
	Elf64_Shdr symbols, names;

	if (!flmem_image_section(image, ".symtab", &symbols) || symbols.sh_type != SHT_SYMTAB ||
	    !flmem_image_section_at(image, symbols.sh_link, &names) || names.sh_type != SHT_STRTAB)
		return false;
	if (names.sh_size > IMAGE_NAMES_MAX)
		names.sh_size = IMAGE_NAMES_MAX;
	ret_table->symbols = (struct flmem_extent){symbols.sh_offset, symbols.sh_size};
	ret_table->names = (struct flmem_extent){names.sh_offset, names.sh_size};
	return true;
}

bool flmem_image_find_any(struct flmem_image *image, const char *name,
			  struct flmem_symbol *ret_symbol)
{
	struct symbol_table table;

	if (flmem_image_find_dynamic(image, name, ret_symbol))
		return true;
	return find_static_table(image, &table) &&
	       search_table(image, &table, name, true, ret_symbol);
}

/*
 * Counts the entries of .dynsym that hold the imports: GNU hash puts them first, DT_HASH counts
 * all. For an image that exports nothing ld writes a table with 1; then the entries are counted up
 * to the strings, which follow the symbols.
 */
static uint64_t count_imports(struct flmem_image *image)
{
	const struct flmem_dynamic *dynamic = &image->dynamic;
	uint32_t counts[2];

	if (load_gnu_hash(image) && image->gnu_hash.symbol_base > 1)
		return image->gnu_hash.symbol_base;
	if (dynamic->hash && flmem_image_read_address(image, dynamic->hash, counts, sizeof(counts)))
		return counts[1];
	return dynamic->strtab > dynamic->symtab
		       ? (dynamic->strtab - dynamic->symtab) / sizeof(Elf64_Sym)
		       : 0;
}

/* Finds the part of the file at a virtual address, cut to what the file holds of its segment. */
static bool find_extent_at(const struct flmem_image *image, uint64_t address, uint64_t size,
			   struct flmem_extent *ret_extent)
{
	uint64_t offset;

	if (!flmem_image_address_to_offset(image, address, size, &offset))
		return false;
	*ret_extent = (struct flmem_extent){offset, size};
	return true;
}

static bool find_listed_import(struct flmem_image *image, const char *name,
			       struct flmem_symbol *ret_symbol)
{
	const struct flmem_dynamic *dynamic = &image->dynamic;
	uint64_t count = count_imports(image);
	struct symbol_table table;

	if (count > IMAGE_SYMBOLS_MAX || dynamic->strtab_size > IMAGE_NAMES_MAX ||
	    !find_extent_at(image, dynamic->symtab, count * sizeof(Elf64_Sym), &table.symbols) ||
	    !find_extent_at(image, dynamic->strtab, dynamic->strtab_size, &table.names))
		return false;
	return search_table(image, &table, name, false, ret_symbol);
}

bool flmem_image_find_import(struct flmem_image *image, const char *name,
			     struct flmem_symbol *ret_symbol)
{
	if (find_listed_import(image, name, ret_symbol))
		return true;
	/* An import whose value is a PLT entry of this image is hashed like a definition. */
	return load_gnu_hash(image) && find_gnu(image, name, false, ret_symbol);
}

static bool is_slot_type(uint16_t machine, uint32_t type)
{
	switch (machine) {
	case EM_X86_64:
		return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT;
	case EM_AARCH64:
		return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT;
	default:
		return false;
	}
}

static bool find_slot(struct flmem_image *image, struct flmem_extent where, uint32_t symbol,
		      uint64_t *ret_address)
{
	Elf64_Rela rows[ENTRIES_PER_CHUNK];
	uint64_t count = where.size / sizeof(*rows);

	if (count > RELOCATIONS_MAX)
		count = RELOCATIONS_MAX;
	for (uint64_t first = 0; first < count; first += ENTRIES_PER_CHUNK) {
		size_t step = count - first < ENTRIES_PER_CHUNK ? (size_t)(count - first)
								: ENTRIES_PER_CHUNK;

		if (!flmem_image_read(image, where.offset + first * sizeof(*rows), rows,
				      step * sizeof(*rows)))
			return false;
		for (size_t i = 0; i < step; i++) {
			if (ELF64_R_SYM(rows[i].r_info) != symbol ||
			    !is_slot_type(image->header.e_machine,
					  (uint32_t)ELF64_R_TYPE(rows[i].r_info)))
				continue;
			*ret_address = rows[i].r_offset;
			return true;
		}
	}
	return false;
}

bool flmem_image_find_got_slot(struct flmem_image *image, const char *name, uint64_t *ret_address)
{
	const struct flmem_dynamic *dynamic = &image->dynamic;
	struct flmem_extent where;
	struct flmem_symbol symbol;

	if (!flmem_image_find_dynamic(image, name, &symbol) &&
	    !flmem_image_find_import(image, name, &symbol))
		return false;
	return (find_extent_at(image, dynamic->jmprel, dynamic->jmprel_size, &where) &&
		find_slot(image, where, symbol.index, ret_address)) ||
	       (find_extent_at(image, dynamic->rela, dynamic->rela_size, &where) &&
		find_slot(image, where, symbol.index, ret_address));
}
