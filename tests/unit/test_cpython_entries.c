/* SPDX-License-Identifier: Apache-2.0 */
/* Tests when no entry point into an interpreter may be used, and what a request to it writes. */
#include "borrowed.h"
#include "own_restrictions.h"

#include <stdatomic.h>
#include <sys/syscall.h>

#include "base/text/buf.h"
#include "runtimes/cpython_entry_points.h"
#include "runtimes/cpython_injected_script.h"
#include "runtimes/cpython_script.h"
#include "runtimes/cpython_waiters.h"

#define INTERPRETER	"/usr/bin/python3"
#define TIMEOUT_US	20000000U
#define PATH_BYTES	64U /* sizes of the simulated interpreter */
#define GIL_DROP	0x01U
#define HARMLESS	0x0eU /* signals, pending calls, an asynchronous exception */
#define DEBUGGER_SCRIPT 0x20U

/* Simulated results of flmem's reads. */
static bool seems_finalizing, seems_held, seems_handed_on, seems_changing;
static const char *directory = "/tmp"; /* folder of a script that is not written */

int __real_flmem_cpython_state_read(const struct flmem_view *view,
				    const struct flmem_cpython_place *place,
				    struct flmem_cpython_state *ret_state, struct flmem_error *err);
int __wrap_flmem_cpython_state_read(const struct flmem_view *view,
				    const struct flmem_cpython_place *place,
				    struct flmem_cpython_state *ret_state, struct flmem_error *err);
int __wrap_flmem_cpython_state_read(const struct flmem_view *view,
				    const struct flmem_cpython_place *place,
				    struct flmem_cpython_state *ret_state, struct flmem_error *err)
{
	int rc = seems_changing ? FLMEM_EUNSAFE
				: __real_flmem_cpython_state_read(view, place, ret_state, err);

	if (!rc && seems_finalizing)
		ret_state->finalizing = true;
	if (!rc && seems_held) {
		ret_state->gil.locked = true;
		ret_state->gil.holder = flmem_cpython_state_main(ret_state)->state;
	}
	return rc;
}

/* Replaces the function in cpython_call.c, which watches the lock. */
int __real_flmem_cpython_gil_read(const struct flmem_view *view,
				  const struct flmem_cpython_place *place,
				  uint64_t main_interpreter, struct flmem_cpython_gil *ret_gil,
				  struct flmem_error *err);
int __wrap_flmem_cpython_gil_read(const struct flmem_view *view,
				  const struct flmem_cpython_place *place,
				  uint64_t main_interpreter, struct flmem_cpython_gil *ret_gil,
				  struct flmem_error *err);
int __wrap_flmem_cpython_gil_read(const struct flmem_view *view,
				  const struct flmem_cpython_place *place,
				  uint64_t main_interpreter, struct flmem_cpython_gil *ret_gil,
				  struct flmem_error *err)
{
	FLMEM_AUTO_CPYTHON_STATE struct flmem_cpython_state state = {0};
	int rc;

	if (!seems_held)
		return __real_flmem_cpython_gil_read(view, place, main_interpreter, ret_gil, err);
	rc = __wrap_flmem_cpython_state_read(view, place, &state, err);
	*ret_gil = state.gil;
	if (seems_handed_on)
		ret_gil->holder++;
	return rc;
}

static int answer; /* answer of the requested code */

/* Another debugger makes a request: while the script is written, or after it was taken. */
static bool asked_before, asked_after;
static void request_as_another(void);

/* The main thread sets a filter for its system calls while the request waits. */
static bool filtered_meanwhile;
static void filter_thread(void);

/* The debugger's interface is replaced: no source and no file is written, and no answer awaited. */
int __wrap_flmem_cpython_injected_write(const struct flmem_cpython_session *session,
					struct flmem_cpython_injected *injected,
					struct flmem_error *err);
int __wrap_flmem_cpython_injected_write(const struct flmem_cpython_session *session,
					struct flmem_cpython_injected *injected,
					struct flmem_error *err)
{
	(void)session;
	(void)injected;
	(void)err;
	return 0;
}

int __wrap_flmem_cpython_injected_await(const struct flmem_cpython_session *session,
					const struct flmem_cpython_injected *injected,
					struct flmem_error *err);
