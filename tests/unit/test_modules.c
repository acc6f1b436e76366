/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/files/io.h"
#include "base/text/text.h"
#include "child_require.h"
#include "elf/modules.h"
#include "elf/modules_private.h"

/* All data about one process; teardown releases it, also after a failed check. */
static struct scene {
	struct flmem_process process;
	struct flmem_maps maps;
	struct flmem_image_cache *cache;
	struct flmem_modules modules;
	pid_t child;
	int pipe[2];
	char directory[32], copy[48];
} scene;

static int set_up(void **state)
{
	(void)state;
	scene = (struct scene){.process = FLMEM_PROCESS_INIT, .pipe = {-1, -1}};
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	if (scene.child > 0) {
		kill(scene.child, SIGKILL);
		waitpid(scene.child, NULL, 0);
	}
	flmem_cleanup_close(&scene.pipe[0]);
	flmem_cleanup_close(&scene.pipe[1]);
	if (*scene.copy)
		unlink(scene.copy);
	if (*scene.directory)
		rmdir(scene.directory);
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

/* Reports a file of type ET_EXEC, whose addresses are absolute. */
static bool is_fixed(struct flmem_image *image)
{
	ElfW(Ehdr) header;

	assert_true(flmem_image_read(image, 0, &header, sizeof(header)));
	return header.e_type == ET_EXEC;
}

static bool has_symtab(struct flmem_image *image)
{
	uint64_t address, size;

	return flmem_image_find_section(image, ".symtab", &address, &size);
}

#ifdef SYS_pause
#define PAUSE_CALL SYS_pause
#else
#define PAUSE_CALL SYS_ppoll /* the system call behind pause() on newer architectures */
#endif

static void await_pause(void)
{
	char path[64], wanted[16], line[256];

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)scene.child);
	snprintf(wanted, sizeof(wanted), "%d ", (int)PAUSE_CALL);
	for (int i = 0; i < 10000; i++) {
		FLMEM_AUTO_FILE FILE *file = fopen(path, "re");

		if (file && fgets(line, sizeof(line), file) && flmem_text_starts(line, wanted))
			return;
		usleep(1000);
	}
	fail_msg("the child never came to rest");
}

static void start_child(const char *program)
{
	scene.child = fork();
	assert_true(scene.child >= 0);
	if (scene.child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(program, program, "wait", (char *)NULL);
		_exit(127);
	}
	await_pause();
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

/* Reports whether a part of its file is mapped, but inaccessible. */
static bool has_hole(const struct flmem_module *module)
{
	for (size_t i = 0; i < scene.maps.count; i++)
		if (scene.maps.rows[i].inode == module->inode &&
		    !(scene.maps.rows[i].flags &
		      (FLMEM_MAP_READ | FLMEM_MAP_WRITE | FLMEM_MAP_EXEC)))
			return true;
	return false;
}

static void data_behind_a_hole_belongs_to_the_library(void **state)
{
	void *library = dlopen(VICTIMS "/elf/holes.so", RTLD_NOW | RTLD_LOCAL);
	const struct flmem_module *module;
	uintptr_t data;

	(void)state;
	assert_non_null(library);
	data = (uintptr_t)dlsym(library, "sample_data");
	open_scene(getpid());
	module = flmem_modules_find(&scene.modules, (uintptr_t)dlsym(library, "sample_function"));
	assert_non_null(module);
	assert_true(has_hole(module));
	assert_ptr_equal(flmem_modules_find(&scene.modules, data), module);
	assert_in_range(data, module->start, module->end - 1);
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
		assert_int_equal(bias == 0, is_fixed(flmem_module_image(program, NULL)));
		/* Only a dynamic program gets malloc from another module. */
		target = flmem_modules_lookup(&scene.modules, "malloc", NULL);
		assert_int_equal(target != NULL, rows[i].dynamic);
		assert_ptr_equal(flmem_module_got_target(program, "malloc"), target);
		tear_down(state);
	}
}

static void write_copy(const char *from)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;

	assert_int_equal(flmem_io_read_file_at(AT_FDCWD, from, 1 << 24, &buf), 0);
	assert_int_equal(flmem_io_write_file(scene.copy, buf.data, buf.length, 0755, true, NULL),
			 0);
}

/* Copies a program into its own directory, which teardown removes. */
static void copy_program(const char *from)
{
	snprintf(scene.directory, sizeof(scene.directory), "/tmp/flmem-modules-XXXXXX");
	assert_non_null(mkdtemp(scene.directory));
	assert_int_equal(chmod(scene.directory, 0755), 0);
	snprintf(scene.copy, sizeof(scene.copy), "%s/program", scene.directory);
	write_copy(from);
}

