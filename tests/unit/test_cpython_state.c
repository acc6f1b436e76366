/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <flmem/parse.h>

#include "base/cleanup.h"
#include "elf/modules.h"
#include "runtimes/cpython_state.h"

/* One interpreter that runs a program; tear_down releases it, also after a failed check. */
static struct scene {
	struct flmem_process process;
	struct flmem_maps maps;
	struct flmem_image_cache *cache;
	struct flmem_modules modules;
	struct flmem_view view;
	struct flmem_cpython python;
	struct flmem_cpython_place place;
	pid_t child;
	int output;
} scene;

static int set_up(void **state)
{
	(void)state;
	scene = (struct scene){.process = FLMEM_PROCESS_INIT, .output = -1};
	return 0;
}

static int tear_down(void **state)
{
	if (scene.child > 0) {
		kill(scene.child, SIGKILL);
		waitpid(scene.child, NULL, 0);
	}
	flmem_cleanup_close(&scene.output);
	flmem_modules_clear(&scene.modules);
	flmem_image_cache_free(scene.cache);
	flmem_maps_clear(&scene.maps);
	flmem_process_close(&scene.process);
	return set_up(state);
}

/* Reads up to eight numbers that the program prints once it is at its place. */
static void read_numbers(long numbers[8])
{
	char line[256] = "";
	size_t used = 0;

	while (used < sizeof(line) - 1 && !strchr(line, '\n')) {
		ssize_t got = read(scene.output, line + used, sizeof(line) - 1 - used);

		if (got <= 0)
			fail_msg("the program ended early: '%s'", line);
		used += (size_t)got;
		line[used] = '\0';
	}
	sscanf(line, "%ld %ld %ld %ld %ld %ld %ld %ld", &numbers[0], &numbers[1], &numbers[2],
	       &numbers[3], &numbers[4], &numbers[5], &numbers[6], &numbers[7]);
}