int __wrap_flmem_cpython_injected_await(const struct flmem_cpython_session *session,
					const struct flmem_cpython_injected *injected,
					struct flmem_error *err)
{
	int rc = injected->check(injected->checker, err);

	(void)session;
	if (rc)
		return rc;
	if (filtered_meanwhile) {
		filter_thread();
		rc = injected->check(injected->checker, err);
	}
	if (rc)
		return rc;
	if (asked_after)
		request_as_another();
	return answer;
}

int __wrap_flmem_cpython_script_write(const struct flmem_process *process, uint64_t number,
				      const char *text, struct flmem_cpython_script *ret_script,
				      struct flmem_error *err);
int __wrap_flmem_cpython_script_write(const struct flmem_process *process, uint64_t number,
				      const char *text, struct flmem_cpython_script *ret_script,
				      struct flmem_error *err)
{
	(void)process;
	(void)number;
	(void)text;
	(void)err;
	if (asked_before)
		request_as_another();
	ret_script->path = directory;
	snprintf(ret_script->name, sizeof(ret_script->name), "script.py");
	return 0;
}

/* Starts a real interpreter. */

static int ends[2];

static void be_python(void)
{
	dup2(ends[1], STDOUT_FILENO);
	execl(INTERPRETER, INTERPRETER, "-c", "import time\nprint(flush=True)\ntime.sleep(1000)\n",
	      (char *)NULL);
}

/* Runs code in a Python that sleeps, or was stopped asleep. */
static int call_python(bool is_stopped, struct flmem_error *err)
{
	FLMEM_AUTO_CPYTHON_RESULT struct flmem_cpython_result result = {0};
	const struct flmem_guard guard = {0};
	const struct flmem_cpython_call call = {.code = {"<test>", "1", 1}, .guard = &guard};
	struct target target;
	pid_t child;
	char byte;
	int rc;

	if (access(INTERPRETER, X_OK)) {
		print_message("SKIP: there is no " INTERPRETER "\n");
		skip();
	}
	assert_int_equal(pipe(ends), 0);
	child = child_start(be_python);
	assert_true(child > 0);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	pipe_close(ends);
	await_true(is_blocked_in(child, SYS_clock_nanosleep));
	if (is_stopped) {
		assert_int_equal(kill(child, SIGSTOP), 0);
		assert_int_equal(waitpid(child, NULL, WUNTRACED), child);
	}
	target_open(child, &target);
	rc = flmem_cpython_call(&target.view, &call, &result, err);
	target_close(&target);
	child_end(child);
	return rc;
}

static void a_finalising_interpreter_is_not_entered(void **state)
{
	struct flmem_error err = {0};
	int rc;

	(void)state;
	seems_finalizing = true;
	rc = call_python(false, &err);
	seems_finalizing = false;
	if (rc != FLMEM_EUNSAFE)
		expect_borrowed(rc, &err);
	assert_int_equal(rc, FLMEM_EUNSAFE);
	if (!strstr(err.message, "is finalising"))
		fail_msg("%s", err.message);
}

/* The holder of the lock is blocked all the time. */
static void a_lock_that_is_held_in_c_code_is_not_waited_for(void **state)
{
	struct flmem_error err = {0};
	int rc;

	(void)state;
	seems_held = true;
	rc = call_python(false, &err);
	seems_held = false;
	if (rc != FLMEM_EUNSAFE)
		expect_borrowed(rc, &err);
	assert_int_equal(rc, FLMEM_EUNSAFE);
	if (!strstr(err.message, "holds the interpreter's lock inside C code"))
		fail_msg("%s", err.message);
}

static void a_lock_that_another_thread_has_by_now_is_released(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	seems_held = seems_handed_on = true;
	(void)call_python(false, &err); /* it may have no time for its code */
	seems_held = seems_handed_on = false;
	assert_null(strstr(err.message, "holds the interpreter's lock"));
}

/* SIGSTOP may arrive while a thread holds the lock. */
static void a_stopped_process_is_refused_as_stopped(void **state)
{
	struct flmem_error err = {0};
	int rc;

	(void)state;
	seems_held = true;
	rc = call_python(true, &err);
	seems_held = false;
	assert_int_equal(rc, FLMEM_EUNSAFE);
	if (!strstr(err.message, "is stopped; continue it first"))
		fail_msg("%s", err.message);
}

