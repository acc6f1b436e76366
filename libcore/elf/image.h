/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ELF_IMAGE_H
#define FLMEM_ELF_IMAGE_H

/*
 * One 64-bit little-endian ELF file, not trusted: every offset and count is checked against the
 * file before it is used, every loop is bounded, and no allocation grows with what the file claims.
 * The file is read with pread, never mapped: one that shrinks while it is mapped would kill the
 * reader with SIGBUS. libelf is not used here: it allocates by the file's own section count and
 * string table sizes before a caller can check them, cannot look up a symbol by hash, and holds
 * whole symbol tables in memory (libtorch_cpu: 60 MB) where a few preads are enough.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/cleanup.h"

struct flmem_image; /* immutable after opening, except for caches; one thread at a time */

struct flmem_symbol {
	uint64_t value; /* virtual address before relocation */
	uint64_t size;
	uint32_t index;	       /* index in its symbol table */
	uint16_t section;      /* section index; SHN_ABS: the value is not an address */
	unsigned char type;    /* STT_* */
	unsigned char binding; /* STB_* */
};

/* Takes ownership of `fd`, also on failure. FLMEM_EUNSUPPORTED: not a 64-bit ELF file. */
int flmem_image_open(int fd, struct flmem_image **ret_image, struct flmem_error *err);

/*
 * A source of a file's content other than the file: the memory where it is mapped. Parts that are
 * not mapped (sections, .symtab) are missing, and pointers of the dynamic section may be relocated
 * by `bias`.
 */
struct flmem_image_source {
	bool (*read)(const void *context, uint64_t offset, void *out, size_t length);
	const void *context; /* must outlive the image */
	uint64_t size;	     /* no content at or after this offset */
	uint64_t bias;
};

int flmem_image_open_source(const struct flmem_image_source *source, struct flmem_image **ret_image,
			    struct flmem_error *err);

/* Reports whether the image was opened from such a source. */
bool flmem_image_is_mapped(const struct flmem_image *image);

void flmem_image_free(struct flmem_image *image);

static inline void flmem_cleanup_image(struct flmem_image **image)
{
	flmem_image_free(*image);
}

#define FLMEM_AUTO_IMAGE FLMEM_AUTO(flmem_cleanup_image)

/*
 * Reports whether the file names a dynamic linker (PT_INTERP): a dynamically linked program, or a
 * library that can be run.
 */
bool flmem_image_has_interpreter(const struct flmem_image *image);

/*
 * Reports whether the file has functions that are called before those of any library
 * (DT_PREINIT_ARRAY).
 */
bool flmem_image_runs_first(const struct flmem_image *image);

/*
 * Copies the path of the dynamic linker; false when the file names none or the path does not fit.
 */
bool flmem_image_interpreter(struct flmem_image *image, char *out, size_t size);

/* Returns e_machine, EM_X86_64 and so on. */
uint16_t flmem_image_machine(const struct flmem_image *image);

/*
 * Computes the load bias of a mapping of the file: `start` is where the byte at `offset` of the
 * file is mapped. False when no PT_LOAD covers the offset.
 */
bool flmem_image_bias(const struct flmem_image *image, uint64_t start, uint64_t offset,
		      bool executable, uint64_t *ret_bias);

/* End of the data of the last writable PT_LOAD: the rest of that page is unused. */
struct flmem_data_end {
	uint64_t address; /* virtual address */
	/*
	 * If the data end within a page that is mapped from the file, dynamic linkers leave the
	 * file's content from this offset on in the rest of the page, and the kernel zeroes it. 0:
	 * a page of zeros.
	 */
	uint64_t file_offset;
};

bool flmem_image_data_end(const struct flmem_image *image, struct flmem_data_end *ret_end);

/* Finds a defined symbol of .dynsym (DT_GNU_HASH, else DT_HASH); versions are ignored. */
bool flmem_image_find_dynamic(struct flmem_image *image, const char *name,
			      struct flmem_symbol *ret_symbol);

/*
 * Like flmem_image_find_dynamic(), also in .symtab when the file has one. That is a linear search
 * of at most 2^20 symbols and 64 MiB of names, so ask for few names.
 */
bool flmem_image_find_any(struct flmem_image *image, const char *name,
			  struct flmem_symbol *ret_symbol);

/* Finds the virtual address of a section by name (".PyRuntime"); false when there is none. */
bool flmem_image_find_section(struct flmem_image *image, const char *name, uint64_t *ret_address,
			      uint64_t *ret_size);

/*
 * Searches the read-only data of the file (.rodata, else the segments that are not writable; at
 * most 256 MiB) for bytes, at most 256. Calls `visit` with the file offset of each occurrence until
 * it returns true; returns whether it did.
 */
bool flmem_image_search(struct flmem_image *image, const void *bytes, size_t length,
			bool (*visit)(struct flmem_image *image, uint64_t offset, void *data),
			void *data);

/*
 * Returns the file offset of the first occurrence of bytes in the read-only data at or after
 * `from`, or -1.
 */
int64_t flmem_image_find_bytes(struct flmem_image *image, const void *bytes, size_t length,
			       uint64_t from);

/* A string or table that identifies a build; at least 11 bytes. */
struct flmem_marker {
	const void *bytes;
	size_t length;
};

#define FLMEM_MARKERS_MAX 32U

/*
 * Searches the read-only data for markers, at most FLMEM_MARKERS_MAX: bit i of the result is set if
 * the i-th occurs. One pass finds all of them, so ask for all that may be needed in one call.
 */
uint32_t flmem_image_find_markers(struct flmem_image *image, const struct flmem_marker *markers,
				  size_t count);

/*
 * Finds the virtual address of the first occurrence of bytes (instructions) in executable segments.
 */
bool flmem_image_find_code(struct flmem_image *image, const void *bytes, size_t length,
			   uint64_t *ret_address);

/* Reports whether the image's file was written to, or its status changed, since it was opened. */
bool flmem_image_has_changed(const struct flmem_image *image);

/* Returns the length of the file. */
uint64_t flmem_image_size(const struct flmem_image *image);

/* Reads file content at an offset; all or nothing. */
bool flmem_image_read(struct flmem_image *image, uint64_t offset, void *out, size_t length);

/* Reads file content by virtual address, as it is before relocation. */
bool flmem_image_read_address(struct flmem_image *image, uint64_t address, void *out,
			      size_t length);

/*
 * Finds an undefined symbol of the dynamic table. Its value is 0, or the address of the PLT entry
 * that is used as the function's address wherever it is taken (x86-64 psABI, "Function Addresses").
 */
bool flmem_image_find_import(struct flmem_image *image, const char *name,
			     struct flmem_symbol *ret_symbol);

/*
 * Finds the address (before relocation) of the GOT slot through which the image itself calls `name`
 * (R_*_JUMP_SLOT or GLOB_DAT); false if there is none. Reads at most 2^20 relocations of each kind.
 */
bool flmem_image_find_got_slot(struct flmem_image *image, const char *name, uint64_t *ret_address);

/*
 * One heap block that a caller keeps with the image, so that work on a file that several processes
 * map is done once. The block is freed with the image, and when another one is set.
 */
void *flmem_image_note(const struct flmem_image *image);
void flmem_image_set_note(struct flmem_image *image, void *note);

#endif
