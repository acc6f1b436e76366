/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_PEEK_WORDS_H
#define FLMEM_PROC_PEEK_WORDS_H

/*
 * A cache of a few bytes at single addresses: the fields of a list element, without the page around
 * them. Part of a peek (proc/peek.h), which knows what can be read. Initialise to zeroes.
 */

#include <stddef.h>
#include <stdint.h>

#include "proc/peek.h"

#define FLMEM_PEEK_WORDS_LENGTH	 32U
#define FLMEM_PEEK_WORDS_BUCKETS (2U * FLMEM_PEEK_FETCHES_MAX)
#define FLMEM_PEEK_WORDS_PAGES	 1024U

struct flmem_peek_words {
	size_t count; /* rows that hold what was read */
	size_t added; /* rows up to here wait for their bytes */
	/* Number of a row plus 1, by the hash of its address. */
	uint16_t buckets[FLMEM_PEEK_WORDS_BUCKETS];
	struct {
		uint64_t address;
		unsigned count;
	} pages[FLMEM_PEEK_WORDS_PAGES]; /* number of rows in a page */
	struct flmem_peek_words_row {
		uint64_t address; /* UINT64_MAX: forgotten */
		size_t length;
		unsigned char bytes[FLMEM_PEEK_WORDS_LENGTH];
	} rows[FLMEM_PEEK_FETCHES_MAX];
};

/* Returns the bytes at an address; NULL if that many were not read there. */
const unsigned char *flmem_peek_words_find(const struct flmem_peek_words *words, uint64_t address,
					   size_t length);

/* Returns how many rows were added in a page; `slot` is any number that belongs to that page. */
unsigned flmem_peek_words_of_page(const struct flmem_peek_words *words, uint64_t page, size_t slot);

/*
 * Returns where the bytes of an address are to be stored; NULL if there is no room. They are found
 * after flmem_peek_words_keep(); flmem_peek_words_undo() drops all rows without bytes.
 */
unsigned char *flmem_peek_words_add(struct flmem_peek_words *words, uint64_t address, size_t length,
				    uint64_t page, size_t slot);
void flmem_peek_words_keep(struct flmem_peek_words *words);
void flmem_peek_words_undo(struct flmem_peek_words *words);

void flmem_peek_words_forget(struct flmem_peek_words *words);
void flmem_peek_words_forget_range(struct flmem_peek_words *words, uint64_t address, size_t length);

#endif
