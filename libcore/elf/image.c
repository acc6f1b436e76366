/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/image.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/io.h"
#include "elf/image_private.h"

#define PHDRS_MAX	  256U
#define SECTIONS_PER_READ 64U
#define SECTION_NAMES_MAX 4096U
#define PAGE		  4096U
#define DYNAMIC_MAX	  1024U

uint64_t flmem_image_size(const struct flmem_image *image)
{
	return image->size;
}

bool flmem_image_has_changed(const struct flmem_image *image)
{
	struct stat status;

	if (image->source.read)
		return false;
	return fstat(image->fd, &status) < 0 || (uint64_t)status.st_size != image->size ||
	       status.st_ctim.tv_sec != image->changed.tv_sec ||
	       status.st_ctim.tv_nsec != image->changed.tv_nsec;
}

bool flmem_image_read(struct flmem_image *image, uint64_t offset, void *out, size_t length)
{
	if (offset > image->size || length > image->size - offset)
		return false;
	if (offset + length <= image->head_length) {
		memcpy(out, image->head + offset, length);
		return true;
	}
	if (image->source.read)
		return image->source.read(image->source.context, offset, out, length);
	return flmem_io_read_at(image->fd, offset, out, length);
}

bool flmem_image_address_to_offset(const struct flmem_image *image, uint64_t address,
				   uint64_t length, uint64_t *ret_offset)
{
	for (size_t i = 0; i < image->load_count; i++) {
		const Elf64_Phdr *load = &image->loads[i];
		uint64_t inside = address - load->p_vaddr;

		if (address < load->p_vaddr || inside >= load->p_filesz ||
		    length > load->p_filesz - inside)
			continue;
		*ret_offset = load->p_offset + inside;
		return true;
	}
	return false;
}

bool flmem_image_read_address(struct flmem_image *image, uint64_t address, void *out, size_t length)
{
	uint64_t offset;

	return flmem_image_address_to_offset(image, address, length, &offset) &&
	       flmem_image_read(image, offset, out, length);
}

static int read_elf_header(struct flmem_image *image, struct flmem_error *err)
{
	Elf64_Ehdr *header = &image->header;

	if (!flmem_image_read(image, 0, header, sizeof(*header)) ||
	    memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0, "not an ELF file");
	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "not a 64-bit little-endian ELF file");
	if (header->e_type != ET_EXEC && header->e_type != ET_DYN)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "neither a program nor a shared library");
	if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum > PHDRS_MAX)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "the ELF file has a bad program header table");
	return 0;
}

static bool keep_load(struct flmem_image *image, const Elf64_Phdr *row)
{
	uint64_t end;

	/* A range that exceeds the file cannot have been mapped either. */
	if (__builtin_add_overflow(row->p_offset, row->p_filesz, &end) || end > image->size ||
	    __builtin_add_overflow(row->p_vaddr, row->p_memsz, &end) ||
	    row->p_filesz > row->p_memsz || image->load_count == IMAGE_LOADS_MAX)
		return false;
	image->loads[image->load_count++] = *row;
	return true;
}

static int read_segments(struct flmem_image *image, Elf64_Phdr *ret_dynamic,
			 struct flmem_error *err)
{
	for (uint16_t i = 0; i < image->header.e_phnum; i++) {
		Elf64_Phdr row;
		uint64_t offset;

		if (__builtin_add_overflow(image->header.e_phoff, i * sizeof(row), &offset) ||
		    !flmem_image_read(image, offset, &row, sizeof(row)))
			return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
					       "the ELF file is truncated");
		if (row.p_type == PT_LOAD && !keep_load(image, &row))
			return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
					       "the ELF file has bad segments");
		if (row.p_type == PT_INTERP)
			image->interpreter = row;
		if (row.p_type == PT_DYNAMIC)
			*ret_dynamic = row;
	}
	return 0;
}

static void keep_tag(struct flmem_dynamic *dynamic, const Elf64_Dyn *entry)
{
	switch (entry->d_tag) {
	case DT_GNU_HASH:
		dynamic->gnu_hash = entry->d_un.d_ptr;
		break;
	case DT_HASH:
		dynamic->hash = entry->d_un.d_ptr;
		break;
	case DT_SYMTAB:
		dynamic->symtab = entry->d_un.d_ptr;
		break;
	case DT_STRTAB:
		dynamic->strtab = entry->d_un.d_ptr;
		break;
	case DT_STRSZ:
		dynamic->strtab_size = entry->d_un.d_val;
		break;
	case DT_JMPREL:
		dynamic->jmprel = entry->d_un.d_ptr;
		break;
	case DT_PLTRELSZ:
		dynamic->jmprel_size = entry->d_un.d_val;
		break;
	case DT_RELA:
		dynamic->rela = entry->d_un.d_ptr;
		break;
	case DT_PREINIT_ARRAYSZ:
		dynamic->preinit_size = entry->d_un.d_val;
		break;
	case DT_RELASZ:
		dynamic->rela_size = entry->d_un.d_val;
		break;
	default:
		break;
	}
}