/* The lock is known nevertheless: a thread that waits for it is not borrowed for a trim. */
static void threads_that_come_and_go_hide_no_lock(void **state)
{
	struct flmem_cpython_waiters waiters;
	struct target target;
	pid_t child;
	char byte;
	bool found;

	(void)state;
	if (access(INTERPRETER, X_OK)) {
		print_message("SKIP: there is no " INTERPRETER "\n");
		skip();
	}
	assert_int_equal(pipe(ends), 0);
	child = child_start(be_python);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	pipe_close(ends);
	target_open(child, &target);
	seems_changing = true;
	found = flmem_cpython_waiters_find(&target.view, &waiters);
	seems_changing = false;
	target_close(&target);
	child_end(child);
	assert_true(found);
	assert_true(waiters.gil.start && waiters.gil.start < waiters.gil.end);
}

/* The debugger's interface of a simulated thread state. */

struct thread_state {
	_Atomic bool ready; /* the page was touched: flmem reads no absent page */
	_Atomic uint8_t breaker;
	char space[7];
	_Atomic int32_t pending;
	char path[256];
	_Atomic bool sets_filter, is_filtered, kills;
};

static struct thread_state *shared;

static void request_as_another(void)
{
	snprintf(shared->path, sizeof(shared->path), "/tmp/another.py");
	atomic_store(&shared->pending, 1);
}

static void be_computing(void)
{
	for (atomic_store(&shared->ready, true);;)
		if (atomic_exchange(&shared->sets_filter, false))
			atomic_store(&shared->is_filtered, filter_own_calls(shared->kills));
}

static void filter_thread(void)
{
	atomic_store(&shared->sets_filter, true);
	await_true(atomic_load(&shared->is_filtered));
}

struct scene {
	pid_t child;
	struct target target;
	struct flmem_guard guard;
	struct flmem_cpython_call call;
	struct flmem_cpython_result result;
	struct flmem_cpython_thread thread;
	struct flmem_cpython_session session;
};

static void start(struct scene *scene)
{
	memset((void *)shared, 0, sizeof(*shared));
	*scene = (struct scene){.child = child_start(be_computing)};
	assert_true(scene->child > 0);
	await_true(atomic_load(&shared->ready));
	target_open(scene->child, &scene->target);
	scene->call = (struct flmem_cpython_call){.guard = &scene->guard, .timeout_us = TIMEOUT_US};
	scene->thread = (struct flmem_cpython_thread){.state = (uint64_t)(uintptr_t)shared,
						      .pointer = 1,
						      .tid = scene->child,
						      .main_interpreter = true};
	scene->session = (struct flmem_cpython_session){
		.view = &scene->target.view, .call = &scene->call, .result = &scene->result};
	scene->session.state.threads = &scene->thread;
	scene->session.state.thread_count = 1;
	scene->session.state.main_pointer = 1;
	scene->session.place.layout = (struct flmem_cpython_layout){
		.eval_breaker = offsetof(struct thread_state, breaker),
		.debugger_pending = offsetof(struct thread_state, pending),
		.debugger_path = offsetof(struct thread_state, path),
		.debugger_path_size = PATH_BYTES};
}

static void end(struct scene *scene)
{
	target_close(&scene->target);
	child_end(scene->child);
}

/* The thread releases its lock without another one that takes it, and waits without limit. */
static void a_request_releases_no_lock(void **state)
{
	struct flmem_error err = {0};
	struct scene scene;
	int rc;

	(void)state;
	start(&scene);
	atomic_store(&shared->breaker, GIL_DROP);
	rc = flmem_cpython_entry_debugger(&scene.session, &err);
	end(&scene);
	expect_borrowed(rc, &err);
	assert_false(atomic_load(&shared->breaker) & GIL_DROP);
	/* Bits set between reading and writing must not be lost. */
	assert_int_equal(atomic_load(&shared->breaker) & HARMLESS, HARMLESS);
	assert_true(atomic_load(&shared->breaker) & DEBUGGER_SCRIPT);
	assert_int_equal(atomic_load(&shared->pending), 1);
	assert_string_equal(shared->path, "/tmp/script.py");
}

