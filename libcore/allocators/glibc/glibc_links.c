/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_links.h"

static int set_wrong(struct flmem_glibc_link *link, uint64_t word, const char *why)
{
	link->word = word;
	link->wrong = why;
	return 0;
}

static bool is_valid_size(uint64_t size)
{
	return size >= FLMEM_GLIBC_MIN_CHUNK && size % FLMEM_GLIBC_ALIGNMENT == 0;
}

int flmem_glibc_bin_link(struct flmem_peek *peek, uint64_t chunk, uint64_t previous,
			 struct flmem_glibc_link *ret_link)
{
	uint64_t words[4], behind[2]; /* prev_size, size, fd, bk */
	struct flmem_glibc_link *link = ret_link;
	int rc;

	*link = (struct flmem_glibc_link){.word = chunk};
	if (chunk % FLMEM_GLIBC_ALIGNMENT)
		return set_wrong(link, chunk, "this address is not aligned like a block");
	rc = flmem_peek_read(peek, chunk, words, sizeof(words));
	if (rc)
		return rc;
	link->size = words[1] & ~(uint64_t)FLMEM_GLIBC_SIZE_BITS;
	link->next = words[2];
	if (words[3] != previous)
		return set_wrong(link, words[3], "its back pointer does not match the list");
	if (!is_valid_size(link->size))
		return set_wrong(link, words[1], "its size is invalid");
	link->word = chunk + link->size;
	rc = flmem_peek_read(peek, link->word, behind, sizeof(behind));
	if (rc)
		return rc;
	if (behind[0] != link->size || behind[1] & FLMEM_GLIBC_PREV_INUSE)
		return set_wrong(link, behind[0], "the next block does not mark it as free");
	return 0;
}

#define FETCHED_MAX 768U /* chunks fetched at once; the cache has room for some more pages */

/* Addresses whose pages are read together. */
struct page_batch {
	struct flmem_peek *peek;
	uint64_t rows[FLMEM_PEEK_PAGES_MAX];
	size_t count, total;
};

/* How far a bin was followed, from its first chunk by fd and from its last one by bk. */
struct bin_ends {
	uint64_t at[2];
	uint64_t head;
	bool is_done;
};

static void flush_fetch(struct page_batch *fetch)
{
	flmem_peek_fetch(fetch->peek, fetch->rows, fetch->count);
	fetch->count = 0;
}

static void add_fetch(struct page_batch *fetch, uint64_t address)
{
	fetch->rows[fetch->count++] = address;
	fetch->total++;
	if (fetch->count == FLMEM_PEEK_PAGES_MAX)
		flush_fetch(fetch);
}

/*
 * Follows a bin by one chunk from one end, if that chunk is readable and the other end was not met.
 */
static void follow_end(struct page_batch *fetch, struct bin_ends *bin, unsigned end)
{
	uint64_t words[4]; /* prev_size, size, fd, bk */

	if (flmem_peek_read(fetch->peek, bin->at[end], words, sizeof(words))) {
		bin->is_done = true;
		return;
	}
	add_fetch(fetch, bin->at[end] + (words[1] & ~(uint64_t)FLMEM_GLIBC_SIZE_BITS));
	bin->is_done = bin->at[0] == bin->at[1] || words[2 + end] == bin->at[!end] ||
		       words[2 + end] == bin->head;
	bin->at[end] = words[2 + end];
	if (!bin->is_done)
		add_fetch(fetch, bin->at[end]);
}

void flmem_glibc_bins_fetch(struct flmem_peek *peek, const struct flmem_glibc_layout *layout,
			    uint64_t arena)
{
	uint64_t ends[FLMEM_GLIBC_BINS][2]; /* fd, bk */
	struct bin_ends bins[FLMEM_GLIBC_BINS];
	struct page_batch fetch = {.peek = peek};
	size_t count = 0;

	if (flmem_peek_read(peek, arena + layout->bins, ends, sizeof(ends)))
		return;
	for (unsigned i = 0; i < FLMEM_GLIBC_BINS; i++) {
		const uint64_t head = flmem_glibc_bin_head(layout, arena, i);

		if (ends[i][0] == head)
			continue;
		bins[count++] = (struct bin_ends){{ends[i][0], ends[i][1]}, head, false};
		add_fetch(&fetch, ends[i][0]);
		add_fetch(&fetch, ends[i][1]);
	}
	while (count && fetch.total < FETCHED_MAX) {
		size_t left = 0;

		flush_fetch(&fetch);
		for (size_t i = 0; i < count; i++) {
			for (unsigned end = 0; end < 2 && !bins[i].is_done; end++)
				follow_end(&fetch, &bins[i], end);
			if (!bins[i].is_done)
				bins[left++] = bins[i];
		}
		count = left;
	}
	flush_fetch(&fetch);
}

int flmem_glibc_fast_link(struct flmem_peek *peek, const struct flmem_glibc_layout *layout,
			  uint64_t chunk, uint64_t size, struct flmem_glibc_link *ret_link)
{
	const uint64_t place = chunk + 16;
	struct flmem_glibc_link *link = ret_link;
	uint64_t words[2]; /* size and link */
	int rc;

	*link = (struct flmem_glibc_link){.word = chunk};
	if (chunk % FLMEM_GLIBC_ALIGNMENT)
		return set_wrong(link, chunk, "this address is not aligned like a block");
	rc = flmem_peek_read(peek, chunk + 8, words, sizeof(words));
	if (rc)
		return rc;
	link->size = words[0] & ~(uint64_t)FLMEM_GLIBC_SIZE_BITS;
	link->next = layout->mangles ? place >> 12 ^ words[1] : words[1];
	if (link->size != size)
		return set_wrong(link, words[0], "its size does not match its list");
	return 0;
}