static void read_dynamic(struct flmem_image *image, const Elf64_Phdr *segment)
{
	Elf64_Dyn entries[DYNAMIC_MAX / 16];
	uint64_t left = segment->p_filesz / sizeof(*entries), at = segment->p_offset;

	if (left > DYNAMIC_MAX)
		left = DYNAMIC_MAX;
	while (left) {
		size_t step =
			left < FLMEM_ARRAY_SIZE(entries) ? (size_t)left : FLMEM_ARRAY_SIZE(entries);

		if (!flmem_image_read(image, at, entries, step * sizeof(*entries)))
			return;
		for (size_t i = 0; i < step; i++) {
			if (entries[i].d_tag == DT_NULL)
				return;
			keep_tag(&image->dynamic, &entries[i]);
		}
		at += step * sizeof(*entries);
		left -= step;
	}
}

/*
 * Restores pointers over which the dynamic linker has written run-time addresses (glibc:
 * ADJUST_DYN_INFO).
 */
static void undo_relocation(struct flmem_image *image)
{
	struct flmem_dynamic *dynamic = &image->dynamic;
	uint64_t *pointers[] = {&dynamic->gnu_hash, &dynamic->hash,   &dynamic->symtab,
				&dynamic->strtab,   &dynamic->jmprel, &dynamic->rela};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(pointers); i++) {
		uint64_t offset, value = *pointers[i];

		if (!flmem_image_address_to_offset(image, value, 1, &offset) &&
		    flmem_image_address_to_offset(image, value - image->source.bias, 1, &offset))
			*pointers[i] = value - image->source.bias;
	}
}

static int read_tables(struct flmem_image *image, struct flmem_error *err)
{
	Elf64_Phdr dynamic = {0};
	size_t length = image->size < IMAGE_HEAD_SIZE ? (size_t)image->size : IMAGE_HEAD_SIZE;
	int rc;

	if (!flmem_image_read(image, 0, image->head, length))
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot read the file");
	image->head_length = length;
	rc = read_elf_header(image, err);
	if (!rc)
		rc = read_segments(image, &dynamic, err);
	if (!rc)
		read_dynamic(image, &dynamic);
	if (!rc && image->source.bias)
		undo_relocation(image);
	return rc;
}

static int open_fd(struct flmem_image *image, struct flmem_error *err)
{
	struct stat status;

	if (fstat(image->fd, &status) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot read the file's status");
	if (!S_ISREG(status.st_mode) || status.st_size < 0)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0, "not a regular file");
	image->size = (uint64_t)status.st_size;
	image->changed = status.st_ctim;
	return read_tables(image, err);
}

int flmem_image_open(int fd, struct flmem_image **ret_image, struct flmem_error *err)
{
	FLMEM_AUTO_IMAGE struct flmem_image *image = calloc(1, sizeof(*image));
	int rc;

	if (!image) {
		close(fd);
		return flmem_error_nomem(err, "cannot open an ELF file");
	}
	image->fd = fd;
	rc = open_fd(image, err);
	if (rc)
		return rc;
	*ret_image = FLMEM_TAKE(image);
	return 0;
}

int flmem_image_open_source(const struct flmem_image_source *source, struct flmem_image **ret_image,
			    struct flmem_error *err)
{
	FLMEM_AUTO_IMAGE struct flmem_image *image = calloc(1, sizeof(*image));
	int rc;

	if (!image)
		return flmem_error_nomem(err, "cannot open an ELF file");
	image->fd = -1;
	image->source = *source;
	image->size = source->size;
	rc = read_tables(image, err);
	if (rc)
		return rc;
	*ret_image = FLMEM_TAKE(image);
	return 0;
}

bool flmem_image_is_mapped(const struct flmem_image *image)
{
	return image->source.read;
}

void flmem_image_free(struct flmem_image *image)
{
	if (!image)
		return;
	flmem_cleanup_close(&image->fd);
	free(image->gnu_hash.bloom);
	free(image->note);
	free(image);
}

void *flmem_image_note(const struct flmem_image *image)
{
	return image->note;
}

void flmem_image_set_note(struct flmem_image *image, void *note)
{
	free(image->note);
	image->note = note;
}

bool flmem_image_has_interpreter(const struct flmem_image *image)
{
	return image->interpreter.p_type == PT_INTERP;
}

bool flmem_image_runs_first(const struct flmem_image *image)
{
	return image->dynamic.preinit_size;
}

bool flmem_image_interpreter(struct flmem_image *image, char *out, size_t size)
{
	uint64_t length = image->interpreter.p_filesz;

	if (length < 2 || length > size ||
	    !flmem_image_read(image, image->interpreter.p_offset, out, (size_t)length))
		return false;
	return memchr(out, '\0', (size_t)length) == out + length - 1;
}

