/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests Python code in a thread that is started for it: the checks of the interpreter and of the
 * thread.
 */
#include "borrowed.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/files/io.h"
#include "base/text/buf.h"
#include "patience.h"
#include "proc/rollup.h"
#include "proc/task.h"
#include "remote/new_thread.h"
#include "runtimes/cpython_entry_points.h"

#define INTERPRETER "/usr/bin/python3"
#define TIMEOUT_US  20000000U

static const char idle[] = "import time\n"
			   "print(flush=True)\n"
			   "time.sleep(1000)\n";

/* A program without ctypes whose memory cannot be written. */
static const char silent[] = "import posix, time\n"
			     "def fail(*unused):\n"
			     "    raise OSError\n"
			     "posix.open = fail\n"
			     "print(flush=True)\n"
			     "time.sleep(1000)\n";

/*
 * The code makes its thread read a byte of standard input when it ends, in the destructor of a
 * thread key, so that the thread exists as long as the test needs it.
 */
static const char idle_with_ctypes[] = "import ctypes, time\n"
				       "print(flush=True)\n"
				       "time.sleep(1000)\n";
static const char hold_end[] = "import ctypes\n"
			       "c = ctypes.CDLL(None)\n"
			       "k = ctypes.c_uint()\n"
			       "c.pthread_key_create(ctypes.byref(k), c.fgetc)\n"
			       "c.pthread_setspecific(k, ctypes.c_void_p.in_dll(c, 'stdin'))\n";

/* The main thread is nearly always in a function of the C library, with the interpreter's lock. */
static const char in_the_c_library[] = "import ctypes\n"
				       "hold = ctypes.PyDLL(None)\n"
				       "place = ctypes.create_string_buffer(1 << 26)\n"
				       "print(flush=True)\n"
				       "while True:\n"
				       "    hold.memset(place, 1, 1 << 26)\n";
static const char computing[] = "print(flush=True)\n"
				"while True:\n"
				"    sum(i * i for i in range(1000))\n";

struct scene {
	pid_t child;
	struct target target;
	struct flmem_guard guard;
	struct flmem_cpython_call call;
	struct flmem_cpython_result result;
	struct flmem_cpython_session session;
	struct flmem_error err;
};

static const char *program;
static int ends[2];
static int input[2]; /* standard input of the target */
static bool holds_end, was_awaited;

static void be_python(void)
{
	dup2(input[0], STDIN_FILENO);
	dup2(ends[1], STDOUT_FILENO);
	execl(INTERPRETER, INTERPRETER, "-c", program, (char *)NULL);
}

static void find_python(struct scene *scene)
{
	struct flmem_cpython_session *session = &scene->session;

	*session = (struct flmem_cpython_session){
		.view = &scene->target.view, .call = &scene->call, .result = &scene->result};
	assert_true(flmem_cpython_find(session->view, &session->python));
	if (flmem_cpython_locate(session->view, &session->python, &session->place, &scene->err) ||
	    flmem_cpython_state_read(session->view, &session->place, &session->state, &scene->err))
		fail_msg("%s", scene->err.message);
}

static void start(struct scene *scene, const char *text)
{
	static const char code[] = "print(6 * 7)";
	char byte;

	if (access(INTERPRETER, X_OK)) {
		print_message("SKIP: there is no " INTERPRETER "\n");
		skip();
	}
	*scene = (struct scene){.call = {.code = {"<test>", code, strlen(code)},
					 .guard = &scene->guard,
					 .timeout_us = TIMEOUT_US}};
	program = text;
	assert_int_equal(pipe(ends) || pipe(input), 0);
	scene->child = child_start(be_python);
	assert_true(scene->child > 0);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	pipe_close(ends);
	target_open(scene->child, &scene->target);
	find_python(scene);
}

static void end(struct scene *scene)
{
	flmem_cpython_result_clear(&scene->result);
	flmem_cpython_state_clear(&scene->session.state);
	target_close(&scene->target);
	child_end(scene->child);
	pipe_close(input);
}

static size_t count_threads(const struct scene *scene)
{
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};

	assert_int_equal(flmem_tasks_read(&scene->target.process, &tasks), 0);
	return tasks.count;
}

/*
 * A thread that is held is released when flmem has begun to wait for its end, which may take long.
 */
bool __real_flmem_new_thread_await_end(const struct flmem_view *view,
				       const struct flmem_new_thread *thread, uint64_t timeout_us);
bool __wrap_flmem_new_thread_await_end(const struct flmem_view *view,
				       const struct flmem_new_thread *thread, uint64_t timeout_us);
