/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ELF_IMAGE_PRIVATE_H
#define FLMEM_ELF_IMAGE_PRIVATE_H

/* Declarations shared by the files that implement struct flmem_image. */

#include <elf.h>

#include <time.h>

#include "elf/image.h"

#define IMAGE_HEAD_SIZE	  4096U
#define IMAGE_LOADS_MAX	  64U
#define IMAGE_CHUNK_SIZE  ((size_t)64 << 10)
#define IMAGE_BLOOM_KEPT  ((size_t)16 << 10)
#define IMAGE_SYMBOLS_MAX ((uint64_t)1 << 20)
#define IMAGE_NAMES_MAX	  ((uint64_t)64 << 20)

/* A range that was checked to lie within the file. */
struct flmem_extent {
	uint64_t offset, size;
};

/* Values of the dynamic section; addresses are unrelocated, 0 where absent. */
struct flmem_dynamic {
	uint64_t gnu_hash, hash, symtab, strtab, strtab_size;
	uint64_t jmprel, jmprel_size, rela, rela_size, preinit_size;
};

struct flmem_gnu_hash {
	bool tried, usable;
	uint32_t bucket_count, symbol_base, bloom_count, bloom_shift;
	uint64_t bloom_at, buckets_at, chains_at; /* virtual addresses */
	uint64_t *bloom;			  /* NULL: too large to keep */
};

struct flmem_image {
	struct flmem_image_source source; /* its `read` is NULL for a file */
	int fd;
	uint64_t size;
	struct timespec changed; /* time of the last change to the file's content or status */
	Elf64_Ehdr header;
	Elf64_Phdr loads[IMAGE_LOADS_MAX];
	size_t load_count;
	Elf64_Phdr interpreter; /* p_type 0: none */
	struct flmem_dynamic dynamic;
	struct flmem_gnu_hash gnu_hash;
	void *note; /* the caller's block: flmem_image_note() */
	size_t head_length;
	unsigned char head[IMAGE_HEAD_SIZE]; /* start of the file: most small reads are within it */
};

/* Finds a section header by name; it is checked to lie within the file unless SHT_NOBITS. */
bool flmem_image_section(struct flmem_image *image, const char *name, Elf64_Shdr *ret_section);

/* Reads a section header by index, checked in the same way. */
bool flmem_image_section_at(struct flmem_image *image, uint32_t index, Elf64_Shdr *ret_section);

/*
 * Converts a virtual address to a file offset; at least `length` bytes of file content follow it.
 */
bool flmem_image_address_to_offset(const struct flmem_image *image, uint64_t address,
				   uint64_t length, uint64_t *ret_offset);

/* Like flmem_image_search(), within one part of the file. */
bool flmem_image_search_extent(
	struct flmem_image *image, struct flmem_extent where, const void *bytes, size_t length,
	bool (*visit)(struct flmem_image *image, uint64_t offset, void *data), void *data);

#endif
