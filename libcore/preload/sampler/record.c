/* SPDX-License-Identifier: Apache-2.0 */
/* Handles a sample, from the moment it is due until it is stored in the file, and its end. */

#include <errno.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/sampler/hold.h"
#include "preload/sampler/sampler.h"

/* A thread checks after so many bytes whether there is a profile, or a new one. */
#define RECHECK_BYTES (1U << 20)

__thread struct sampler_thread sampler_thread __attribute__((tls_model("initial-exec")));
struct sampler_control sampler_control;
struct sampler_tables sampler_tables;
uint8_t sampler_filter[SAMPLER_FILTER_SIZE] SAMPLER_PAGES_OF_ITS_OWN;
struct sampler_shown flmem_sampler_state;
extern struct sampler_shown sampler_shown __attribute__((alias("flmem_sampler_state")));

/*
 * Sets the distance to the next sample in parts: after a profile that has ended, a thread may have
 * a remaining distance that is too long for the next one.
 */
static void set_distance(struct sampler_thread *thread, uint64_t bytes)
{
	thread->remaining = bytes < RECHECK_BYTES ? bytes : RECHECK_BYTES;
	thread->rest = bytes - thread->remaining;
}

static void draw_distance(struct sampler_thread *thread, uint64_t end)
{
	uint64_t next = sampler_pace_interval();

	set_distance(thread, sampler_draw_gap(&thread->random, end, thread->interval, next));
	thread->interval = next;
}

/*
 * Returns where the block of a sample that is due ends, from the start of the part of its point.
 * What a signal handler has allocated since then does not count.
 */
static uint64_t end_of_block(const struct sampler_thread *thread, uint64_t size)
{
	/* Makes it positive again: it has passed zero. */
	uint64_t passed = -(thread->remaining + thread->rest);

	return sampler_last_point(thread->random, thread->interval) +
	       (passed < size ? passed : size);
}

static void weigh_block(struct sampler_thread *thread, struct flmem_profile_live *live)
{
	uint64_t end = end_of_block(thread, live->size);

	sampler_weigh(live->size, end, thread->interval, &live->weight_bytes, &live->weight_count);
	draw_distance(thread, end);
}

/*
 * Returns whether all of the distance has been covered. It is called when `remaining` has passed
 * zero.
 */
static bool has_covered_distance(struct sampler_thread *thread)
{
	uint64_t left;

	/* The sum overflows unless a distance is left. */
	if (!__builtin_add_overflow(thread->remaining, thread->rest, &left))
		return true;
	set_distance(thread, left);
	return false;
}

/*
 * Begins a thread that is new to this profile. A child that is forked by a signal handler may have
 * a sample of its parent left, which does not end before the handler does.
 */
static void begin_thread(struct sampler_thread *thread)
{
	struct timespec now = {0};

	thread->busy = 0;
	thread->lines = NULL;
	thread->chunk = thread->chunk_end = 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	/* getrandom() is not used: the thread may be cancelled in it. */
	if (syscall(SYS_getrandom, &thread->random, sizeof(thread->random), (long)GRND_NONBLOCK) !=
	    (long)sizeof(thread->random))
		thread->random = sampler_hash((uintptr_t)thread, (uint64_t)now.tv_nsec);
	thread->random |= 1;
	thread->interval = 0;
	draw_distance(thread, 0);
	thread->record = FLMEM_PROFILE_NONE;
	thread->pid = sampler_process();
	thread->epoch = sampler_control.epoch;
}

/*
 * Marks the thread as inside the sampler. Only the thread itself and its signal handlers do so,
 * which end before it goes on.
 */
