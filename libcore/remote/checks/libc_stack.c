/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/libc_stack.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Bytes read around a control block: more than its length in any version; the block is above its
 * address, or below (aarch64).
 */
#define BLOCK_BYTES 4096U
#define BLOCK_WORDS (2 * BLOCK_BYTES / sizeof(uint64_t))
#define PAGE	    4096U /* the smallest page size; larger pages are read in parts */

/*
 * True if three words are those of glibc's struct pthread (nptl/descr.h): the lowest address of the
 * stack with its guard pages, the length of both, and that of the guard pages, which are in a
 * mapping before this one or, in glibc 2.42 and later, in the same. Their offset differs between
 * versions.
 */
static bool is_note(const uint64_t *words, const struct flmem_map *stack, uint64_t block)
{
	const uint64_t lowest = words[0], length = words[1], guard = words[2];

	return lowest < block && length > block - lowest && length <= stack->end - lowest &&
	       guard < block - lowest && lowest + guard >= stack->start;
}

/* Words around a control block. */
struct noted_words {
	uint64_t words[BLOCK_WORDS];
	size_t first, end; /* range of the words that could be read */
};

/*
 * Reads the words around a control block. Guard pages of neighbours that the mappings do not show
 * may be next to it.
 */
static bool read_noted_words(const struct flmem_process *process, uint64_t from, uint64_t to,
			     uint64_t block, struct noted_words *around)
{
	uint64_t begin = from, end = from;

	for (uint64_t at = from, next; at < to; at = next) {
		next = at - at % PAGE + PAGE < to ? at - at % PAGE + PAGE : to;
		if (flmem_process_read_memory(process, at,
					      around->words + (at - from) / sizeof(uint64_t),
					      next - at) == 0)
			end = next;
		else if (at > block)
			break;
		else
			begin = end = next;
	}
	around->first = (size_t)(begin - from) / sizeof(uint64_t);
	around->end = (size_t)(end - from) / sizeof(uint64_t);
	return begin <= block && block < end;
}

/* Two adjacent stacks may share a mapping without guard pages, which does not show the border. */
uint64_t flmem_libc_stack_start(const struct flmem_process *process, const struct flmem_map *stack,
				uint64_t block)
{
	struct noted_words around;
	uint64_t from = block - stack->start < BLOCK_BYTES ? stack->start : block - BLOCK_BYTES;
	uint64_t to = stack->end - block < BLOCK_BYTES ? stack->end : block + BLOCK_BYTES;

	from = (from + 7) & ~UINT64_C(7);
	to &= ~UINT64_C(7);
	if (from >= to || !read_noted_words(process, from, to, block, &around))
		return UINT64_MAX;
	for (size_t i = around.first; i + 3 <= around.end; i++)
		if (is_note(around.words + i, stack, block))
			return around.words[i] + around.words[i + 2];
	return 0;
}
