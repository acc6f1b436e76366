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