bool __wrap_flmem_new_thread_await_end(const struct flmem_view *view,
				       const struct flmem_new_thread *thread, uint64_t timeout_us)
{
	was_awaited = timeout_us > 0;
	if (holds_end)
		assert_int_equal(write(input[1], "x", 1), 1);
	return __real_flmem_new_thread_await_end(view, thread, TIMEOUT_US);
}

/* The thread that starts another one seems to have returned before its results could be read. */
static bool is_late;

int __real_flmem_borrow_run(const struct flmem_view *view, const struct flmem_chain *chain,
			    const struct flmem_borrow_options *options,
			    struct flmem_borrow_result *result, struct flmem_error *err);
int __wrap_flmem_borrow_run(const struct flmem_view *view, const struct flmem_chain *chain,
			    const struct flmem_borrow_options *options,
			    struct flmem_borrow_result *result, struct flmem_error *err);
int __wrap_flmem_borrow_run(const struct flmem_view *view, const struct flmem_chain *chain,
			    const struct flmem_borrow_options *options,
			    struct flmem_borrow_result *result, struct flmem_error *err)
{
	int rc = __real_flmem_borrow_run(view, chain, options, result, err);

	if (rc || !is_late)
		return rc;
	result->complete = false;
	result->self_restored = true;
	return flmem_error_set(err, FLMEM_EFAILED, 0, "late");
}

/* Between two waits the thread can be found running; that does not answer this test's question. */
static int enter(struct scene *scene)
{
	int rc = FLMEM_EUNSAFE;

	for (int i = 0; i < 200 && rc == FLMEM_EUNSAFE && !scene->result.complete; i++) {
		rc = flmem_cpython_entry_new_thread(&scene->session, &scene->err);
		if (rc != FLMEM_EUNSAFE || !strstr(scene->err.message, "running; try again"))
			break;
		usleep(10000);
	}
	if (rc != FLMEM_EUNSAFE && rc != FLMEM_EFAILED)
		expect_borrowed(rc, &scene->err);
	return rc;
}

static bool is_child_there(const struct scene *scene)
{
	return flmem_process_alive(&scene->target.process);
}

static void code_runs_and_its_thread_is_gone(void **state)
{
	struct scene scene;

	(void)state;
	start(&scene, idle);
	if (enter(&scene))
		fail_msg("%s", scene.err.message);
	assert_true(scene.result.complete);
	assert_int_equal(scene.result.entry, FLMEM_CPYTHON_ENTRY_NEW_THREAD);
	assert_string_equal(scene.result.answer.output, "42\n");
	assert_null(scene.result.answer.exception);
	assert_int_equal(scene.result.tid, scene.child);
	assert_int_equal(count_threads(&scene), 1);
	end(&scene);
}

/* The thread exists until flmem waits for it: otherwise it would be counted. */
static void the_end_of_the_thread_is_awaited(void **state)
{
	struct scene scene;

	(void)state;
	start(&scene, idle_with_ctypes);
	scene.call.code = (struct flmem_cpython_code){"<test>", hold_end, strlen(hold_end)};
	holds_end = true;
	if (enter(&scene))
		fail_msg("%s", scene.err.message);
	holds_end = false;
	assert_null(scene.result.answer.exception);
	assert_int_equal(count_threads(&scene), 1);
	assert_true(was_awaited);
	end(&scene);
}

static void a_dry_run_starts_nothing(void **state)
{
	struct scene scene;

	(void)state;
	start(&scene, idle);
	scene.call.dry_run = true;
	if (enter(&scene))
		fail_msg("%s", scene.err.message);
	assert_int_equal(scene.result.tid, scene.child);
	assert_false(scene.result.complete);
	assert_int_equal(count_threads(&scene), 1);
	end(&scene);
}

/*
 * Each thread sleeps for seconds, so a machine without time for flmem must not make it start many.
 */
static void threads_that_flmem_is_late_for_count(void **state)
{
	struct scene scene;

	(void)state;
	start(&scene, idle);
	is_late = true;
	for (int i = 0; i < 10; i++)
		assert_int_equal(enter(&scene), FLMEM_EUNSAFE);
	is_late = false;
	assert_int_equal(scene.session.threads_started, 3);
	if (!strstr(scene.err.message, "3 threads were started"))
		fail_msg("%s", scene.err.message);
	end(&scene);
}

/* Under load the thread can be found elsewhere; the place decides. */
static int enter_computing(struct scene *scene, const char *passing)
{
	int rc = FLMEM_EUNSAFE;

	for (int i = 0; i < 200 && rc == FLMEM_EUNSAFE; i++) {
		rc = flmem_cpython_entry_computing(&scene->session, &scene->err);
		if (rc != FLMEM_EUNSAFE || !strstr(scene->err.message, passing))
			break;
		usleep(10000);
	}
	if (rc != FLMEM_EUNSAFE && rc != FLMEM_EFAILED)
		expect_borrowed(rc, &scene->err);
	return rc;
}