static void the_request_of_another_debugger_stays(void **state)
{
	struct flmem_error err = {0};
	struct scene scene;
	int rc;

	(void)state;
	start(&scene);
	atomic_store(&shared->pending, 1);
	rc = flmem_cpython_entry_debugger(&scene.session, &err);
	scene.call.dry_run = true;
	assert_int_equal(flmem_cpython_entry_debugger(&scene.session, NULL), FLMEM_EUNSAFE);
	end(&scene);
	assert_int_equal(rc, FLMEM_EUNSAFE);
	if (!strstr(err.message, "a debugger has just requested code"))
		fail_msg("%s", err.message);
	assert_string_equal(shared->path, "");
}

static void expect_request_of_another(const struct flmem_error *err, const char *word)
{
	assert_string_equal(shared->path, "/tmp/another.py");
	assert_int_equal(atomic_load(&shared->pending), 1);
	if (!strstr(err->message, word))
		fail_msg("%s", err->message);
}

static void so_does_one_that_comes_while_the_script_is_written(void **state)
{
	struct flmem_error err = {0};
	struct scene scene;
	int rc;

	(void)state;
	start(&scene);
	asked_before = true;
	rc = flmem_cpython_entry_debugger(&scene.session, &err);
	asked_before = false;
	end(&scene);
	if (rc != FLMEM_EUNSAFE)
		expect_borrowed(rc, &err);
	expect_request_of_another(&err, "a debugger has just requested code");
}

static void so_does_one_that_comes_after_the_script_was_taken(void **state)
{
	struct flmem_error err = {0};
	struct scene scene;
	int rc;

	(void)state;
	start(&scene);
	asked_after = true;
	answer = FLMEM_EFAILED;
	rc = flmem_cpython_entry_debugger(&scene.session, &err);
	asked_after = false;
	answer = 0;
	end(&scene);
	if (rc != FLMEM_EFAILED)
		expect_borrowed(rc, &err);
	expect_request_of_another(&err, "the code has not ended");
}

static void a_request_that_is_not_carried_out_in_time_is_withdrawn(void **state)
{
	struct flmem_error err = {0};
	struct scene scene;
	int rc;

	(void)state;
	start(&scene);
	answer = FLMEM_EFAILED;
	rc = flmem_cpython_entry_debugger(&scene.session, &err);
	answer = 0;
	end(&scene);
	if (rc != FLMEM_EFAILED)
		expect_borrowed(rc, &err);
	assert_string_equal(shared->path, "/tmp/script.py");
	assert_int_equal(atomic_load(&shared->pending), 0);
	if (!strstr(err.message, "the request was withdrawn"))
		fail_msg("%s", err.message);
}

/* Called after the checks before the request. */
static int become_unsafe(void *context, struct flmem_error *err)
{
	unsigned *checks = context;

	return (*checks)++ ? flmem_error_set(err, FLMEM_EUNSAFE, 0, "it has become so") : 0;
}

static void a_request_that_becomes_unsafe_is_withdrawn(void **state)
{
	struct flmem_error err = {0};
	struct scene scene;
	unsigned checks = 0;
	int rc;

	(void)state;
	start(&scene);
	scene.call.recheck = become_unsafe;
	scene.call.rechecker = &checks;
	rc = flmem_cpython_entry_debugger(&scene.session, &err);
	end(&scene);
	if (rc != FLMEM_EFAILED)
		expect_borrowed(rc, &err);
	assert_int_equal(checks, 2);
	assert_string_equal(shared->path, "/tmp/script.py");
	assert_int_equal(atomic_load(&shared->pending), 0);
	if (!strstr(err.message, "the request for code was withdrawn: it has become so"))
		fail_msg("%s", err.message);
}

/* flmem has evaluated the filters that existed before. */
static void a_request_is_withdrawn_where_a_filter_came_meanwhile(void **state)
{
	struct flmem_error err = {0};
	struct scene scene;
	int rc;

	(void)state;
	start(&scene);
	filtered_meanwhile = true;
	rc = flmem_cpython_entry_debugger(&scene.session, &err);
	filtered_meanwhile = false;
	end(&scene);
	if (rc != FLMEM_EFAILED)
		expect_borrowed(rc, &err);
	assert_int_equal(atomic_load(&shared->pending), 0);
	if (!strstr(err.message, "the request for code was withdrawn") ||
	    !strstr(err.message, "has set a seccomp filter meanwhile"))
		fail_msg("%s", err.message);
}

