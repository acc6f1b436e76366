/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the number of bytes that a trim reports as released, of a process that takes memory and
 * drops it meanwhile.
 */
#include "borrowed.h"

#include <fcntl.h>

#include <flmem/trim.h>

#define PYTHON "/usr/bin/python3"
#define MIB    (UINT64_C(1) << 20)
#define BLOCK  (64 * MIB)
#define ABOUT  (8 * MIB) /* tolerance for memory that Python itself takes or drops */
/* The pause is longer than that between two readings of RSS. */
#define PAUSE_US 2000

static pid_t child;
static int orders[2], answers[2];

/* The actions of the process while a thread of it is borrowed; the letters are its orders. */
static struct {
	const char *before, *during; /* orders before the calls, and while they are made */
	const char *then;	     /* orders during the calls, after RSS was read */
} course;

/* The program takes and drops 64 MiB at each order. */
static const char program[] = "import mmap, os\n"
			      "kept = []\n"
			      "while True:\n"
			      "    order = os.read(0, 1)\n"
			      "    if order == b'+':\n"
			      "        kept.append(mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE "
			      "| mmap.MAP_ANONYMOUS))\n"
			      "        for at in range(0, 64 << 20, 4096): kept[-1][at] = 1\n"
			      "    else:\n"
			      "        kept.pop().close()\n"
			      "    os.write(1, b'.')\n";

static void follow(const char *letters)
{
	char answer;

	for (; letters && *letters; letters++) {
		assert_int_equal(write(orders[1], letters, 1), 1);
		assert_int_equal(read(answers[0], &answer, 1), 1);
	}
}

/* Replaces flmem's borrow: no thread is borrowed, and the process does what a test orders. */
int __wrap_flmem_borrow_run(const struct flmem_view *view, const struct flmem_chain *chain,
			    const struct flmem_borrow_options *options,
			    struct flmem_borrow_result *ret_result, struct flmem_error *err);
int __wrap_flmem_borrow_run(const struct flmem_view *view, const struct flmem_chain *chain,
			    const struct flmem_borrow_options *options,
			    struct flmem_borrow_result *ret_result, struct flmem_error *err)
{
	(void)view, (void)chain, (void)err;
	follow(course.before);
	if (options->observe)
		options->observe(options->observer, false);
	follow(course.during);
	usleep(PAUSE_US);
	if (options->observe)
		options->observe(options->observer, true);
	follow(course.then);
	*ret_result = (struct flmem_borrow_result){.tid = child, .started = true, .complete = true};
	return 0;
}

static void be_python(void)
{
	dup2(orders[0], STDIN_FILENO);
	dup2(answers[1], STDOUT_FILENO);
	execl(PYTHON, PYTHON, "-c", program, NULL);
}

static int start_python(void **state)
{
	(void)state;
	if (pipe2(orders, O_CLOEXEC) || pipe2(answers, O_CLOEXEC))
		return 1;
	child = child_start(be_python);
	return !child;
}

static int end_python(void **state)
{
	(void)state;
	child_end(child);
	for (unsigned i = 0; i < 2; i++) {
		close(orders[i]);
		close(answers[i]);
	}
	return 0;
}

static void trim_while(const char *before, const char *during, const char *then,
		       struct flmem_trim_result *ret_result)
{
	const struct flmem_trim_options options = {0};
	struct flmem_error err = {0};

	if (access(PYTHON, X_OK)) {
		print_message("SKIP: there is no " PYTHON "\n");
		skip();
	}
	follow("++");
	course.before = before;
	course.during = during;
	course.then = then;
	if (flmem_trim_process(child, &options, ret_result, &err))
		fail_msg("%s", err.message);
}

static void assert_about(struct flmem_u64 is, uint64_t expected)
{
	if (is.unknown)
		fail_msg("unknown: %s", is.unknown);
	assert_in_range(is.value + ABOUT, expected, expected + 2 * ABOUT);
}

static void what_was_taken_again_was_released(void **state)
{
	struct flmem_trim_result result;

	(void)state;
	trim_while(NULL, "-", "+", &result);
	assert_int_equal(result.outcome, FLMEM_TRIM_RELEASED);
	assert_int_equal(result.steps[0].outcome, FLMEM_TRIM_RELEASED);
	assert_about(result.steps[0].released_bytes, BLOCK);
	assert_about(result.returned_bytes, BLOCK);
	assert_about(result.taken_bytes, BLOCK);
	assert_about(result.released_bytes, 0);
}

static void what_is_taken_before_the_calls_hides_nothing(void **state)
{
	struct flmem_trim_result result;

	(void)state;
	trim_while("+", "-", NULL, &result);
	assert_int_equal(result.outcome, FLMEM_TRIM_RELEASED);
	assert_about(result.released_bytes, BLOCK);
	assert_about(result.returned_bytes, BLOCK);
	assert_about(result.taken_bytes, 0);
}

static void what_is_dropped_before_the_calls_was_not_released(void **state)
{
	struct flmem_trim_result result;

	(void)state;
	trim_while("-", NULL, NULL, &result);
	assert_about(result.released_bytes, 0);
	assert_about(result.returned_bytes, 0);
}

static void a_growing_process_may_have_had_memory_to_release(void **state)
{
	struct flmem_trim_result result;

	(void)state;
	trim_while(NULL, "+", NULL, &result);
	assert_int_equal(result.outcome, FLMEM_TRIM_UNMEASURED);
	assert_int_equal(result.steps[0].outcome, FLMEM_TRIM_UNMEASURED);
	assert_non_null(result.returned_bytes.unknown);
	assert_non_null(strstr(result.returned_bytes.unknown, "took more memory"));
	assert_non_null(result.steps[0].released_bytes.unknown);
	assert_int_equal(result.code, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_was_taken_again_was_released, start_python,
						end_python),
		cmocka_unit_test_setup_teardown(what_is_taken_before_the_calls_hides_nothing,
						start_python, end_python),
		cmocka_unit_test_setup_teardown(what_is_dropped_before_the_calls_was_not_released,
						start_python, end_python),
		cmocka_unit_test_setup_teardown(a_growing_process_may_have_had_memory_to_release,
						start_python, end_python),
	};

	return cmocka_run_group_tests_name("trim_released", tests, NULL, NULL);
}
