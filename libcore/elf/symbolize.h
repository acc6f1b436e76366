/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ELF_SYMBOLIZE_H
#define FLMEM_ELF_SYMBOLIZE_H

/* Finds the functions that contain given addresses of a file. */

#include "elf/image.h"

struct flmem_address {
	uint64_t value; /* virtual address before relocation */
	size_t index;	/* the caller's number of the address */
	/* State of the search: */
	uint64_t start;	 /* start of the best symbol so far, + 1; 0: none */
	uint64_t name;	 /* file offset of that symbol's name */
	uint64_t length; /* largest length of the name */
};

struct flmem_addresses {
	struct flmem_address *rows; /* sorted by value */
	size_t count;
	/* Called for each address that is inside a function. The name contains no NUL. */
	void (*found)(void *context, size_t index, const char *name, size_t length);
	void *context;
};

/*
 * Reads .symtab, else .dynsym, once: at most 2^22 symbols. Of nested functions the one that begins
 * last counts. Names are cut at 1024 bytes.
 */
void flmem_image_name_addresses(struct flmem_image *image, const struct flmem_addresses *addresses);

/* Copies the NT_GNU_BUILD_ID note; returns its size, 0 if there is none or it exceeds `size`. */
size_t flmem_image_build_id(struct flmem_image *image, unsigned char *out, size_t size);

#endif
