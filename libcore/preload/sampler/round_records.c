/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the records of rounds and threads, which their first samples create. */

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/sampler/hold.h"
#include "preload/sampler/sampler.h"

static uint32_t search_round(uint32_t round)
{
	uint32_t used = sampler_section_used(FLMEM_PROFILE_SECTION_ROUNDS);

	while (used-- > 0)
		if (sampler_tables.rounds[used].state == FLMEM_PROFILE_READY &&
		    sampler_tables.rounds[used].round == round)
			return used;
	return FLMEM_PROFILE_NONE;
}

static uint32_t add_round(uint32_t round, uint64_t now_ms)
{
	uint32_t record = sampler_section_add(FLMEM_PROFILE_SECTION_ROUNDS);

	if (record == FLMEM_PROFILE_NONE) {
		sampler_drop(FLMEM_PROFILE_DROP_ROUNDS_FULL);
		return record;
	}
	sampler_tables.rounds[record].round = round;
	sampler_tables.rounds[record].start_ms = now_ms;
	__atomic_store_n(&sampler_tables.rounds[record].state, FLMEM_PROFILE_READY,
			 __ATOMIC_RELEASE);
	return record;
}

/*
 * Finds or makes the record of a round. It searches all records once for each number, even for one
 * that gets no record.
 */
static uint32_t find_new_round(uint32_t round, uint64_t now_ms)
{
	uint64_t key = (uint64_t)round + 1;
	uint32_t record;

	if (__atomic_load_n(&sampler_control.round_missing, __ATOMIC_RELAXED) == key)
		return FLMEM_PROFILE_NONE;
	record = search_round(round);
	if (record == FLMEM_PROFILE_NONE)
		record = add_round(round, now_ms);
	if (record == FLMEM_PROFILE_NONE)
		__atomic_store_n(&sampler_control.round_missing, key, __ATOMIC_RELAXED);
	return record;
}

uint32_t sampler_round_find(uint64_t now_ms)
{
	uint32_t round = __atomic_load_n(&sampler_tables.header->round, __ATOMIC_RELAXED);
	uint32_t record = __atomic_load_n(&sampler_control.round_record, __ATOMIC_ACQUIRE);

	/* This is the record that was used last, if it has the same number. */
	if (record != FLMEM_PROFILE_NONE && sampler_tables.rounds[record].round == round)
		return record;
	record = find_new_round(round, now_ms);
	__atomic_store_n(&sampler_control.round_record, record, __ATOMIC_RELEASE);
	return record;
}

/* Sets the round of the process. A Python program may call it by ctypes.CDLL(None). */
void flmem_sampler_round_set(uint32_t round) __attribute__((visibility("default")));

void flmem_sampler_round_set(uint32_t round)
{
	int saved = errno;

	if (sampler_hold()) {
		if (sampler_file_is_whole())
			__atomic_store_n(&sampler_tables.header->round, round, __ATOMIC_RELAXED);
		sampler_release();
	}
	errno = saved;
}

uint32_t sampler_thread_find(uint64_t now_ms)
{
	struct sampler_thread *thread = &sampler_thread;
	struct flmem_profile_thread *new;

	if (thread->record != FLMEM_PROFILE_NONE)
		return thread->record;
	thread->record = sampler_section_add(FLMEM_PROFILE_SECTION_THREADS);
	if (thread->record == FLMEM_PROFILE_NONE) {
		sampler_drop(FLMEM_PROFILE_DROP_THREADS_FULL);
		return thread->record;
	}
	new = &sampler_tables.threads[thread->record];
	new->tid = (uint32_t)syscall(SYS_gettid);
	new->first_ms = now_ms;
	syscall(SYS_prctl, PR_GET_NAME, new->name, 0, 0, 0);
	__atomic_store_n(&new->state, FLMEM_PROFILE_READY, __ATOMIC_RELEASE);
	return thread->record;
}
