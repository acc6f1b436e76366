/* SPDX-License-Identifier: Apache-2.0 */
/* Runs code by PEP 768 in each interpreter that has it, as where no thread can be started. */
#include "borrowed.h"

#include "proc/task.h"
#include "remote/new_thread.h"
#include "runtimes/cpython_call.h"

#define TIMEOUT_US 20000000U
#define REFUSAL_US 100000U

/* The main thread computes and checks its results. */
static const char computing[] = "import os\n"
				"os.write(1, b'r')\n"
				"wanted = sum(i * i for i in range(1000))\n"
				"while sum(i * i for i in range(1000)) == wanted:\n"
				"    pass\n";
/* The program refuses all scripts of debuggers, and must continue after that. */
static const char audited[] = "import os, sys\n"
			      "def hook(event, args):\n"
			      "    if event == 'cpython.remote_debugger_script':\n"
			      "        raise RuntimeError(event)\n"
			      "sys.addaudithook(hook)\n"
			      "sys.stderr = open(os.devnull, 'w')\n"
			      "os.write(1, b'r')\n"
			      "wanted = sum(i * i for i in range(1000))\n"
			      "while sum(i * i for i in range(1000)) == wanted:\n"
			      "    pass\n";
static const char waiting[] = "import os, time\n"
			      "os.write(1, b'r')\n"
			      "time.sleep(1000)\n";

struct scene {
	pid_t child;
	struct target target;
	struct flmem_guard guard;
	struct flmem_cpython_call call;
	struct flmem_cpython_result result;
	struct flmem_error err;
};

static const char *interpreter, *program, *option;
static int ends[2];
static bool arena_is_locked;

int __wrap_flmem_thread_functions_find(const struct flmem_view *view,
				       struct flmem_thread_functions *ret_functions,
				       struct flmem_error *err);
int __wrap_flmem_thread_functions_find(const struct flmem_view *view,
				       struct flmem_thread_functions *ret_functions,
				       struct flmem_error *err)
{
	(void)view;
	(void)ret_functions;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0, "no C library is known here");
}

static void be_python(void)
{
	dup2(ends[1], STDOUT_FILENO);
	execl(interpreter, interpreter, option, "-c", program, (char *)NULL);
}

static void await_block(const struct scene *scene)
{
	struct flmem_task_wait wait;

	while (flmem_task_read_wait(&scene->target.process, scene->child, &wait) != 1)
		usleep(1000);
}

static int call_code(struct scene *scene, const char *text, const char *code, uint64_t timeout_us)
{
	char byte;

	*scene = (struct scene){.call = {.code = {"<test>", code, strlen(code)},
					 .guard = &scene->guard,
					 .timeout_us = timeout_us}};
	program = text;
	assert_int_equal(pipe(ends), 0);
	scene->child = child_start(be_python);
	assert_true(scene->child > 0);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	pipe_close(ends);
	target_open(scene->child, &scene->target);
	if (text == waiting)
		await_block(scene);
	if (arena_is_locked) /* a word other than zero: the file's first one */
		flmem_guard_add_word(&scene->guard, scene->target.maps.rows[0].start);
	return flmem_cpython_call(&scene->target.view, &scene->call, &scene->result, &scene->err);
}

static void end(struct scene *scene)
{
	int status;

	assert_int_equal(waitpid(scene->child, &status, WNOHANG), 0);
	flmem_cpython_result_clear(&scene->result);
	target_close(&scene->target);
	child_end(scene->child);
}

static void check_computing(void)
{
	struct scene scene;

	if (call_code(&scene, computing,
		      "import threading\nprint(6 * 7, threading.main_thread() is "
		      "threading.current_thread())",
		      TIMEOUT_US))
		fail_msg("%s: %s", interpreter, scene.err.message);
	assert_int_equal(scene.result.entry, FLMEM_CPYTHON_ENTRY_DEBUGGER);
	assert_true(scene.result.complete);
	assert_null(scene.result.answer.exception);
	assert_string_equal(scene.result.answer.output, "42 False\n");
	end(&scene);
}

static void check_refused(const char *text)
{
	struct scene scene;
	int rc = call_code(&scene, text, "print(6 * 7)", REFUSAL_US);

	if (rc != FLMEM_EUNSAFE)
		fail_msg("%s: %d: %s", interpreter, rc, scene.err.message);
	assert_false(scene.result.complete);
	end(&scene);
}

static void check_forbidden(void)
{
	struct scene scene;

	if (call_code(&scene, audited, "print(6 * 7)", REFUSAL_US) != FLMEM_EFAILED)
		fail_msg("%s: %s", interpreter, scene.err.message);
	assert_false(scene.result.complete);
	assert_non_null(strstr(scene.err.message, "unless an audit hook has forbidden it"));
	end(&scene);
}

static void check_interpreter(void)
{
	option = "-B";
	check_computing();
	check_forbidden();
	check_refused(waiting);
	arena_is_locked = true;
	check_refused(computing);
	arena_is_locked = false;
	option = "-Xdisable-remote-debug";
	check_refused(computing);
}

static void code_runs_where_no_thread_can_be_started(void **state)
{
	FILE *list = popen("python3 -B " PYTHONS, "r");
	char line[512], path[400];
	int minor;

	(void)state;
	assert_non_null(list);
	while (fgets(line, sizeof(line), list)) {
		if (sscanf(line, "3.%d %399s", &minor, path) != 2)
			fail_msg("not a line of %s: %s", PYTHONS, line);
		interpreter = path;
		if (minor < 14)
			continue;
		if (path[0] == '-')
			print_message("SKIP: %s", strstr(line, " - ") + 3);
		else
			check_interpreter();
	}
	pclose(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(code_runs_where_no_thread_can_be_started),
	};

	return cmocka_run_group_tests_name("cpython_debugger", tests, NULL, NULL);
}
