/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests which file is the one that a process has mapped, where another file has its name or its
 * inode.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files/io.h"
#include "child_require.h"
#include "elf/modules_private.h"
#include "remote/checks/fork_checks.h"
#include "tree.h"

#define BYTES ((size_t)4096)

/* The data about this process, whose images are kept as in a watch. */
struct scene {
	struct flmem_process process;
	struct flmem_maps maps;
	struct flmem_modules modules;
};

static void open_scene_of(pid_t pid, struct scene *scene, struct flmem_image_cache *cache)
{
	struct flmem_error err = {0};

	*scene = (struct scene){.process = FLMEM_PROCESS_INIT};
	if (flmem_process_open(pid, &scene->process, &err) ||
	    flmem_maps_read(&scene->process, &scene->maps, &err) ||
	    flmem_modules_load(&scene->process, &scene->maps, cache, &scene->modules, &err))
		fail_msg("%s", err.message);
}

static void open_scene(struct scene *scene, struct flmem_image_cache *cache)
{
	open_scene_of(getpid(), scene, cache);
}

static void close_scene(struct scene *scene)
{
	flmem_modules_clear(&scene->modules);
	flmem_maps_clear(&scene->maps);
	flmem_process_close(&scene->process);
}

/* Copies as cp does: an existing file of that name keeps its inode. */
static void copy_file(const char *from, const char *to)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	FLMEM_AUTO_FILE FILE *file = fopen(to, "we");

	assert_non_null(file);
	assert_int_equal(flmem_io_read_file_at(AT_FDCWD, from, 1 << 24, &buf), 0);
	assert_int_equal(fwrite(buf.data, 1, buf.length, file), buf.length);
}