static void start(const char *interpreter, const char *program, long numbers[8])
{
	struct flmem_error err = {0};
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	scene.child = fork();
	assert_true(scene.child >= 0);
	if (scene.child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		execl(interpreter, interpreter, "-c", program, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	scene.output = ends[0];
	read_numbers(numbers);
	scene.cache = flmem_image_cache_new();
	if (flmem_process_open(scene.child, &scene.process, &err) ||
	    flmem_maps_read(&scene.process, &scene.maps, &err) ||
	    flmem_modules_load(&scene.process, &scene.maps, scene.cache, &scene.modules, &err))
		fail_msg("%s", err.message);
	scene.view = (struct flmem_view){&scene.process, &scene.maps, &scene.modules};
	assert_true(flmem_cpython_find(&scene.view, &scene.python));
	if (flmem_cpython_locate(&scene.view, &scene.python, &scene.place, &err))
		fail_msg("%s: %s", interpreter, err.message);
}

static void read_state(struct flmem_cpython_state *state)
{
	struct flmem_error err = {0};

	if (flmem_cpython_state_read(&scene.view, &scene.place, state, &err))
		fail_msg("%s: %s", scene.python.version, err.message);
}

/*
 * Runs a check with every interpreter from 3.8 on that is installed, and prints which are absent.
 */
static void with_each(void (*check)(const char *interpreter))
{
	FILE *list = popen("python3 -B " PYTHONS, "r");
	char line[512], version[16], path[400];
	size_t ran = 0;

	assert_non_null(list);
	while (fgets(line, sizeof(line), list)) {
		if (sscanf(line, "%15s %399s", version, path) != 2)
			fail_msg("not a line of %s: %s", PYTHONS, line);
		if (path[0] == '-') {
			print_message("SKIP: %s", strstr(line, " - ") + 3);
			continue;
		}
		check(path);
		tear_down(NULL);
		ran++;
	}
	pclose(list);
	if (!ran)
		fail_msg("no Python at all: is %s in order?", PYTHONS);
}

static const char idle_program[] =
	"import os, threading, time\n"
	"ids = [0, 0]\n"
	"def wait(i):\n"
	"    ids[i] = threading.get_native_id()\n"
	"    time.sleep(1000)\n"
	"for i in range(2): threading.Thread(target=wait, args=(i,), daemon=True).start()\n"
	"while not all(ids): time.sleep(0.001)\n"
	"time.sleep(0.05)\n"
	"print(os.getpid(), *ids, flush=True)\n"
	"time.sleep(1000)\n";

/* Waits until the lock is free, moments after the program has printed that it waits. */
static bool comes_to_rest(struct flmem_cpython_gil *gil, uint64_t interpreter)
{
	for (int i = 0; i < 2000; i++) {
		if (flmem_cpython_gil_read(&scene.view, &scene.place, interpreter, gil, NULL) ==
			    0 &&
		    !gil->locked)
			return true;
		usleep(1000);
	}
	return false;
}

static void check_idle(const char *interpreter)
{
	FLMEM_AUTO_CPYTHON_STATE struct flmem_cpython_state state = {0};
	long ids[8] = {0};
	bool finalizing = true;

	start(interpreter, idle_program, ids);
	read_state(&state);
	assert_false(state.finalizing);
	assert_int_equal(state.interpreters, 1);
	assert_int_equal(state.thread_count, 3);
	for (size_t i = 0; i < 3; i++) {
		bool found = false;

		for (size_t k = 0; k < state.thread_count; k++)
			found = found || state.threads[k].tid == ids[i];
		if (!found)
			fail_msg("%s: thread %ld was not found", interpreter, ids[i]);
		assert_true(state.threads[i].main_interpreter);
	}
	assert_true(comes_to_rest(&state.gil, state.main_interpreter));
	assert_int_equal(state.gil.holder, 0);
	assert_int_equal(
		flmem_cpython_finalizing_read(&scene.view, &scene.place, &finalizing, NULL), 0);
	assert_false(finalizing);
}

static const char busy_program[] = "import os, threading, time\n"
				   "def spin():\n"
				   "    while True: sum(range(100))\n"
				   "threading.Thread(target=spin, daemon=True).start()\n"
				   "print(os.getpid(), flush=True)\n"
				   "spin()\n";

static void check_busy(const char *interpreter)
{
	FLMEM_AUTO_CPYTHON_STATE struct flmem_cpython_state state = {0};
	struct flmem_cpython_gil later;
	bool wanted = false, changed = false;
	long ids[8] = {0};

	start(interpreter, busy_program, ids);
	read_state(&state);
	for (int i = 0; i < 20000 && !(wanted && changed); i++) {
		assert_int_equal(flmem_cpython_gil_read(&scene.view, &scene.place,
							state.main_interpreter, &later, NULL),
				 0);
		wanted = wanted || later.wanted;
		changed = changed || later.switches > state.gil.switches;
		if (later.locked && later.holder)
			assert_non_null(flmem_cpython_state_find(&state, later.holder));
		usleep(500);
	}
	assert_true(changed);
	assert_true(wanted);
}

/*
 * The main thread waits in the last moments of the interpreter, when a module's object is deleted.
 */
static const char ending_program[] =
	"import os, time\n"
	"class Last:\n"
	"    def __del__(self, getpid=os.getpid, write=os.write, sleep=time.sleep):\n"
	"        write(1, b'%d\\n' % getpid())\n"
	"        sleep(1000)\n"
	"import sys\n"
	"sys.last_of_all = Last()\n";

static void check_ending(const char *interpreter)
{
	FLMEM_AUTO_CPYTHON_STATE struct flmem_cpython_state state = {0};
	long ids[8] = {0};

	start(interpreter, ending_program, ids);
	read_state(&state);
	assert_true(state.finalizing);
}

static const char parts_program[] = "import os, time\n"
				    "try: import _interpreters as module\n"
				    "except ImportError: import _xxsubinterpreters as module\n"
				    "kept = [module.create() for _ in range(3)]\n"
				    "print(os.getpid(), flush=True)\n"
				    "time.sleep(1000)\n";

static void check_parts(const char *interpreter)
{
	FLMEM_AUTO_CPYTHON_STATE struct flmem_cpython_state state = {0};
	size_t main_threads = 0;
	long ids[8] = {0};

	start(interpreter, parts_program, ids);
	read_state(&state);
	assert_int_equal(state.interpreters, 4);
	for (size_t i = 0; i < state.thread_count; i++)
		main_threads += state.threads[i].main_interpreter;
	assert_int_equal(main_threads, 1);
}

static void the_threads_of_an_idle_interpreter_are_told(void **state)
{
	(void)state;
	with_each(check_idle);
}

static void the_lock_is_seen_to_change_hands(void **state)
{
	(void)state;
	with_each(check_busy);
}

static void an_interpreter_that_ends_is_recognised(void **state)
{
	(void)state;
	with_each(check_ending);
}

static void interpreters_beside_the_main_one_are_told_apart(void **state)
{
	(void)state;
	with_each(check_parts);
}

/* Puts the beginning of the table of Debian's 3.14.6 (tests/worlds), or of an invalid one. */
static void put_words(unsigned char table[FLMEM_CPYTHON_TABLE_MAX], const uint64_t *words,
		      size_t count)
{
	memset(table, 0, FLMEM_CPYTHON_TABLE_MAX);
	memcpy(table, "xdebugpy", 8);
	memcpy(table + 8, words, count * sizeof(*words));
}

static void the_table_of_later_versions_is_checked(void **state)
{
	static const uint64_t good[] = {
		0x30d05f0, 0,	 283376, 608,  632, 194976, 7272, 7264, 7344,
		7400,	   7656, 7640,	 7648, 16,  7752,   0,	  7768, 7760,
		304,	   0,	 8,	 16,   72,  152,    160,  232,
	};
	uint64_t bad[FLMEM_ARRAY_SIZE(good)];
	unsigned char table[FLMEM_CPYTHON_TABLE_MAX];
	struct flmem_cpython_layout layout;
	const char *why = NULL;

	(void)state;
	put_words(table, good, FLMEM_ARRAY_SIZE(good));
	assert_true(flmem_cpython_layout_parse(table, sizeof(table), &layout, &why));
	assert_int_equal(layout.threads_head, 7344);
	assert_int_equal(layout.interpreters_main, 640);
	assert_int_equal(layout.thread_native_id, 160);
	assert_false(flmem_cpython_layout_parse(table, 100, &layout, &why));
	/* Each offset in turn is beyond its structure. */
	for (size_t i = 3; i < FLMEM_ARRAY_SIZE(good); i++) {
		memcpy(bad, good, sizeof(bad));
		bad[i] = UINT64_MAX - 3;
		put_words(table, bad, FLMEM_ARRAY_SIZE(bad));
		if (flmem_cpython_layout_parse(table, sizeof(table), &layout, &why))
			assert_true(layout.threads_head < 194976 && layout.finalizing < 283376);
	}
	memcpy(bad, good, sizeof(bad));
	bad[0] = 0x31000f0;
	put_words(table, bad, FLMEM_ARRAY_SIZE(bad));
	assert_false(flmem_cpython_layout_parse(table, sizeof(table), &layout, &why));
	assert_non_null(strstr(why, "does not know"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_threads_of_an_idle_interpreter_are_told, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(the_lock_is_seen_to_change_hands, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(an_interpreter_that_ends_is_recognised, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(interpreters_beside_the_main_one_are_told_apart,
						set_up, tear_down),
		cmocka_unit_test(the_table_of_later_versions_is_checked),
	};

	return cmocka_run_group_tests_name("cpython_state", tests, NULL, NULL);
}
