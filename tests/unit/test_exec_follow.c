/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/watch/exec_follow.h"

#define SECOND UINT64_C(1000000)

static const struct flmem_watch_options options = {.stop_fd = -1};
static const struct flmem_watch_callbacks callbacks = {0};

static struct flmem_watch_state begin(void)
{
	struct flmem_watch_state watch_state;

	flmem_watch_state_init(&watch_state, &options, &callbacks, SECOND);
	return watch_state;
}

static struct flmem_watched_process *come(struct flmem_watch_state *w, enum flmem_role role,
					  const char *site, const char *command)
{
	static pid_t next = 1000;
	struct flmem_watch_process id = {
		.pid = next,
		.start_time = (uint64_t)next,
		.role = role,
		.framework = role ? FLMEM_FRAMEWORK_NVFLARE : FLMEM_FRAMEWORK_NONE,
		.command = strdup(command),
		.site = site ? strdup(site) : NULL,
	};
	struct flmem_watched_process *f = flmem_watched_process_new(&id, SECOND, NULL);

	next++;
	assert_non_null(f);
	assert_int_equal(flmem_watch_state_add(w, f, true, &f, NULL), 0);
	return f;
}

static void sample(struct flmem_watch_state *w, struct flmem_watched_process *f, uint64_t now_us)
{
	flmem_watched_process_count(f, now_us, 1 << 20);
	flmem_watch_state_sample(w, f, now_us, false);
}

static void a_restart_goes_on_with_the_history(void **state)
{
	struct flmem_watch_state w = begin();
	struct flmem_watched_process *first, *second;
	pid_t before;

	(void)state;
	first = come(&w, FLMEM_ROLE_CLIENT_JOB, "site-1", "worker -n job-a --port 8002");
	before = first->id.pid;
	sample(&w, first, SECOND);
	flmem_watch_state_end(&w, first);
	assert_int_equal(w.alive, 0);
	second = come(&w, FLMEM_ROLE_CLIENT_JOB, "site-1", "worker -n job-a --port 54321");
	assert_ptr_equal(second, first);
	assert_int_equal(w.count, 1);
	assert_int_equal(w.alive, 1);
	assert_false(second->ended);
	assert_int_not_equal(second->id.pid, before);
	assert_int_equal(second->restarts, 1);
	sample(&w, second, 2 * SECOND);
	assert_int_equal(second->history.samples, 2);
	flmem_watch_state_clear(&w);
}

static void others_are_others(void **state)
{
	static const char command[] = "worker -n job-a";
	struct flmem_watch_state w = begin();

	(void)state;
	flmem_watch_state_end(&w, come(&w, FLMEM_ROLE_CLIENT_JOB, "site-1", command));
	come(&w, FLMEM_ROLE_CLIENT_JOB, "site-2", command);
	come(&w, FLMEM_ROLE_TRAINER, "site-1", command);
	come(&w, FLMEM_ROLE_CLIENT_JOB, "site-1", "worker -n job-b");
	come(&w, FLMEM_ROLE_CLIENT_JOB, NULL, command);
	flmem_watch_state_end(&w, come(&w, FLMEM_ROLE_NONE, NULL, "sh"));
	come(&w, FLMEM_ROLE_NONE, NULL, "sh");
	assert_int_equal(w.count, 7);
	flmem_watch_state_clear(&w);
}

static void one_that_still_runs_has_no_heir(void **state)
{
	struct flmem_watch_state w = begin();

	(void)state;
	come(&w, FLMEM_ROLE_TRAINER, "site-1", "python3 train.py");
	come(&w, FLMEM_ROLE_TRAINER, "site-1", "python3 train.py");
	assert_int_equal(w.count, 2);
	assert_int_equal(w.alive, 2);
	flmem_watch_state_clear(&w);
}

static void many_short_lived_ones_take_no_room(void **state)
{
	struct flmem_watch_state w = begin();
	struct flmem_watched_process *job = come(&w, FLMEM_ROLE_CLIENT_JOB, "site-1", "worker");
	struct flmem_watch_summary summary;

	(void)state;
	sample(&w, job, SECOND);
	flmem_watch_state_end(&w, job);
	for (int i = 0; i < 10000; i++) {
		struct flmem_watched_process *child = come(&w, FLMEM_ROLE_NONE, NULL, "sh -c true");

		sample(&w, child, (uint64_t)i * SECOND);
		flmem_watch_state_end(&w, child);
		flmem_exec_follow_forget(&w);
		assert_true(w.count <= FLMEM_EXEC_FOLLOW_ENDED_MAX);
	}
	assert_true(w.forgotten + w.count == 10001);
	assert_ptr_equal(w.watched[0], job);
	assert_int_equal(flmem_watch_state_finish(&w, false, &summary, NULL), 0);
	assert_true(summary.unlisted == w.forgotten);
	flmem_watch_summary_clear(&summary);
	flmem_watch_state_clear(&w);
}

static void a_limit_that_was_passed_is_not_forgotten(void **state)
{
	const struct flmem_watch_options above = {.stop_fd = -1, .fail_above_bytes = 1};
	struct flmem_watch_state w = begin();
	struct flmem_watch_summary summary;

	(void)state;
	w.options = &above;
	for (unsigned i = 0; i < 2 * FLMEM_EXEC_FOLLOW_ENDED_MAX; i++) {
		struct flmem_watched_process *child = come(&w, FLMEM_ROLE_NONE, NULL, "sh");

		sample(&w, child, i * SECOND);
		flmem_watch_state_end(&w, child);
		flmem_exec_follow_forget(&w);
	}
	for (size_t i = 0; i < w.count; i++)
		w.watched[i]->exceeded_limit = false;
	assert_int_equal(flmem_watch_state_finish(&w, false, &summary, NULL), 0);
	assert_true(summary.limit_passed);
	flmem_watch_summary_clear(&summary);
	flmem_watch_state_clear(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_restart_goes_on_with_the_history),
		cmocka_unit_test(others_are_others),
		cmocka_unit_test(one_that_still_runs_has_no_heir),
		cmocka_unit_test(many_short_lived_ones_take_no_room),
		cmocka_unit_test(a_limit_that_was_passed_is_not_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
