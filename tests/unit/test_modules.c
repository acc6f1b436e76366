/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/text.h"
#include "elf/modules.h"

/* Everything that is known of one process; teardown releases it, also after a failed check. */
static struct scene {
	struct flmem_process process;
	struct flmem_maps maps;
	struct flmem_image_cache *cache;
	struct flmem_modules modules;
	pid_t child;
} scene;

static int set_up(void **state)
{
	(void)state;
	scene = (struct scene){.process = FLMEM_PROCESS_INIT};
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	if (scene.child > 0) {
		kill(scene.child, SIGKILL);
		waitpid(scene.child, NULL, 0);
	}
	flmem_modules_clear(&scene.modules);
	flmem_image_cache_free(scene.cache);
	flmem_maps_clear(&scene.maps);
	flmem_process_close(&scene.process);
	return set_up(state);
}

static void open_scene(pid_t pid)
{
	struct flmem_error err = {0};

	scene.cache = flmem_image_cache_new();
	assert_non_null(scene.cache);
	if (flmem_process_open(pid, &scene.process, &err) ||
	    flmem_maps_read(&scene.process, &scene.maps, &err) ||
	    flmem_modules_load(&scene.process, &scene.maps, scene.cache, &scene.modules, &err))
		fail_msg("%s", err.message);
}

/* Starts a program and waits until it sleeps in pause(), system call 34. */
static void start_child(const char *program)
{
	char path[64], state[256];

	scene.child = fork();
	assert_true(scene.child >= 0);
	if (scene.child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(program, program, "wait", (char *)NULL);
		_exit(127);
	}
	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)scene.child);
	for (int i = 0; i < 10000; i++) {
		FLMEM_AUTO_FILE FILE *file = fopen(path, "re");

		if (file && fgets(state, sizeof(state), file) && flmem_text_starts(state, "34 "))
			return;
		usleep(1000);
	}
	fail_msg("%s never came to rest", program);
}

static void own_symbols_are_where_dlsym_finds_them(void **state)
{
	static const char *const names[] = {"getpid", "_cmocka_run_group_tests", "stdout"};

	(void)state;
	open_scene(getpid());
	assert_true(scene.modules.has_link_map);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++) {
		const struct flmem_module *module;
		uint64_t address = 0;

		module = flmem_modules_lookup(&scene.modules, names[i], &address);
		assert_non_null(module);
		assert_int_equal(address, (uintptr_t)dlsym(RTLD_DEFAULT, names[i]));
		assert_ptr_equal(flmem_modules_find(&scene.modules, address), module);
	}
	assert_null(flmem_modules_lookup(&scene.modules, "no_such_symbol_anywhere", NULL));
}

static void own_program_comes_first(void **state)
{
	const struct flmem_module *program;

	(void)state;
	open_scene(getpid());
	program = flmem_modules_main(&scene.modules);
	assert_non_null(program);
	assert_string_equal(flmem_text_basename(program->path), "test_modules");
	assert_int_equal(program->lookup_rank, 0);
	assert_in_range((uintptr_t)&own_program_comes_first, program->start, program->end);
}

static void libraries_opened_locally_come_after_libc(void **state)
{
	void *library = dlopen(VICTIMS "/elf/gnu-hash.so", RTLD_NOW | RTLD_LOCAL);
	const struct flmem_module *late, *libc;
	uint64_t address;

	(void)state;
	assert_non_null(library);
	open_scene(getpid());
	late = flmem_modules_find(&scene.modules, (uintptr_t)dlsym(library, "sample_function"));
	libc = flmem_modules_lookup(&scene.modules, "gnu_get_libc_version", NULL);
	assert_non_null(late);
	assert_non_null(libc);
	assert_true(late->lookup_rank > libc->lookup_rank);
	assert_true(flmem_module_symbol(late, "sample_data", &address));
	assert_int_equal(address, (uintptr_t)dlsym(library, "sample_data"));
	assert_false(flmem_module_symbol(late, "sample_counted", &address));
	assert_false(flmem_module_symbol(late, "sample_local", &address));
	assert_false(flmem_module_symbol(late, "sample_hidden", &address));
	assert_true(flmem_module_symbol_any(late, "sample_hidden", &address));
	dlclose(library);
}

static void programs_of_every_kind_are_read(void **state)
{
	static const struct {
		const char *program;
		bool dynamic;
	} rows[] = {
		{VICTIMS "/elf/fixed", true},	    {VICTIMS "/elf/no-exports", true},
		{VICTIMS "/elf/static", false},	    {VICTIMS "/elf/static-stripped", false},
		{VICTIMS "/elf/static-pie", false},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		const struct flmem_module *program, *target;
		uint64_t bias;

		start_child(rows[i].program);
		open_scene(scene.child);
		program = flmem_modules_main(&scene.modules);
		assert_non_null(program);
		assert_string_equal(program->path, rows[i].program);
		if (rows[i].dynamic)
			assert_true(scene.modules.has_link_map);
		assert_true(flmem_module_bias(program, &bias));
		assert_int_equal(bias == 0,
				 flmem_image_is_fixed(flmem_module_image(program, NULL)));
		/* Only a dynamic program gets malloc from elsewhere. */
		target = flmem_modules_lookup(&scene.modules, "malloc", NULL);
		assert_int_equal(target != NULL, rows[i].dynamic);
		assert_ptr_equal(flmem_module_got_target(program, "malloc"), target);
		tear_down(state);
	}
}

static void replaced_programs_are_still_read(void **state)
{
	char directory[] = "/tmp/flmem-modules-XXXXXX", path[64], command[1024];
	const struct flmem_module *program;
	const char *why = NULL;
	struct flmem_symbol symbol;

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/program", directory);
	snprintf(command, sizeof(command), "cp %s %s", VICTIMS "/elf/static", path);
	assert_int_equal(system(command), 0);
	start_child(path);
	snprintf(command, sizeof(command), "cp %s %s.new && mv %s.new %s",
		 VICTIMS "/elf/no-exports", path, path, path);
	assert_int_equal(system(command), 0);
	open_scene(scene.child);
	unlink(path);
	rmdir(directory);
	program = flmem_modules_main(&scene.modules);
	assert_non_null(program);
	assert_true(program->deleted);
	assert_string_equal(program->path, path);
	if (!flmem_module_image(program, &why))
		fail_msg("not read: %s", why);
	assert_true(flmem_image_is_fixed(flmem_module_image(program, NULL)));
	assert_true(flmem_image_find_any(flmem_module_image(program, NULL), "malloc", &symbol));
}

#define CHECK(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		CHECK(own_symbols_are_where_dlsym_finds_them),
		CHECK(own_program_comes_first),
		CHECK(libraries_opened_locally_come_after_libc),
		CHECK(programs_of_every_kind_are_read),
		CHECK(replaced_programs_are_still_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
