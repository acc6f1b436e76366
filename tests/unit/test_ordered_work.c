/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "ops/aggregate/ordered_work.h"

#define PIECES	    2U
#define PIECE_BYTES 5U

static pthread_t leader;
static atomic_uint taken;
static unsigned joined, reports, late_us;
static atomic_bool is_reporting, has_ended;

static bool take_piece(void *context, void *piece, uint64_t *ret_bytes)
{
	(void)context;
	(void)piece;
	if (taken == PIECES) {
		atomic_store(&has_ended, true);
		return false;
	}
	taken++;
	*ret_bytes = PIECE_BYTES;
	return true;
}

/* Each thread has a piece; another one ends its own while the calling one reports the progress. */
static int work_on_piece(const void *context, void *room, void *piece, struct flmem_error *err)
{
	(void)context;
	(void)room;
	(void)piece;
	(void)err;
	const bool leads = pthread_equal(pthread_self(), leader);

	while (leads ? taken < PIECES : !atomic_load(&is_reporting))
		sched_yield();
	if (!leads)
		usleep(late_us);
	return 0;
}

static int join_piece(void *context, const void *piece, struct flmem_error *err)
{
	(void)context;
	(void)piece;
	(void)err;
	joined++;
	return 0;
}

static bool await_end(void *context, const struct flmem_aggregate_progress *progress)
{
	(void)context;
	(void)progress;
	atomic_store(&is_reporting, true);
	while (!atomic_load(&has_ended))
		sched_yield();
	return true;
}

static bool stop_work(void *context, const struct flmem_aggregate_progress *progress)
{
	(void)context;
	(void)progress;
	reports++;
	atomic_store(&is_reporting, true);
	return false;
}

static int work_with(struct flmem_progress_meter *meter)
{
	const struct flmem_ordered_work work = {
		.take = take_piece,
		.work = work_on_piece,
		.join = join_piece,
		.piece_size = 1,
		.room_bytes = 1,
		.threads = 2,
		.meter = meter,
	};

	leader = pthread_self();
	taken = 0;
	joined = 0;
	atomic_store(&is_reporting, false);
	return flmem_ordered_work(&work, NULL);
}

static void pieces_that_end_during_a_report_are_reported(void **state)
{
	struct flmem_progress_meter meter = {.progress = await_end, .path = "model", .end = "read"};

	(void)state;
	assert_int_equal(work_with(&meter), 0);
	assert_int_equal(joined, PIECES);
	assert_int_equal(meter.done_bytes, PIECES * PIECE_BYTES);
}

/* Even if another thread ends its piece long afterwards. */
static void who_stops_the_work_is_not_asked_again(void **state)
{
	struct flmem_progress_meter meter = {.progress = stop_work, .path = "model", .end = "read"};

	(void)state;
	late_us = 600000; /* three reports */
	assert_int_not_equal(work_with(&meter), 0);
	assert_int_equal(reports, 1);
	late_us = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_that_end_during_a_report_are_reported),
		cmocka_unit_test(who_stops_the_work_is_not_asked_again),
	};

	return cmocka_run_group_tests_name("ordered_work", tests, NULL, NULL);
}
