/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <flmem/trim.h>

static pid_t child;

static int start_child(void **state)
{
	(void)state;
	child = fork();
	if (child == 0)
		for (;;)
			pause();
	return child < 0;
}

static int end_child(void **state)
{
	(void)state;
	kill(child, SIGKILL);
	return waitpid(child, NULL, 0) != child;
}

static void another_process_of_the_same_number_is_refused(void **state)
{
	const struct flmem_trim_options options = {.start_time = 1};
	struct flmem_trim_result result;
	struct flmem_error err;

	(void)state;
	assert_int_equal(flmem_trim_process(child, &options, &result, &err), FLMEM_ENOPROC);
	assert_non_null(strstr(err.message, "means another one now"));
	assert_int_equal(result.code, FLMEM_ENOPROC);
	assert_int_equal(result.outcome, FLMEM_TRIM_REFUSED);
	assert_string_equal(result.reason, err.message);
	assert_int_equal(result.thread, 0);
	assert_non_null(result.released_bytes.unknown);
}

static void the_caller_itself_is_refused(void **state)
{
	const struct flmem_trim_options options = {0};
	struct flmem_trim_result result;

	(void)state;
	assert_int_equal(flmem_trim_process(getpid(), &options, &result, NULL), FLMEM_EUSAGE);
	assert_non_null(strstr(result.reason, "is flmem itself"));
}

static void a_dry_run_names_the_thread(void **state)
{
	const struct flmem_trim_options options = {.dry_run = true};
	struct flmem_trim_result result;
	struct flmem_error err;
	int rc = flmem_trim_process(child, &options, &result, &err);

	(void)state;
	/* The sanitisers bring a malloc of their own. */
	if (rc == FLMEM_EPERM || rc == FLMEM_EUNSUPPORTED) {
		print_message("SKIP: %s\n", err.message);
		skip();
	}
	assert_int_equal(rc, 0);
	assert_int_equal(result.outcome, FLMEM_TRIM_PLANNED);
	assert_int_equal(result.thread, child);
	assert_string_equal(result.thread_state, "pause");
	assert_non_null(result.stopped_us.unknown); /* no call was made */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_process_of_the_same_number_is_refused),
		cmocka_unit_test(the_caller_itself_is_refused),
		cmocka_unit_test(a_dry_run_names_the_thread),
	};

	return cmocka_run_group_tests_name("trim", tests, start_child, end_child);
}