/* In Debian's python3 the slots of other modules lead to the program's PLT entry for malloc. */
static void slots_are_followed_through_plt_entries(void **state)
{
	const struct flmem_module *program, *library, *target;

	(void)state;
	start_child(VICTIMS "/elf/plt-address");
	open_scene(scene.child);
	program = flmem_modules_main(&scene.modules);
	library = flmem_modules_lookup(&scene.modules, "sample_allocator", NULL);
	target = flmem_modules_lookup(&scene.modules, "malloc", NULL);
	assert_non_null(library);
	assert_non_null(target);
	assert_ptr_not_equal(library, program);
	assert_ptr_equal(flmem_module_got_target(library, "malloc"), target);
	assert_ptr_equal(flmem_module_got_target(program, "malloc"), target);
}

static void replaced_programs_are_still_read(void **state)
{
	const struct flmem_module *program;
	const char *why = NULL;
	struct flmem_symbol symbol;

	(void)state;
	copy_program(VICTIMS "/elf/static");
	start_child(scene.copy);
	assert_int_equal(unlink(scene.copy), 0);
	write_copy(VICTIMS "/elf/no-exports");
	open_scene(scene.child);
	program = flmem_modules_main(&scene.modules);
	assert_non_null(program);
	assert_true(program->deleted);
	assert_string_equal(program->path, scene.copy);
	if (!flmem_module_image(program, &why))
		fail_msg("not read: %s", why);
	assert_true(is_fixed(flmem_module_image(program, NULL)));
	assert_true(flmem_image_find_any(flmem_module_image(program, NULL), "malloc", &symbol));
}

/* Reads itself as a user who may not open the files of mappings; never returns. */
static void check_removed_library(void)
{
	void *library = dlopen(scene.copy, RTLD_NOW | RTLD_LOCAL);
	const struct flmem_module *module;
	uint64_t address = 0;

	REQUIRE(library);
	REQUIRE(setgid(65534) == 0 && setuid(65534) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
	REQUIRE(write(scene.pipe[1], "x", 1) == 1);
	while (access(scene.copy, F_OK) == 0)
		usleep(1000);
	open_scene(getpid());
	module = flmem_modules_find(&scene.modules, (uintptr_t)dlsym(library, "sample_function"));
	REQUIRE(module && module->deleted && flmem_module_image(module, NULL));
	/* Only the file has a .symtab. */
	REQUIRE(!has_symtab(flmem_module_image(module, NULL)));
	REQUIRE(flmem_module_symbol(module, "sample_data", &address));
	REQUIRE(address == (uintptr_t)dlsym(library, "sample_data"));
	REQUIRE(flmem_module_got_target(module, "malloc") ==
		flmem_modules_lookup(&scene.modules, "malloc", NULL));
	_exit(0);
}

static void removed_libraries_are_read_from_memory_without_privileges(void **state)
{
	int status = 0;
	pid_t pid;
	char byte;

	(void)state;
	if (geteuid() != 0) {
		print_message("SKIP: only root can become another user\n");
		skip();
	}
	copy_program(VICTIMS "/elf/gnu-hash.so");
	assert_int_equal(pipe(scene.pipe), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		check_removed_library();
	close(scene.pipe[1]);
	scene.pipe[1] = -1;
	/*
	 * The child gets a byte once the library is loaded, or the end of file when a check failed
	 * before.
	 */
	(void)!read(scene.pipe[0], &byte, 1);
	unlink(scene.copy);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

static void memory_and_file_give_the_same_answers(void **state)
{
	static const char *const names[] = {"sample_function", "sample_data", "no_such_symbol"};
	void *library = dlopen(VICTIMS "/elf/gnu-hash.so", RTLD_NOW | RTLD_LOCAL);
	const struct flmem_module *module;
	FLMEM_AUTO_IMAGE struct flmem_image *memory = NULL;
	struct flmem_image *file;
	uint64_t slot[2];

	(void)state;
	assert_non_null(library);
	open_scene(getpid());
	module = flmem_modules_find(&scene.modules, (uintptr_t)dlsym(library, "sample_function"));
	assert_non_null(module);
	assert_int_equal(flmem_module_open_memory(module, &memory), 0);
	file = flmem_module_image(module, NULL);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++) {
		struct flmem_symbol from_file = {0}, from_memory = {0};

		assert_int_equal(flmem_image_find_dynamic(memory, names[i], &from_memory),
				 flmem_image_find_dynamic(file, names[i], &from_file));
		assert_memory_equal(&from_memory, &from_file, sizeof(from_file));
	}
	assert_true(flmem_image_find_got_slot(memory, "malloc", &slot[0]));
	assert_true(flmem_image_find_got_slot(file, "malloc", &slot[1]));
	assert_int_equal(slot[0], slot[1]);
	assert_false(has_symtab(memory));
	assert_true(flmem_image_find_bytes(memory, "flmem sample marker", 19, 0) > 0);
	flmem_image_free(FLMEM_TAKE(memory));
	dlclose(library);
}

/* --- changes that a hostile process can make to its link map --- */

static struct link_map *own_link_map(void)
{
	return _r_debug.r_map;
}

static void make_cycle(void)
{
	own_link_map()->l_next->l_next = own_link_map();
}

static void make_self_cycle(void)
{
	own_link_map()->l_next = own_link_map();
}

static void point_nowhere(void)
{
	own_link_map()->l_next = (struct link_map *)(uintptr_t)0xdead0000;
}

static void begin_nowhere(void)
{
	_r_debug.r_map = (struct link_map *)(uintptr_t)-8;
}

/* Makes the list endless, of objects that are nowhere. */
static void make_endless(void)
{
	static struct link_map chain[2];

	chain[0] = (struct link_map){.l_next = &chain[1]};
	chain[1] = (struct link_map){.l_next = &chain[0]};
	own_link_map()->l_next = &chain[0];
}

static void false_link_maps_are_survived(void **state)
{
	static void (*const tricks[])(void) = {make_cycle, make_self_cycle, point_nowhere,
					       begin_nowhere, make_endless};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(tricks); i++) {
		const struct flmem_module *program;
		char byte;

		assert_int_equal(pipe(scene.pipe), 0);
		scene.child = fork();
		assert_true(scene.child >= 0);
		if (scene.child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			tricks[i]();
			(void)!write(scene.pipe[1], "x", 1);
			for (;;)
				pause();
		}
		assert_int_equal(read(scene.pipe[0], &byte, 1), 1);
		open_scene(scene.child);
		program = flmem_modules_main(&scene.modules);
		assert_non_null(program);
		assert_string_equal(flmem_text_basename(program->path), "test_modules");
		(void)flmem_modules_lookup(&scene.modules, "malloc", NULL);
		tear_down(state);
	}
}

/* --- other roots --- */

static void programs_below_another_root_are_read(void **state)
{
	const struct flmem_module *program;

	(void)state;
	if (geteuid() != 0) {
		print_message("SKIP: only root can change its root\n");
		skip();
	}
	copy_program(VICTIMS "/elf/static");
	scene.child = fork();
	assert_true(scene.child >= 0);
	if (scene.child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWNS) || chroot(scene.directory) || chdir("/"))
			_exit(126);
		execl("/program", "/program", "wait", (char *)NULL);
		_exit(127);
	}
	await_pause();
	open_scene(scene.child);
	program = flmem_modules_main(&scene.modules);
	assert_non_null(program);
	assert_string_equal(program->path, "/program");
	assert_non_null(flmem_module_image(program, NULL));
	assert_true(has_symtab(flmem_module_image(program, NULL)));
}

