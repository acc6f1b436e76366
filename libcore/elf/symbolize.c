/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/symbolize.h"

#include <string.h>

#include "elf/image_private.h"

#define SYMBOLS_MAX	  (UINT64_C(1) << 22)
#define ENTRIES_PER_CHUNK 512U
#define NAME_MAX_BYTES	  1024U
#define MATCHES_MAX	  (UINT64_C(1) << 26)
#define NOTES_MAX	  ((uint64_t)64 << 10)

/* Returns the index of the first row whose value is not below `value`. */
static size_t first_row_at(const struct flmem_addresses *a, uint64_t value)
{
	size_t low = 0, high = a->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (a->rows[middle].value < value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Assigns a symbol to the addresses that it contains. False when the symbols overlap so much that
 * the search would take too long.
 */
static bool match_rows(const struct flmem_addresses *a, const Elf64_Sym *symbol,
		       const struct flmem_extent *names, uint64_t *matches)
{
	unsigned char type = ELF64_ST_TYPE(symbol->st_info);
	uint64_t end;

	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol->st_shndx == SHN_UNDEF ||
	    !symbol->st_size || symbol->st_name >= names->size ||
	    __builtin_add_overflow(symbol->st_value, symbol->st_size, &end))
		return true;
	for (size_t i = first_row_at(a, symbol->st_value); i < a->count && a->rows[i].value < end;
	     i++) {
		struct flmem_address *row = &a->rows[i];

		if (++*matches > MATCHES_MAX)
			return false;
		if (row->start > symbol->st_value)
			/* Another symbol begins later, or came first with the same start. */
			continue;
		row->start = symbol->st_value + 1;
		row->name = names->offset + symbol->st_name;
		row->length = names->size - symbol->st_name;
	}
	return true;
}

static void read_symbols(struct flmem_image *image, const struct flmem_extent *symbols,
			 const struct flmem_extent *names, const struct flmem_addresses *a)
{
	Elf64_Sym rows[ENTRIES_PER_CHUNK];
	uint64_t count = symbols->size / sizeof(*rows), matches = 0;

	if (count > SYMBOLS_MAX)
		count = SYMBOLS_MAX;
	for (uint64_t first = 0; first < count; first += ENTRIES_PER_CHUNK) {
		size_t step = count - first < ENTRIES_PER_CHUNK ? (size_t)(count - first)
								: ENTRIES_PER_CHUNK;

		if (!flmem_image_read(image, symbols->offset + first * sizeof(*rows), rows,
				      step * sizeof(*rows)))
			return;
		for (size_t i = 0; i < step; i++)
			if (!match_rows(a, &rows[i], names, &matches))
				return;
	}
}

static bool find_symbol_extents(struct flmem_image *image, const char *section, uint32_t type,
				struct flmem_extent *ret_symbols, struct flmem_extent *ret_names)
{
	Elf64_Shdr symbols, names;

	if (!flmem_image_section(image, section, &symbols) || symbols.sh_type != type ||
	    !flmem_image_section_at(image, symbols.sh_link, &names) || names.sh_type != SHT_STRTAB)
		return false;
	*ret_symbols = (struct flmem_extent){symbols.sh_offset, symbols.sh_size};
	*ret_names = (struct flmem_extent){names.sh_offset, names.sh_size};
	return true;
}

void flmem_image_name_addresses(struct flmem_image *image, const struct flmem_addresses *addresses)
{
	struct flmem_extent symbols, names;
	char name[NAME_MAX_BYTES];

	for (size_t i = 0; i < addresses->count; i++)
		addresses->rows[i].start = 0;
	if (!find_symbol_extents(image, ".symtab", SHT_SYMTAB, &symbols, &names) &&
	    !find_symbol_extents(image, ".dynsym", SHT_DYNSYM, &symbols, &names))
		return;
	read_symbols(image, &symbols, &names, addresses);
	for (size_t i = 0; i < addresses->count; i++) {
		const struct flmem_address *row = &addresses->rows[i];
		size_t length = row->length < sizeof(name) ? (size_t)row->length : sizeof(name);

		if (!row->start || !flmem_image_read(image, row->name, name, length))
			continue;
		length = strnlen(name, length);
		if (length)
			addresses->found(addresses->context, row->index, name, length);
	}
}

/* Copies the descriptor of the first build-id note in this part of the file; returns its size. */
static size_t find_build_id(struct flmem_image *image, uint64_t offset, uint64_t size,
			    unsigned char *out, size_t room)
{
	uint64_t end = offset + (size < NOTES_MAX ? size : NOTES_MAX);
	Elf64_Nhdr note;
	char owner[4];

	while (end - offset >= sizeof(note) &&
	       flmem_image_read(image, offset, &note, sizeof(note))) {
		uint64_t name = offset + sizeof(note);
		uint64_t value = name + (((uint64_t)note.n_namesz + 3) & ~UINT64_C(3));
		uint64_t next = value + (((uint64_t)note.n_descsz + 3) & ~UINT64_C(3));

		if (next > end)
			return 0;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(owner) &&
		    flmem_image_read(image, name, owner, sizeof(owner)) &&
		    memcmp(owner, ELF_NOTE_GNU, sizeof(owner)) == 0)
			return note.n_descsz <= room &&
					       flmem_image_read(image, value, out, note.n_descsz)
				       ? note.n_descsz
				       : 0;
		offset = next;
	}
	return 0;
}

size_t flmem_image_build_id(struct flmem_image *image, unsigned char *out, size_t size)
{
	Elf64_Shdr section;

	if (!flmem_image_section(image, ".note.gnu.build-id", &section) ||
	    section.sh_type != SHT_NOTE)
		return 0;
	return find_build_id(image, section.sh_offset, section.sh_size, out, size);
}
