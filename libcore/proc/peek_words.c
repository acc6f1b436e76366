/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/peek_words.h"

#include <string.h>

#define FORGOTTEN UINT64_MAX

_Static_assert(FLMEM_PEEK_FETCHES_MAX < UINT16_MAX, "a bucket holds the number of a row");

static size_t words_bucket(uint64_t address)
{
	return (size_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 40) % FLMEM_PEEK_WORDS_BUCKETS;
}

const unsigned char *flmem_peek_words_find(const struct flmem_peek_words *words, uint64_t address,
					   size_t length)
{
	if (!words->count || length > FLMEM_PEEK_WORDS_LENGTH)
		return NULL;
	for (size_t at = words_bucket(address); words->buckets[at];
	     at = (at + 1) % FLMEM_PEEK_WORDS_BUCKETS) {
		const struct flmem_peek_words_row *row = &words->rows[words->buckets[at] - 1];

		if (row->address == address && row->length >= length)
			return row->bytes;
	}
	return NULL;
}

unsigned flmem_peek_words_of_page(const struct flmem_peek_words *words, uint64_t page, size_t slot)
{
	slot %= FLMEM_PEEK_WORDS_PAGES;
	return words->pages[slot].address == page ? words->pages[slot].count : 0;
}

unsigned char *flmem_peek_words_add(struct flmem_peek_words *words, uint64_t address, size_t length,
				    uint64_t page, size_t slot)
{
	struct flmem_peek_words_row *row = &words->rows[words->added];

	if (words->added == FLMEM_PEEK_FETCHES_MAX)
		return NULL;
	slot %= FLMEM_PEEK_WORDS_PAGES;
	words->pages[slot].count = flmem_peek_words_of_page(words, page, slot) + 1;
	words->pages[slot].address = page;
	words->added++;
	row->address = address;
	row->length = length;
	return row->bytes;
}

void flmem_peek_words_keep(struct flmem_peek_words *words)
{
	for (; words->count < words->added; words->count++) {
		size_t at = words_bucket(words->rows[words->count].address);

		while (words->buckets[at])
			at = (at + 1) % FLMEM_PEEK_WORDS_BUCKETS;
		words->buckets[at] = (uint16_t)(words->count + 1);
	}
}

void flmem_peek_words_undo(struct flmem_peek_words *words)
{
	words->added = words->count;
}

void flmem_peek_words_forget(struct flmem_peek_words *words)
{
	if (!words->added)
		return;
	memset(words->buckets, 0, sizeof(words->buckets));
	memset(words->pages, 0, sizeof(words->pages));
	words->count = words->added = 0;
}

void flmem_peek_words_forget_range(struct flmem_peek_words *words, uint64_t address, size_t length)
{
	for (size_t i = 0; i < words->count; i++) {
		struct flmem_peek_words_row *row = &words->rows[i];

		if (row->address != FORGOTTEN && row->address < address + length &&
		    row->address + row->length > address)
			row->address = FORGOTTEN;
	}
}