/* --- the cache --- */

#define MANY 250

static size_t open_descriptors(void)
{
	FLMEM_AUTO_DIR DIR *directory = opendir("/proc/self/fd");
	size_t count = 0;

	assert_non_null(directory);
	while (readdir(directory))
		count++;
	return count;
}

static void more_files_than_the_cache_holds_are_read(void **state)
{
	static void *libraries[MANY];
	char path[MANY][64];
	size_t before;

	(void)state;
	copy_program(VICTIMS "/elf/stripped.so");
	for (size_t i = 0; i < MANY; i++) {
		FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;

		snprintf(path[i], sizeof(path[i]), "%s/%zu.so", scene.directory, i);
		assert_int_equal(flmem_io_read_file_at(AT_FDCWD, scene.copy, 1 << 24, &buf), 0);
		assert_int_equal(
			flmem_io_write_file(path[i], buf.data, buf.length, 0755, true, NULL), 0);
		libraries[i] = dlopen(path[i], RTLD_NOW | RTLD_LOCAL);
		assert_non_null(libraries[i]);
	}
	before = open_descriptors();
	open_scene(getpid());
	for (size_t i = 0; i < 2 * (size_t)MANY; i++) {
		uintptr_t expected = (uintptr_t)dlsym(libraries[i % MANY], "sample_function");
		const struct flmem_module *module = flmem_modules_find(&scene.modules, expected);
		uint64_t address = 0;

		assert_non_null(module);
		assert_true(flmem_module_symbol(module, "sample_function", &address));
		assert_int_equal(address, expected);
	}
	assert_true(open_descriptors() < before + 200);
	for (size_t i = 0; i < MANY; i++) {
		dlclose(libraries[i]);
		unlink(path[i]);
	}
}

#define CHECK(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		CHECK(own_symbols_are_where_dlsym_finds_them),
		CHECK(own_program_comes_first),
		CHECK(libraries_opened_locally_come_after_libc),
		CHECK(data_behind_a_hole_belongs_to_the_library),
		CHECK(programs_of_every_kind_are_read),
		CHECK(slots_are_followed_through_plt_entries),
		CHECK(replaced_programs_are_still_read),
		CHECK(removed_libraries_are_read_from_memory_without_privileges),
		CHECK(memory_and_file_give_the_same_answers),
		CHECK(false_link_maps_are_survived),
		CHECK(programs_below_another_root_are_read),
		CHECK(more_files_than_the_cache_holds_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
