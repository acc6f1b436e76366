/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/noted_stack.h"

#include <stdbool.h>
#include <stddef.h>

/* Longer than the control block of any version; it is above its address, or below (aarch64). */
#define BLOCK_BYTES 4096U
#define BLOCK_WORDS (2 * BLOCK_BYTES / sizeof(uint64_t))

/*
 * Three words of glibc's struct pthread (nptl/descr.h): the lowest address of the stack with its
 * guard pages, the length of both, and that of the guard pages, which are in a mapping before this
 * one or, in glibc 2.42 and later, in the same. Their place differs from version to version.
 */
static bool is_note(const uint64_t *words, const struct flmem_map *stack, uint64_t block)
{
	const uint64_t lowest = words[0], length = words[1], guard = words[2];

	return lowest < block && length > block - lowest && length <= stack->end - lowest &&
	       guard < block - lowest && lowest + guard >= stack->start;
}

/* Two neighbours may share a mapping without guard pages, which does not show where one ends. */
uint64_t flmem_noted_stack_start(const struct flmem_process *process, const struct flmem_map *stack,
				 uint64_t block)
{
	uint64_t words[BLOCK_WORDS];
	uint64_t from = block - stack->start < BLOCK_BYTES ? stack->start : block - BLOCK_BYTES;
	uint64_t to = stack->end - block < BLOCK_BYTES ? stack->end : block + BLOCK_BYTES;
	size_t count;

	from = (from + 7) & ~UINT64_C(7);
	count = (size_t)(to - from) / sizeof(*words);
	if (flmem_process_read_memory(process, from, words, count * sizeof(*words)))
		return 0;
	for (size_t i = 0; i + 3 <= count; i++)
		if (is_note(words + i, stack, block))
			return words[i] + words[i + 2];
	return 0;
}