/* No thread is borrowed here: the filters are read for the request alone. */
static void a_program_whose_filter_kills_is_not_asked(void **state)
{
	struct flmem_error err = {0};
	struct scene scene;
	int rc;

	(void)state;
	start(&scene);
	atomic_store(&shared->kills, true);
	filter_thread();
	rc = flmem_cpython_entry_debugger(&scene.session, &err);
	end(&scene);
	/* Where filters cannot be read, that is the reason. */
	assert_true(rc == FLMEM_EUNSUPPORTED || rc == FLMEM_EPERM);
	assert_int_equal(atomic_load(&shared->pending), 0);
	if (rc == FLMEM_EUNSUPPORTED && !strstr(err.message, "openat"))
		fail_msg("%s", err.message);
}

/* The child has it open, too. */
static void a_program_that_handles_its_own_faults_is_not_asked(void **state)
{
	const int faults = userfaults_open();
	struct flmem_error err = {0};
	struct scene scene;
	int rc;

	(void)state;
	if (faults < 0) {
		print_message("SKIP: no userfaultfd may be opened here\n");
		skip();
	}
	start(&scene);
	close(faults);
	rc = flmem_cpython_entry_debugger(&scene.session, &err);
	end(&scene);
	assert_int_equal(rc, FLMEM_EUNSAFE);
	assert_int_equal(atomic_load(&shared->pending), 0);
	if (!strstr(err.message, "userfaultfd"))
		fail_msg("%s", err.message);
}

static void another_interpreter_is_not_asked(void **state)
{
	struct flmem_error err = {0};
	struct scene scene;

	(void)state;
	start(&scene);
	scene.thread.main_interpreter = false;
	assert_int_equal(flmem_cpython_entry_debugger(&scene.session, &err), FLMEM_EUNSAFE);
	end(&scene);
	assert_int_equal(atomic_load(&shared->pending), 0);
	assert_string_equal(shared->path, "");
}

/* The bytes after the path belong to the interpreter. */
static void a_path_that_does_not_fit_is_not_written(void **state)
{
	char longer[PATH_BYTES + 1];
	struct flmem_error err = {0};
	struct scene scene;

	(void)state;
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - sizeof("/script.py")] = '\0';
	start(&scene);
	directory = longer;
	assert_int_equal(flmem_cpython_entry_debugger(&scene.session, &err), FLMEM_EFAILED);
	assert_int_equal(atomic_load(&shared->pending), 0);
	assert_string_equal(shared->path, "");
	directory = "/tmp";
	end(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_finalising_interpreter_is_not_entered),
		cmocka_unit_test(a_lock_that_is_held_in_c_code_is_not_waited_for),
		cmocka_unit_test(a_lock_that_another_thread_has_by_now_is_released),
		cmocka_unit_test(a_stopped_process_is_refused_as_stopped),
		cmocka_unit_test(threads_that_come_and_go_hide_no_lock),
		cmocka_unit_test(a_request_releases_no_lock),
		cmocka_unit_test(the_request_of_another_debugger_stays),
		cmocka_unit_test(so_does_one_that_comes_while_the_script_is_written),
		cmocka_unit_test(so_does_one_that_comes_after_the_script_was_taken),
		cmocka_unit_test(a_request_that_is_not_carried_out_in_time_is_withdrawn),
		cmocka_unit_test(a_request_that_becomes_unsafe_is_withdrawn),
		cmocka_unit_test(a_request_is_withdrawn_where_a_filter_came_meanwhile),
		cmocka_unit_test(a_program_whose_filter_kills_is_not_asked),
		cmocka_unit_test(a_program_that_handles_its_own_faults_is_not_asked),
		cmocka_unit_test(another_interpreter_is_not_asked),
		cmocka_unit_test(a_path_that_does_not_fit_is_not_written),
	};

	shared = child_share(sizeof(*shared));
	if (!shared)
		return 1;
	return cmocka_run_group_tests_name("cpython_entries", tests, NULL, NULL);
}
