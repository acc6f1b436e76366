/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how many samples there are where the user has not chosen an interval. A loop that
 * allocates gigabytes a second has thousands of them, more than its profile needs. So the interval
 * grows until samples take less than 0.7 % of the processor time of the process, of which at most
 * one processor counts, and shrinks again when they are few.
 * Weights are those of the interval that a sample was drawn with, so estimates stay unbiased.
 * Samples of code that is new to the profile take longer, and only once: while a program imports
 * its modules none is left out.
 */
#include <time.h>

#include "preload/sampler/sampler.h"

#define WINDOW_NS   UINT64_C(128000000)
#define DOUBLED_MAX 4U /* maximum number of doublings of the interval */
/*
 * These are parts of a window: above the first there are fewer samples, below the second more
 * again.
 */
#define MUCH   UINT64_C(150)
#define LITTLE UINT64_C(400)
/*
 * A process that waits, or shares its processor, has less processor time. A process that hardly
 * runs at all counts as one that runs for this part of a window: its samples cost nobody anything.
 */
#define RUNS_LEAST UINT64_C(4)
/*
 * A sample counts at most this long: a thread that has lost its processor in a sample has not taken
 * the time itself.
 */
#define LONGEST_NS UINT64_C(150000)
#define SEARCH_NS  UINT64_C(20000) /* added for each search for an unknown frame */

static uint64_t to_ns(struct timespec time)
{
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t read_ns(void)
{
	struct timespec now = {0};

	clock_gettime(CLOCK_MONOTONIC, &now);
	return to_ns(now);
}

/* Returns the processor time of the process, or 0 if the kernel may not be asked. */
static uint64_t read_used_ns(void)
{
	struct timespec used = {0};

	syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &used);
	return to_ns(used);
}

void sampler_pace_start(uint64_t interval_bytes)
{
	sampler_control.paced = 0;
	sampler_control.interval_bytes = interval_bytes;
	sampler_tables.header->interval_now_bytes = interval_bytes;
}

uint64_t sampler_pace_interval(void)
{
	uint64_t interval = __atomic_load_n(&sampler_control.interval_bytes, __ATOMIC_RELAXED);

	interval <<= __atomic_load_n(&sampler_control.paced, __ATOMIC_RELAXED);
	return interval < FLMEM_PROFILE_INTERVAL_MAX ? interval : FLMEM_PROFILE_INTERVAL_MAX;
}

static uint32_t count_nodes(void)
{
	const struct flmem_profile_section *nodes =
		&sampler_tables.header->section[FLMEM_PROFILE_SECTION_NODES];

	return __atomic_load_n(&nodes->used, __ATOMIC_RELAXED);
}

struct sampler_pace sampler_pace_begin(void)
{
	struct sampler_pace pace = {0};

	if (sampler_tables.header->flags & FLMEM_PROFILE_PACED)
		pace = (struct sampler_pace){.begun_ns = read_ns(), .nodes = count_nodes()};
	return pace;
}

/* Returns which part of a window the process had a processor for; all of it if that is unknown. */
static uint64_t get_run_ns(uint64_t window_ns)
{
	const uint64_t used = read_used_ns(),
		       before = __atomic_exchange_n(&sampler_control.pace_used_ns, used,
						    __ATOMIC_RELAXED);
	const uint64_t ran = used - before;

	if (!used || !before || used < before || ran > window_ns)
		return window_ns;
	return ran > window_ns / RUNS_LEAST ? ran : window_ns / RUNS_LEAST;
}

static void adapt_pace(uint64_t window_ns, uint64_t spent_ns)
{
	uint32_t paced = sampler_control.paced;

	if (spent_ns > window_ns / MUCH && paced < DOUBLED_MAX)
		paced++;
	else if (spent_ns < window_ns / LITTLE && paced)
		paced--;
	__atomic_store_n(&sampler_control.paced, paced, __ATOMIC_RELAXED);
	if (paced > sampler_tables.header->paced)
		sampler_tables.header->paced = paced;
}

void sampler_pace_end(const struct sampler_pace *pace)
{
	struct sampler_control *control = &sampler_control;
	uint64_t longest = LONGEST_NS + pace->searches * SEARCH_NS, now, took, from;

	if (!pace->begun_ns || pace->nodes != count_nodes())
		return;
	now = read_ns();
	took = now - pace->begun_ns < longest ? now - pace->begun_ns : longest;
	__atomic_fetch_add(&control->pace_spent_ns, took, __ATOMIC_RELAXED);
	from = __atomic_load_n(&control->pace_from_ns, __ATOMIC_RELAXED);
	if (now < from + WINDOW_NS ||
	    !__atomic_compare_exchange_n(&control->pace_from_ns, &from, now, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	adapt_pace(get_run_ns(now - from),
		   __atomic_exchange_n(&control->pace_spent_ns, 0, __ATOMIC_RELAXED));
}