static bool enter_sampler(void)
{
	bool busy = __atomic_load_n(&sampler_thread.busy, __ATOMIC_RELAXED) != 0;

	__atomic_store_n(&sampler_thread.busy, 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return !busy;
}

static void leave_sampler(void)
{
	__atomic_store_n(&sampler_thread.busy, 0, __ATOMIC_RELEASE);
}

/* Returns whether a sample is due. It is called where the profile is held. */
static bool is_due_now(struct sampler_thread *thread, size_t size)
{
	bool is_new = thread->epoch != sampler_control.epoch;

	if (!is_new && !has_covered_distance(thread))
		return false;
	if (!sampler_file_is_whole()) {
		sampler_stop();
		set_distance(thread, RECHECK_BYTES);
		return false;
	}
	if (!is_new)
		return true;
	begin_thread(thread);
	return __builtin_sub_overflow(thread->remaining, size, &thread->remaining) &&
	       has_covered_distance(thread);
}

static void lose_sample(const struct flmem_profile_live *live, enum flmem_profile_drop why)
{
	sampler_drop(why);
	__atomic_fetch_add(&sampler_tables.header->lost_bytes, live->weight_bytes,
			   __ATOMIC_RELAXED);
}

static bool lose_on_small_stack(struct sampler_thread *thread, size_t size)
{
	struct flmem_profile_live live = {.size = size};

	if (sampler_stack_has_room())
		return false;
	weigh_block(thread, &live);
	lose_sample(&live, FLMEM_PROFILE_DROP_SMALL_STACK);
	return true;
}

/* The caller's `remaining` has passed zero. */
bool sampler_is_due(size_t size)
{
	struct sampler_thread *thread = &sampler_thread;
	int saved = errno;
	bool due;

	if (!sampler_is_active() && sampler_child_may_begin() && sampler_stack_has_room())
		sampler_child_begin();
	if (!sampler_hold()) {
		set_distance(thread, RECHECK_BYTES);
		errno = saved;
		return false;
	}
	due = is_due_now(thread, size) && !lose_on_small_stack(thread, size);
	if (!due)
		sampler_release();
	errno = saved;
	return due;
}

static struct sampler_scratch *take_scratch(void)
{
	uint32_t start = (uint32_t)((uintptr_t)&sampler_thread >> 12);

	for (uint32_t i = 0; i < SAMPLER_SCRATCHES; i++) {
		struct sampler_scratch *scratch =
			&sampler_control.scratch[(start + i) % SAMPLER_SCRATCHES];

		if (!__atomic_exchange_n(&scratch->used, 1, __ATOMIC_ACQUIRE)) {
			scratch->count = scratch->searches = 0;
			scratch->is_blind = false;
			return scratch;
		}
	}
	return NULL;
}

/* Doubles the interval as `live` fills, so that later samples stand for more bytes. */
static void raise_interval(void)
{
	uint64_t now = __atomic_load_n(&sampler_control.interval_bytes, __ATOMIC_RELAXED);
	uint32_t slots = sampler_tables.capacity[FLMEM_PROFILE_SECTION_LIVE];
	uint32_t thinned = sampler_control.thinned;

	if (sampler_control.live_samples < sampler_live_limit(slots, thinned) ||
	    now >= FLMEM_PROFILE_INTERVAL_MAX)
		return;
	if (!__atomic_compare_exchange_n(&sampler_control.thinned, &thinned, thinned + 1, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&sampler_control.interval_bytes, now * 2, __ATOMIC_RELAXED);
	__atomic_store_n(&sampler_tables.header->interval_now_bytes, now * 2, __ATOMIC_RELAXED);
}

bool sampler_is_in_profile(const struct flmem_profile_live *live)
{
	return live->state == __atomic_load_n(&sampler_control.epoch, __ATOMIC_RELAXED);
}

static void store_sample(uintptr_t address, uint32_t kind, struct sampler_scratch *scratch,
			 const void *const *frame, struct flmem_profile_live *live)
{
	uint64_t now_ms = sampler_now_ms();

	sampler_memory_refresh();
	if (kind == SAMPLER_GROWN) {
		if (!sampler_is_memory(scratch, address))
			return;
		kind = FLMEM_PROFILE_MAPPING;
	}
	live->site = sampler_site_find(sampler_stack_capture(scratch, frame), kind);
	live->time_ms = now_ms;
	live->thread = sampler_thread_find(now_ms);
	if (!sampler_is_in_profile(live))
		return;
	live->round = sampler_tables.header->round;
	if (live->site == FLMEM_PROFILE_NONE) {
		lose_sample(live, FLMEM_PROFILE_DROP_SITES_FULL);
	} else if (kind == FLMEM_PROFILE_MAPPING && !sampler_mapping_add(address, live->size)) {
		lose_sample(live, FLMEM_PROFILE_DROP_MAPPINGS_FULL);
	} else if (sampler_live_add(address, live)) {
		sampler_count_allocated(live, now_ms);
		sampler_tables.header->last_ms = now_ms;
	} else {
		lose_sample(live, FLMEM_PROFILE_DROP_LIVE_FULL);
	}
	sampler_timeline_tick(now_ms, false);
}

static void update_begin(void)
{
	__atomic_fetch_add(&sampler_tables.header->update_begin, 1, __ATOMIC_SEQ_CST);
}

static void update_end(void)
{
	__atomic_fetch_add(&sampler_tables.header->update_end, 1, __ATOMIC_SEQ_CST);
}

void sampler_record(const void *address, size_t size, uint32_t kind, const void *const *frame)
{
	struct sampler_thread *thread = &sampler_thread;
	struct sampler_scratch *scratch;
	struct flmem_profile_live live = {.state = sampler_control.epoch, .size = size}, old;
	struct sampler_pace pace = sampler_pace_begin();
	int saved = errno;

	weigh_block(thread, &live);
	if (!enter_sampler()) {
		lose_sample(&live, FLMEM_PROFILE_DROP_NESTED);
		sampler_release();
		return;
	}
	scratch = take_scratch();
	if (scratch) {
		update_begin();
		/*
		 * An old sample at this address was freed by a call that the sampler cannot see,
		 * inside the allocator's library.
		 */
		if (sampler_may_be_sampled(address) && sampler_live_take((uintptr_t)address, &old))
			sampler_count_freed(&old, old.weight_bytes, old.weight_count,
					    sampler_now_ms());
		store_sample((uintptr_t)address, kind, scratch, frame, &live);
		if (sampler_is_in_profile(&live)) {
			raise_interval();
			update_end();
		}
		pace.searches = scratch->searches;
		__atomic_store_n(&scratch->used, 0, __ATOMIC_RELEASE);
	} else {
		lose_sample(&live, FLMEM_PROFILE_DROP_SCRATCH);
	}
	sampler_pace_end(&pace);
	leave_sampler();
	sampler_release();
	errno = saved;
}

static bool forget_held(uintptr_t address, struct flmem_profile_live *ret_live)
{
	int saved = errno;
	bool whole = sampler_file_is_whole();

	errno = saved;
	if (!whole) {
		sampler_stop();
		return false;
	}
	update_begin();
	if (sampler_live_take(address, ret_live)) {
		ret_live->state = sampler_control.epoch;
		return true;
	}
	update_end();
	return false;
}

/* The update and the hold of the profile last until one of the two functions below has ended. */
bool sampler_forget(const void *address, struct flmem_profile_live *ret_live)
{
	/* Most addresses that the filter lets pass are not sampled. */
	if (!sampler_is_active() || !sampler_live_may_have((uintptr_t)address) || !sampler_hold())
		return false;
	if (sampler_live_has((uintptr_t)address) && forget_held((uintptr_t)address, ret_live))
		return true;
	sampler_release();
	return false;
}

/*
 * This needs no enter_sampler(): a sample that a handler frees in the middle of another one is
 * still freed.
 */
void sampler_forget_done(const struct flmem_profile_live *live)
{
	int saved = errno;

	if (sampler_is_in_profile(live)) {
		sampler_count_freed(live, live->weight_bytes, live->weight_count, sampler_now_ms());
		update_end();
	}
	sampler_release();
	errno = saved;
}

void sampler_forget_undo(const void *address, const struct flmem_profile_live *live)
{
	if (!sampler_is_in_profile(live) || !sampler_live_add((uintptr_t)address, live)) {
		sampler_forget_done(live);
		return;
	}
	update_end();
	sampler_release();
}

static void return_held(uintptr_t address, const struct flmem_profile_live *live, uint32_t round)
{
	uint64_t now_ms = sampler_now_ms();

	if (!sampler_mapping_add(address, live->size)) {
		sampler_drop(FLMEM_PROFILE_DROP_MAPPINGS_FULL);
		return;
	}
	if (sampler_live_add(address, live))
		sampler_count_returned(live, round, now_ms);
}

void sampler_return(uintptr_t address, const struct flmem_profile_live *live, uint32_t round)
{
	int saved = errno;

	if (!sampler_hold()) {
		errno = saved;
		return;
	}
	if (sampler_is_in_profile(live) && sampler_file_is_whole()) {
		update_begin();
		return_held(address, live, round);
		update_end();
	}
	sampler_release();
	errno = saved;
}