static void a_computing_thread_starts_one(void **state)
{
	struct scene scene;

	(void)state;
	start(&scene, computing);
	if (enter_computing(&scene, "cannot be borrowed now"))
		fail_msg("%s", scene.err.message);
	assert_true(scene.result.complete);
	assert_int_equal(scene.result.entry, FLMEM_CPYTHON_ENTRY_NEW_THREAD);
	assert_int_equal(scene.result.tid, scene.child);
	assert_null(scene.result.waited_in);
	assert_string_equal(scene.result.answer.output, "42\n");
	assert_int_equal(count_threads(&scene), 1);
	end(&scene);
}

/* pthread_create() could wait there for a lock that this thread holds. */
static void a_thread_inside_the_c_library_starts_none(void **state)
{
	struct scene scene;

	(void)state;
	start(&scene, in_the_c_library);
	scene.call.timeout_us = 1000; /* for the code, should it be started */
	assert_int_equal(enter_computing(&scene, "system call"), FLMEM_EUNSAFE);
	if (!strstr(scene.err.message, "computes outside of the interpreter's code"))
		fail_msg("%s", scene.err.message);
	assert_int_equal(count_threads(&scene), 1);
	end(&scene);
}

/* The interpreter's file then has the C library's locks. */
static void a_computing_thread_of_a_static_program_starts_none(void **state)
{
	struct scene scene;

	(void)state;
	start(&scene, computing);
	scene.call.dry_run = true;
	scene.target.modules.has_link_map = false;
	assert_int_equal(enter_computing(&scene, "cannot be borrowed now"), FLMEM_EUNSAFE);
	if (!strstr(scene.err.message, "contains the C library or an allocator"))
		fail_msg("%s", scene.err.message);
	end(&scene);
}

/* The thread id may have been reused since the thread's state was read. */
static void another_computing_thread_starts_none(void **state)
{
	struct scene scene;

	(void)state;
	start(&scene, computing);
	scene.session.state.main_pointer++;
	for (size_t i = 0; i < scene.session.state.thread_count; i++)
		scene.session.state.threads[i].pointer = scene.session.state.main_pointer;
	assert_int_equal(enter_computing(&scene, "system call"), FLMEM_EUNSAFE);
	if (!strstr(scene.err.message, "is not Python's main thread"))
		fail_msg("%s", scene.err.message);
	end(&scene);
}

static rlim_t data_bytes(pid_t pid)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	char path[64];
	uint64_t bytes = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	assert_int_equal(flmem_io_read_file_at(AT_FDCWD, path, 65536, &text), 0);
	assert_true(flmem_rollup_find(text.data, "VmData", &bytes));
	return bytes;
}

/* The stack of the new thread takes the rest of the memory that the code needs. */
static void without_memory_nothing_is_entered(void **state)
{
	struct rlimit limit = {0, RLIM_INFINITY};
	struct scene scene;

	(void)state;
	start(&scene, idle);
	limit.rlim_cur = data_bytes(scene.child) + FLMEM_CPYTHON_HEADROOM;
	assert_int_equal(prlimit(scene.child, RLIMIT_DATA, &limit, NULL), 0);
	assert_int_equal(enter(&scene), FLMEM_EUNSAFE);
	if (!strstr(scene.err.message, "could end for lack of memory"))
		fail_msg("%s", scene.err.message);
	assert_false(scene.result.complete);
	assert_true(is_child_there(&scene));
	end(&scene);
}

/*
 * The mark of finalisation seems to be set: another word of the state, which is set, is read
 * instead.
 */
static void an_interpreter_that_begins_to_end_is_not_entered(void **state)
{
	uint64_t word = 0, offset = 0;
	struct scene scene;

	(void)state;
	start(&scene, idle);
	for (; !word && offset < 4096; offset += sizeof(word))
		assert_int_equal(flmem_process_read_memory(&scene.target.process,
							   scene.session.place.runtime + offset,
							   &word, sizeof(word)),
				 0);
	assert_true(word);
	scene.session.place.layout.finalizing = (uint32_t)(offset - sizeof(word));
	assert_int_equal(enter(&scene), FLMEM_EUNSAFE);
	if (!strstr(scene.err.message, "belongs to an interpreter that is finalising"))
		fail_msg("%s", scene.err.message);
	assert_false(scene.result.complete);
	assert_null(scene.result.answer.output);
	end(&scene);
}