uint16_t flmem_image_machine(const struct flmem_image *image)
{
	return image->header.e_machine;
}

bool flmem_image_bias(const struct flmem_image *image, uint64_t start, uint64_t offset,
		      bool executable, uint64_t *ret_bias)
{
	for (size_t i = 0; i < image->load_count; i++) {
		const Elf64_Phdr *load = &image->loads[i];
		/* Mappings start at page boundaries, up to p_align below the segment. */
		uint64_t slack = load->p_align ? load->p_offset % load->p_align : 0;

		if (((load->p_flags & PF_X) != 0) != executable ||
		    offset < load->p_offset - slack || offset >= load->p_offset + load->p_filesz)
			continue;
		*ret_bias = start - offset - (load->p_vaddr - load->p_offset);
		return true;
	}
	return false;
}

bool flmem_image_data_end(const struct flmem_image *image, struct flmem_data_end *ret_end)
{
	const Elf64_Phdr *last = NULL;
	bool in_file;
	uint64_t end;

	for (size_t i = 0; i < image->load_count; i++)
		if (image->loads[i].p_flags & PF_W &&
		    (!last || image->loads[i].p_vaddr > last->p_vaddr))
			last = &image->loads[i];
	if (!last || !last->p_filesz || last->p_memsz < last->p_filesz)
		return false;
	end = last->p_vaddr + last->p_memsz;
	in_file = (end - 1) / PAGE == (last->p_vaddr + last->p_filesz - 1) / PAGE;
	*ret_end = (struct flmem_data_end){end, in_file ? last->p_offset + last->p_memsz : 0};
	return true;
}

/* Reads up to `count` section headers from `first` on; returns how many there are. */
static uint32_t read_sections(struct flmem_image *image, uint32_t first, uint32_t count,
			      Elf64_Shdr *out)
{
	const Elf64_Ehdr *header = &image->header;
	uint64_t offset;

	if (!header->e_shoff || header->e_shentsize != sizeof(*out) || first >= header->e_shnum)
		return 0;
	if (count > header->e_shnum - first)
		count = header->e_shnum - first;
	if (__builtin_add_overflow(header->e_shoff, first * sizeof(*out), &offset) ||
	    !flmem_image_read(image, offset, out, count * sizeof(*out)))
		return 0;
	return count;
}

static bool is_valid_section(const struct flmem_image *image, const Elf64_Shdr *section)
{
	uint64_t end;

	return section->sh_type == SHT_NOBITS ||
	       (!__builtin_add_overflow(section->sh_offset, section->sh_size, &end) &&
		end <= image->size);
}

/*
 * Reads one section header. Files with more than 65279 sections keep their number elsewhere; no
 * program or library has so many.
 */
bool flmem_image_section_at(struct flmem_image *image, uint32_t index, Elf64_Shdr *ret_section)
{
	Elf64_Shdr section;

	if (!read_sections(image, index, 1, &section) || !is_valid_section(image, &section))
		return false;
	*ret_section = section;
	return true;
}

/* The section names, the first SECTION_NAMES_MAX bytes of them; later names are not found. */
struct section_names {
	char bytes[SECTION_NAMES_MAX];
	size_t length;
};

static bool read_section_names(struct flmem_image *image, struct section_names *names)
{
	Elf64_Shdr section;

	if (!flmem_image_section_at(image, image->header.e_shstrndx, &section) ||
	    section.sh_type != SHT_STRTAB)
		return false;
	names->length = section.sh_size < sizeof(names->bytes) ? (size_t)section.sh_size
							       : sizeof(names->bytes);
	return flmem_image_read(image, section.sh_offset, names->bytes, names->length);
}

bool flmem_image_section(struct flmem_image *image, const char *name, Elf64_Shdr *ret_section)
{
	size_t length = strlen(name) + 1;
	Elf64_Shdr rows[SECTIONS_PER_READ];
	struct section_names names;
	uint32_t count;

	if (!read_section_names(image, &names))
		return false;
	for (uint32_t first = 0; (count = read_sections(image, first, SECTIONS_PER_READ, rows));
	     first += count) {
		for (uint32_t i = 0; i < count; i++) {
			if (rows[i].sh_name > names.length ||
			    length > names.length - rows[i].sh_name ||
			    memcmp(names.bytes + rows[i].sh_name, name, length) != 0 ||
			    !is_valid_section(image, &rows[i]))
				continue;
			*ret_section = rows[i];
			return true;
		}
	}
	return false;
}

bool flmem_image_find_section(struct flmem_image *image, const char *name, uint64_t *ret_address,
			      uint64_t *ret_size)
{
	Elf64_Shdr section;

	if (!flmem_image_section(image, name, &section))
		return false;
	*ret_address = section.sh_addr;
	*ret_size = section.sh_size;
	return true;
}
