/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/checks/locks.h"

#include <errno.h>
#include <stdbool.h>

#include "base/clock.h"
#include "remote/checks/fork_checks.h"

#define LOCK_READS    16U
#define READ_PAUSE_US 250U

static bool is_lock_free(const struct flmem_process *process, uint64_t address, bool *was_unread)
{
	uint32_t word;
	int rc = flmem_process_read_memory(process, address, &word, sizeof(word));

	*was_unread |= rc && rc != -ESRCH;
	return rc == -ESRCH || (!rc && !word);
}

static int refuse_unread(const struct flmem_process *process, const char *why,
			 struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "flmem does not know whether a lock of the allocator of process %d "
			       "stays held: %s; try again",
			       (int)process->pid, why);
}

int flmem_locks_check(const struct flmem_process *process, const struct flmem_guard *guard,
		      struct flmem_error *err)
{
	bool was_free[FLMEM_GUARD_WORDS] = {false}, was_unread = false;

	if (guard->unread)
		return refuse_unread(process, guard->unread, err);
	if (guard->has_more_ranges)
		return flmem_error_set(
			err, FLMEM_EUNSAFE, 0,
			"the allocators of process %d have code or data in more than %u mappings, "
			"so flmem does not know whether a thread is inside one of them",
			(int)process->pid, FLMEM_GUARD_RANGES);
	if (guard->has_more_words)
		return flmem_error_set(
			err, FLMEM_EUNSAFE, 0,
			"the allocator of process %d has more than %u arenas, so flmem "
			"does not know whether the lock of one of them stays held",
			(int)process->pid, FLMEM_GUARD_WORDS);
	for (unsigned reads = 0; reads < LOCK_READS; reads++) {
		bool held = false;

		if (reads)
			flmem_clock_sleep_us(READ_PAUSE_US);
		for (size_t i = 0; i < guard->word_count; i++) {
			was_free[i] =
				was_free[i] || is_lock_free(process, guard->words[i], &was_unread);
			held |= !was_free[i];
		}
		if (!held)
			return flmem_forks_check(process, guard, err);
	}
	if (was_unread)
		return refuse_unread(process, "its memory cannot be read", err);
	return flmem_error_set(
		err, FLMEM_EUNSAFE, 0,
		"a lock of the allocator of process %d stays held: its holder is stuck in a call "
		"of malloc (for example in a signal handler); try again or give a longer --timeout",
		(int)process->pid);
}
