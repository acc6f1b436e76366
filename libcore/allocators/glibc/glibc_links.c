/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_links.h"

#include <stdlib.h>

#include "base/cleanup.h"

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

#define LISTS_PER_ARENA (FLMEM_GLIBC_BINS + FLMEM_GLIBC_FASTBINS)

/* Addresses whose words are read together. */
struct word_batch {
	struct flmem_peek *peek;
	uint64_t rows[FLMEM_PEEK_PAGES_MAX];
	size_t count, total;
};

/*
 * How far a list was followed: a bin from its first chunk by fd and from its last one by bk, a
 * fastbin from its first one.
 */
struct list_ends {
	uint64_t at[2];
	uint64_t head; /* 0: a fastbin */
	bool is_done;
};

static void flush_fetch(struct word_batch *fetch)
{
	flmem_peek_fetch(fetch->peek, fetch->rows, fetch->count);
	fetch->count = 0;
}

static void add_fetch(struct word_batch *fetch, uint64_t address)
{
	fetch->rows[fetch->count++] = address;
	fetch->total++;
	if (fetch->count == FLMEM_PEEK_PAGES_MAX)
		flush_fetch(fetch);
}

/*
 * Follows a bin by one chunk from one end, if that chunk is readable and the other end was not met.
 */
static void follow_end(struct word_batch *fetch, struct list_ends *bin, unsigned end)
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

static uint64_t fast_next(const struct flmem_glibc_layout *layout, uint64_t chunk, uint64_t word)
{
	return layout->mangles ? (chunk + 16) >> 12 ^ word : word;
}

static void follow_fast(struct word_batch *fetch, const struct flmem_glibc_layout *layout,
			struct list_ends *list)
{
	uint64_t words[2]; /* size and link */

	list->is_done = flmem_peek_read(fetch->peek, list->at[0] + 8, words, sizeof(words)) != 0;
	if (list->is_done)
		return;
	list->at[0] = fast_next(layout, list->at[0], words[1]);
	list->is_done = !list->at[0];
	if (!list->is_done)
		add_fetch(fetch, list->at[0] + 8);
}

static size_t begin_bins(const struct flmem_glibc_layout *layout, uint64_t arena,
			 struct word_batch *fetch, struct list_ends *lists)
{
	uint64_t ends[FLMEM_GLIBC_BINS][2]; /* fd, bk */
	size_t count = 0;

	if (flmem_peek_read(fetch->peek, arena + layout->bins, ends, sizeof(ends)))
		return 0;
	for (unsigned i = 0; i < FLMEM_GLIBC_BINS; i++) {
		const uint64_t head = flmem_glibc_bin_head(layout, arena, i);

		if (ends[i][0] == head)
			continue;
		lists[count++] = (struct list_ends){{ends[i][0], ends[i][1]}, head, false};
		add_fetch(fetch, ends[i][0]);
		add_fetch(fetch, ends[i][1]);
	}
	return count;
}

static size_t begin_fastbins(const struct flmem_glibc_layout *layout, uint64_t arena,
			     struct word_batch *fetch, struct list_ends *lists)
{
	uint64_t first[FLMEM_GLIBC_FASTBINS];
	size_t count = 0;

	if (!layout->fastbins ||
	    flmem_peek_read(fetch->peek, arena + layout->fastbins, first, sizeof(first)))
		return 0;
	for (unsigned i = 0; i < FLMEM_GLIBC_FASTBINS; i++) {
		if (!first[i])
			continue;
		lists[count++] = (struct list_ends){.at = {first[i]}};
		add_fetch(fetch, first[i] + 8);
	}
	return count;
}

static void follow_list(struct word_batch *fetch, const struct flmem_glibc_layout *layout,
			struct list_ends *list)
{
	if (!list->head) {
		follow_fast(fetch, layout, list);
		return;
	}
	for (unsigned end = 0; end < 2 && !list->is_done; end++)
		follow_end(fetch, list, end);
}

void flmem_glibc_lists_fetch(const struct flmem_glibc_fetch *wanted)
{
	const size_t arenas = wanted->count;
	FLMEM_AUTO_FREE struct list_ends *lists = calloc(arenas * LISTS_PER_ARENA, sizeof(*lists));
	struct word_batch fetch = {.peek = wanted->peek};
	size_t count = 0;

	flmem_peek_forget_words(wanted->peek);
	for (size_t i = 0; lists && i < arenas; i++) {
		const uint64_t arena = wanted->arenas[i];

		count += begin_bins(wanted->layout, arena, &fetch, lists + count);
		count += begin_fastbins(wanted->layout, arena, &fetch, lists + count);
	}
	while (count && fetch.total < FLMEM_PEEK_FETCHES_MAX &&
	       !(wanted->is_late && wanted->is_late(wanted->context))) {
		size_t left = 0;

		flush_fetch(&fetch);
		for (size_t i = 0; i < count; i++) {
			follow_list(&fetch, wanted->layout, &lists[i]);
			if (!lists[i].is_done)
				lists[left++] = lists[i];
		}
		count = left;
	}
	flush_fetch(&fetch);
}

int flmem_glibc_fast_link(struct flmem_peek *peek, const struct flmem_glibc_layout *layout,
			  uint64_t chunk, uint64_t size, struct flmem_glibc_link *ret_link)
{
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
	link->next = fast_next(layout, chunk, words[1]);
	if (link->size != size)
		return set_wrong(link, words[0], "its size does not match its list");
	return 0;
}