/* Returns the offset of a number that is not 0 and begins with such a byte; 0 if there is none. */
static uint32_t offset_of_round_number(const struct scene *scene)
{
	uint32_t number = 0, offset = 0;

	for (; (!number || number & 0xff) && offset < 65536; offset += sizeof(number))
		assert_int_equal(flmem_process_read_memory(&scene->target.process,
							   scene->session.place.runtime + offset,
							   &number, sizeof(number)),
				 0);
	return number && !(number & 0xff) ? offset - (uint32_t)sizeof(number) : 0;
}

static pid_t watched; /* 0: it was found */

/* True once, when a thread is in a lock without a time limit, as no other one is. */
static bool is_stopped_for_good(void)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};
	struct flmem_task_wait wait;

	if (!watched || flmem_process_open(watched, &process, NULL) ||
	    flmem_tasks_read(&process, &tasks))
		return false;
	for (size_t i = 0; i < tasks.count; i++)
		if (flmem_task_read_wait(&process, tasks.ids[i], &wait) == 1 &&
		    wait.number == SYS_futex && !wait.args[3]) {
			watched = 0;
			return true;
		}
	return false;
}

/* The interpreter seems to end after the check of flmem, and before that of the thread. */
static void expect_stopped_thread(bool creates_state)
{
	struct scene scene;
	uint32_t offset;

	start(&scene, idle);
	scene.session.place.layout.creates_state = creates_state;
	offset = offset_of_round_number(&scene);
	if (!offset) {
		print_message("SKIP: no such number\n");
	} else {
		scene.session.place.layout.initialized = offset;
		watched = scene.child;
		patience_watch(is_stopped_for_good);
		assert_int_equal(enter(&scene), FLMEM_EFAILED);
		patience_watch_end();
		if (!strstr(scene.err.message, "began to end, so the code does not run"))
			fail_msg("%s", scene.err.message);
		assert_false(scene.result.complete);
		assert_null(scene.result.answer.output);
		assert_true(is_child_there(&scene));
	}
	end(&scene);
}

static void an_interpreter_that_ended_after_the_check_stops_the_thread(void **state)
{
	(void)state;
	expect_stopped_thread(false);
}

/* With 3.14, a state must not be created in such an interpreter either. */
static void an_interpreter_that_ended_after_the_check_gets_no_state(void **state)
{
	(void)state;
	expect_stopped_thread(true);
}

/* The chain is the longest of all. */
static void code_runs_after_a_state_was_made(void **state)
{
	struct scene scene;

	(void)state;
	start(&scene, idle);
	scene.session.place.layout.creates_state = true;
	if (enter(&scene))
		fail_msg("%s", scene.err.message);
	assert_string_equal(scene.result.answer.output, "42\n");
	assert_int_equal(count_threads(&scene), 1);
	end(&scene);
}

static void without_an_answer_nothing_is_certain(void **state)
{
	struct scene scene;

	(void)state;
	start(&scene, silent);
	assert_int_equal(enter(&scene), FLMEM_EFAILED);
	assert_non_null(strstr(scene.err.message, "the code returned no result"));
	assert_false(scene.result.complete);
	assert_int_equal(count_threads(&scene), 1);
	end(&scene);
}

static void no_more_threads_are_started_than_a_few(void **state)
{
	struct scene scene;

	(void)state;
	start(&scene, idle);
	scene.session.threads_started = 3;
	assert_int_equal(enter(&scene), FLMEM_EUNSAFE);
	assert_non_null(strstr(scene.err.message, "3 threads were started"));
	assert_int_equal(count_threads(&scene), 1);
	end(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(code_runs_and_its_thread_is_gone),
		cmocka_unit_test(the_end_of_the_thread_is_awaited),
		cmocka_unit_test(a_dry_run_starts_nothing),
		cmocka_unit_test(threads_that_flmem_is_late_for_count),
		cmocka_unit_test(an_interpreter_that_begins_to_end_is_not_entered),
		cmocka_unit_test(an_interpreter_that_ended_after_the_check_stops_the_thread),
		cmocka_unit_test(an_interpreter_that_ended_after_the_check_gets_no_state),
		cmocka_unit_test(code_runs_after_a_state_was_made),
		cmocka_unit_test(without_an_answer_nothing_is_certain),
		cmocka_unit_test(no_more_threads_are_started_than_a_few),
		cmocka_unit_test(a_computing_thread_starts_one),
		cmocka_unit_test(a_thread_inside_the_c_library_starts_none),
		cmocka_unit_test(a_computing_thread_of_a_static_program_starts_none),
		cmocka_unit_test(another_computing_thread_starts_none),
		cmocka_unit_test(without_memory_nothing_is_entered),
	};

	return cmocka_run_group_tests_name("cpython_new_thread", tests, NULL, NULL);
}