static int type_of_mapped(const char *path, struct flmem_image_cache *cache)
{
	FLMEM_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *bytes = mmap(NULL, BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	const struct flmem_module *module;
	struct scene scene;
	ElfW(Ehdr) header;

	assert_ptr_not_equal(bytes, MAP_FAILED);
	open_scene(&scene, cache);
	module = flmem_modules_find(&scene.modules, (uintptr_t)bytes);
	assert_non_null(module);
	assert_true(flmem_image_read(flmem_module_image(module, NULL), 0, &header, sizeof(header)));
	close_scene(&scene);
	munmap(bytes, BYTES);
	return header.e_type;
}

/* The file is overwritten between two runs of a watched program. */
static void a_file_that_was_overwritten_is_read_again(void **state)
{
	FLMEM_AUTO_IMAGE_CACHE struct flmem_image_cache *cache = flmem_image_cache_new();
	const struct tree *tree = *state;
	char path[128];

	snprintf(path, sizeof(path), "%s/program", tree->path);
	assert_non_null(cache);
	copy_file(VICTIMS "/elf/fixed", path);
	assert_int_equal(type_of_mapped(path, cache), ET_EXEC);
	copy_file(VICTIMS "/elf/static-pie", path);
	assert_int_equal(type_of_mapped(path, cache), ET_DYN);
}

/* A function of a library, by its entry in the table of symbols. */
struct function {
	char name[64];
	uint64_t value, entry_at;
};

static bool read_function(struct flmem_image *image, uint64_t names, struct function *function)
{
	ElfW(Sym) symbol;

	if (!flmem_image_read_address(image, function->entry_at, &symbol, sizeof(symbol)) ||
	    ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || !symbol.st_value ||
	    !flmem_image_read_address(image, names + symbol.st_name, function->name,
				      sizeof(function->name)))
		return false;
	function->value = symbol.st_value;
	return memchr(function->name, 0, sizeof(function->name)) != NULL;
}

/* Finds a function whose entry is at this offset of the file or after it, behind the headers. */
static bool find_function(struct flmem_image *image, uint64_t from, struct function *ret_function)
{
	uint64_t table, size, names, unused;

	if (!flmem_image_find_section(image, ".dynsym", &table, &size) ||
	    !flmem_image_find_section(image, ".dynstr", &names, &unused))
		return false;
	for (uint64_t i = 100; i < size / sizeof(ElfW(Sym)); i++) {
		ret_function->entry_at = table + i * sizeof(ElfW(Sym));
		if (ret_function->entry_at >= from && read_function(image, names, ret_function))
			return true;
	}
	return false;
}

/* Reads its own library after it has mounted another file over it; never returns. */
static void check_covered_library(const char *path, const char *other,
				  const struct function *function)
{
	struct flmem_image_cache *cache = flmem_image_cache_new();
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const struct link_map *object = NULL;
	const struct flmem_module *module;
	struct scene scene;
	uint64_t address = 0;

	REQUIRE(cache && library && dlinfo(library, RTLD_DI_LINKMAP, &object) == 0);
	REQUIRE(unshare(CLONE_NEWNS) == 0 && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
	REQUIRE(mount(other, path, NULL, MS_BIND, NULL) == 0);
	open_scene(&scene, cache);
	module = flmem_modules_find(&scene.modules, object->l_addr + function->value);
	REQUIRE(module && !module->deleted);
	REQUIRE(flmem_module_symbol(module, function->name, &address));
	REQUIRE(address == object->l_addr + function->value);
	_exit(0);
}

/* Does so with another file of the same bytes, which is the file to read. */
static void check_covered_by_copy(const char *path, const char *copy)
{
	struct flmem_image_cache *cache = flmem_image_cache_new();
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const struct link_map *object = NULL;
	const struct flmem_module *module;
	const char *why = NULL;
	struct stat status, opened;
	struct scene scene;
	int fd;

	REQUIRE(cache && library && dlinfo(library, RTLD_DI_LINKMAP, &object) == 0);
	REQUIRE(unshare(CLONE_NEWNS) == 0 && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
	REQUIRE(mount(copy, path, NULL, MS_BIND, NULL) == 0 && stat(path, &status) == 0);
	open_scene(&scene, cache);
	module = flmem_modules_find(&scene.modules, object->l_addr);
	REQUIRE(module && !module->deleted && module->inode != status.st_ino);
	fd = flmem_module_open_file(module, &why);
	REQUIRE(fd >= 0 && fstat(fd, &opened) == 0 && opened.st_ino == status.st_ino);
	_exit(0);
}

/* Makes a copy of the library in which one function is elsewhere. */
static void make_other(const char *path, const char *other, uint64_t from,
		       struct function *ret_function)
{
	FLMEM_AUTO_CLOSE int fd = -1;
	FLMEM_AUTO_IMAGE struct flmem_image *image = NULL;
	uint64_t value;

	copy_file(path, other);
	assert_int_equal(flmem_image_open(open(path, O_RDONLY | O_CLOEXEC), &image, NULL), 0);
	assert_true(find_function(image, from, ret_function));
	value = ret_function->value + 16;
	fd = open(other, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, &value, sizeof(value),
				(off_t)(ret_function->entry_at + offsetof(ElfW(Sym), st_value))),
			 sizeof(value));
}

/*
 * Expects that a library is distinguished from a copy that differs in a symbol at this offset or
 * after it.
 */
static void expect_told_apart(const struct tree *tree, const char *library, uint64_t from)
{
	struct function function = {0};
	char path[128], other[128];
	int status = -1;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/library.so", tree->path);
	snprintf(other, sizeof(other), "%s/other.so", tree->path);
	copy_file(library, path);
	make_other(path, other, from, &function);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		check_covered_library(path, other, &function);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

static void skip_without_mounts(void)
{
	if (geteuid() == 0)
		return;
	print_message("SKIP: only root can mount a file\n");
	skip();
}

/* Two files with the same build id, as here, may have the same headers. */
static void a_file_that_differs_behind_its_headers_is_another_one(void **state)
{
	void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
	const struct link_map *object = NULL;

	skip_without_mounts();
	if (library && dlinfo(library, RTLD_DI_LINKMAP, &object) == 0) {
		expect_told_apart(*state, object->l_name, 0);
		dlclose(library);
		return;
	}
	print_message("SKIP: this needs glibc\n");
	skip();
}

/* Libraries without a build id may have many symbols. */
static void without_a_build_id_all_symbols_are_compared(void **state)
{
	skip_without_mounts();
	expect_told_apart(*state, VICTIMS "/elf/many.so", 65536);
}

/* Some file systems report other inodes than maps does, and the mapped file may not be opened. */
static void a_copy_of_a_large_library_without_a_build_id_is_read(void **state)
{
	const struct tree *tree = *state;
	char path[128], copy[128];
	int status = -1;
	pid_t pid;

	skip_without_mounts();
	snprintf(path, sizeof(path), "%s/library.so", tree->path);
	snprintf(copy, sizeof(copy), "%s/copy.so", tree->path);
	copy_file(VICTIMS "/elf/many.so", path);
	copy_file(VICTIMS "/elf/many.so", copy);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		check_covered_by_copy(path, copy);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

/* Finds fork() of a program, which it starts and which then waits. */
static bool finds_fork(const char *program, const char *word, struct flmem_range *ret_fork)
{
	FLMEM_AUTO_IMAGE_CACHE struct flmem_image_cache *cache = flmem_image_cache_new();
	const pid_t pid = vfork();
	struct scene scene;
	bool found;

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(program, program, word, (char *)NULL);
		_exit(127);
	}
	assert_true(pid > 0);
	/* The kernel has ended vfork() before it maps the program. */
	open_scene_of(pid, &scene, cache);
	for (int i = 0; i < 20000 && !flmem_modules_main(&scene.modules); i++) {
		close_scene(&scene);
		usleep(1000);
		open_scene_of(pid, &scene, cache);
	}
	found = flmem_forks_function(
		&(struct flmem_view){&scene.process, &scene.maps, &scene.modules}, ret_fork);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close_scene(&scene);
	return found;
}

static void fork_of_a_static_program_is_found(void **state)
{
	struct flmem_range fork;

	(void)state;
	if (access(VICTIMS "/safe_blocked_static", X_OK) || access(VICTIMS "/elf/static", X_OK)) {
		print_message("SKIP: there are no static programs\n");
		skip();
	}
	assert_true(finds_fork(VICTIMS "/safe_blocked_static", "pause", &fork));
	assert_true(fork.start < fork.end);
	/* The program has no fork(). */
	assert_true(finds_fork(VICTIMS "/elf/static", "wait", &fork));
	assert_true(fork.start == fork.end);
	assert_false(finds_fork(VICTIMS "/elf/static-stripped", "wait", &fork));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_file_that_was_overwritten_is_read_again,
						tree_setup, tree_teardown),
		cmocka_unit_test(fork_of_a_static_program_is_found),
		cmocka_unit_test_setup_teardown(
			a_file_that_differs_behind_its_headers_is_another_one, tree_setup,
			tree_teardown),
		cmocka_unit_test_setup_teardown(without_a_build_id_all_symbols_are_compared,
						tree_setup, tree_teardown),
		cmocka_unit_test_setup_teardown(
			a_copy_of_a_large_library_without_a_build_id_is_read, tree_setup,
			tree_teardown),
	};

	return cmocka_run_group_tests_name("mapped_file", tests, NULL, NULL);
}
