/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller has checked long before is checked again, once for all tries that follow soon. */
#include "borrowed.h"

#include <unistd.h>

#include "base/clock.h"
#include "remote/borrow_state.h"

static int count_checks(void *context, struct flmem_error *err)
{
	(void)err;
	++*(unsigned *)context;
	return 0;
}

static void be_child(void)
{
	for (;;)
		pause();
}

static void the_time_of_a_check_is_the_callers(void **state)
{
	struct flmem_borrow_state *borrow = calloc(1, sizeof(*borrow));
	unsigned count = 0;
	uint64_t checked_us = 0, now_us = flmem_clock_us();
	const struct flmem_borrow_options options = {
		.recheck = count_checks, .rechecker = &count, .checked_us = &checked_us};
	const pid_t child = child_start(be_child);
	struct target target;

	(void)state;
	assert_non_null(borrow);
	assert_true(child > 0);
	target_open(child, &target);
	borrow->view = &target.view;
	borrow->options = &options;
	assert_int_equal(flmem_borrow_check_again(borrow), 0);
	assert_int_equal(count, 1);
	assert_true(checked_us >= now_us);
	target_close(&target);
	child_end(child);
	free(borrow);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_time_of_a_check_is_the_callers),
	};

	return cmocka_run_group_tests_name("borrow_recheck", tests, NULL, NULL);
}
