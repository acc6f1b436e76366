/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/locks.h"

#include <string.h>

#include "base/clock.h"
#include "remote/checks/forks.h"

#define LOOKS	16U
#define LOOK_US 250U

static bool is_lock_held(const struct flmem_process *process, uint64_t address)
{
	uint32_t word;

	return flmem_process_read_memory(process, address, &word, sizeof(word)) == 0 && word;
}

int flmem_locks_check(const struct flmem_process *process, const struct flmem_guard *guard,
		      struct flmem_error *err)
{
	uint64_t held[FLMEM_GUARD_WORDS];
	size_t count = guard->word_count;

	memcpy(held, guard->words, count * sizeof(*held));
	for (unsigned look = 0; look < LOOKS; look++) {
		size_t left = 0;

		if (look)
			flmem_clock_sleep_us(LOOK_US);
		for (size_t i = 0; i < count; i++)
			if (is_lock_held(process, held[i]))
				held[left++] = held[i];
		count = left;
		if (!count)
			return flmem_forks_check(process, guard, err);
	}
	return flmem_error_set(
		err, FLMEM_EUNSAFE, 0,
		"a lock of the allocator of process %d stays held: its holder is stuck in a call "
		"of malloc (for example in a signal handler); try again or give a longer --timeout",
		(int)process->pid);
}
