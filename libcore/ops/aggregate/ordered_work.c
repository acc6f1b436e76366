/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/ordered_work.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/portable.h"
#include "base/thread.h"
#include "ops/aggregate/threads.h"

#define TICK_US		200000
#define SLOTS		64U /* pieces that may be finished before an earlier one is */
#define PIECE_ALIGNMENT 64U
#define ROUND_UP(bytes) (((bytes) + PIECE_ALIGNMENT - 1) / PIECE_ALIGNMENT * PIECE_ALIGNMENT)

struct work_slot {
	bool done;
	int rc;
	struct flmem_error error;
};

struct work_pool {
	const struct flmem_ordered_work *work;
	struct work_slot slots[SLOTS];
	char *pieces;
	char *rooms;
	pthread_mutex_t lock; /* protects the fields below, take() and join() */
	pthread_cond_t joined_more;
	uint64_t taken, joined;
	uint64_t bytes; /* bytes of pieces that are done, and not yet reported */
	unsigned helpers;
	bool ended; /* no more pieces are taken */
	int rc;
	struct flmem_error error;
};

static void *piece_of(const struct work_pool *pool, uint64_t number)
{
	return pool->pieces + number % SLOTS * ROUND_UP(pool->work->piece_size);
}

static void fail_work(struct work_pool *pool, int rc, const struct flmem_error *error)
{
	if (!pool->rc) {
		pool->rc = rc;
		pool->error = *error;
	}
	pool->ended = true;
}

/* Joins the pieces that are done, up to the first one that is not. */
static void join_done(struct work_pool *pool)
{
	for (; pool->joined < pool->taken && pool->slots[pool->joined % SLOTS].done;
	     pool->joined++) {
		struct work_slot *slot = &pool->slots[pool->joined % SLOTS];

		slot->done = false;
		if (!slot->rc && !pool->rc)
			slot->rc = pool->work->join(pool->work->context,
						    piece_of(pool, pool->joined), &slot->error);
		if (slot->rc)
			fail_work(pool, slot->rc, &slot->error);
	}
	pthread_cond_broadcast(&pool->joined_more);
}

/* Takes the next piece and works on it. Returns false if there is none. */
static bool work_on_next(struct work_pool *pool, void *room)
{
	uint64_t number = pool->taken, bytes = 0;
	struct work_slot *slot = &pool->slots[number % SLOTS];
	void *piece = piece_of(pool, number);

	if (!pool->work->take(pool->work->context, piece, &bytes)) {
		pool->ended = true;
		return false;
	}
	pool->taken++;
	pthread_mutex_unlock(&pool->lock);
	slot->error = (struct flmem_error){0};
	slot->rc = pool->work->work(pool->work->context, room, piece, &slot->error);
	pthread_mutex_lock(&pool->lock);
	slot->done = true;
	pool->ended |= slot->rc != 0;
	pool->bytes += bytes;
	join_done(pool);
	return true;
}

/*
 * Reports what was done since the last time. Only the calling thread does, and not after the
 * callback has stopped the work.
 */
static void report_done(struct work_pool *pool)
{
	uint64_t bytes = pool->bytes;
	struct flmem_error error = {0};
	int rc;

	if (pool->rc)
		return;
	pool->bytes = 0;
	pthread_mutex_unlock(&pool->lock);
	rc = flmem_progress_meter_add(pool->work->meter, bytes, &error);
	pthread_mutex_lock(&pool->lock);
	if (rc)
		fail_work(pool, rc, &error);
}

static void *help_with_pieces(void *context)
{
	struct work_pool *pool = context;
	char *room;

	pthread_mutex_lock(&pool->lock);
	room = pool->rooms + ++pool->helpers * ROUND_UP(pool->work->room_bytes);
	while (!pool->ended)
		if (pool->taken - pool->joined == SLOTS)
			pthread_cond_wait(&pool->joined_more, &pool->lock);
		else if (!work_on_next(pool, room))
			break;
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* Works as the helpers do, and then waits for their last pieces. */
static void lead_work(struct work_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	while (!pool->ended || pool->joined < pool->taken) {
		if (pool->ended || pool->taken - pool->joined == SLOTS) {
			struct timespec until = flmem_clock_after_us(TICK_US);

			pthread_cond_timedwait(&pool->joined_more, &pool->lock, &until);
		} else if (!work_on_next(pool, pool->rooms)) {
			continue;
		}
		report_done(pool);
	}
	report_done(pool); /* what others did during the last report */
	pthread_cond_broadcast(&pool->joined_more);
	pthread_mutex_unlock(&pool->lock);
}

static void clear_pool(struct work_pool *pool)
{
	free(pool->pieces);
	free(pool->rooms);
	pthread_cond_destroy(&pool->joined_more);
	pthread_mutex_destroy(&pool->lock);
}

int flmem_ordered_work(const struct flmem_ordered_work *work, struct flmem_error *err)
{
	FLMEM_AUTO(clear_pool) struct work_pool pool = {.work = work};
	unsigned count = work->threads < FLMEM_THREADS_MAX ? work->threads : FLMEM_THREADS_MAX,
		 started = 0;
	pthread_t threads[FLMEM_THREADS_MAX];

	pthread_mutex_init(&pool.lock, NULL);
	flmem_cond_init_monotonic(&pool.joined_more);
	pool.pieces = aligned_alloc(PIECE_ALIGNMENT, SLOTS * ROUND_UP(work->piece_size));
	pool.rooms = aligned_alloc(PIECE_ALIGNMENT, count * ROUND_UP(work->room_bytes));
	if (!pool.pieces || !pool.rooms)
		return flmem_error_nomem(err, "cannot read '%s'", work->meter->path);
	/* Without memory for more threads, fewer do the work. */
	while (started + 1 < count &&
	       flmem_thread_start(&threads[started], help_with_pieces, &pool) == 0)
		started++;
	lead_work(&pool);
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	if (pool.rc && err)
		*err = pool.error;
	return pool.rc;
}
