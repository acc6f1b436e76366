/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "allocators/installed.h"
#include "base/cleanup.h"

/* A tree per test, in which libraries consist of an ELF header only. */
struct tree {
	char path[64];
	int fd;
};

static int set_up(void **state)
{
	struct tree *tree = calloc(1, sizeof(*tree));

	snprintf(tree->path, sizeof(tree->path), "/tmp/flmem-installed-XXXXXX");
	unsetenv("CONDA_PREFIX");
	unsetenv("LD_LIBRARY_PATH");
	*state = tree;
	tree->fd = mkdtemp(tree->path) ? open(tree->path, O_RDONLY | O_DIRECTORY) : -1;
	return tree->fd < 0;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status;
	(void)type;
	(void)walk;
	return remove(path);
}

static int tear_down(void **state)
{
	struct tree *tree = *state;

	close(tree->fd);
	nftw(tree->path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(tree);
	return 0;
}

static void make_directories(const struct tree *tree, const char *path)
{
	char part[256];

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		if (mkdirat(tree->fd, part, 0755) < 0)
			assert_int_equal(errno, EEXIST);
	}
}

static void put_file(const struct tree *tree, const char *path, const void *bytes, size_t length)
{
	FLMEM_AUTO_CLOSE int fd = -1;

	make_directories(tree, path);
	fd = openat(tree->fd, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, length), length);
}

static void put_library(const struct tree *tree, const char *path, unsigned char class,
			uint16_t machine)
{
	Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', class, ELFDATA2LSB, 1},
			     .e_type = ET_DYN,
			     .e_machine = machine};

	put_file(tree, path, &header, sizeof(header));
}

#if defined(__x86_64__)
#define OWN   EM_X86_64
#define OTHER EM_AARCH64
#else
#define OWN   EM_AARCH64
#define OTHER EM_X86_64
#endif

struct found {
	struct flmem_installed_allocator *rows;
	size_t count;
};

static struct found look(const struct tree *tree)
{
	struct found found = {0};
	struct flmem_error err = {0};

	if (flmem_installed_find(tree->fd, &found.rows, &found.count, &err))
		fail_msg("%s", err.message);
	return found;
}

static void the_usual_places_in_order_of_preference(void **state)
{
	struct tree *tree = *state;
	struct found found;

	put_library(tree, "opt/conda/lib/libmimalloc.so.2", ELFCLASS64, OWN);
	put_library(tree, "usr/local/lib/libjemalloc.so", ELFCLASS64, OWN);
	put_library(tree, "usr/lib64/libjemalloc.so.2", ELFCLASS64, OWN);
	found = look(tree);
	assert_int_equal(found.count, 3);
	assert_string_equal(found.rows[0].path, "/usr/lib64/libjemalloc.so.2");
	assert_int_equal(found.rows[0].kind, FLMEM_ALLOCATOR_JEMALLOC);
	assert_string_equal(found.rows[1].path, "/usr/local/lib/libjemalloc.so");
	assert_string_equal(found.rows[2].path, "/opt/conda/lib/libmimalloc.so.2");
	assert_int_equal(found.rows[2].kind, FLMEM_ALLOCATOR_MIMALLOC);
	flmem_installed_free(found.rows, found.count);
}

static void links_to_one_file_count_once(void **state)
{
	struct tree *tree = *state;
	struct found found;

	put_library(tree, "usr/lib/libtcmalloc.so.4.5.10", ELFCLASS64, OWN);
	assert_int_equal(symlinkat("libtcmalloc.so.4.5.10", tree->fd, "usr/lib/libtcmalloc.so.4"),
			 0);
	assert_int_equal(symlinkat("libtcmalloc.so.4", tree->fd, "usr/lib/libtcmalloc.so"), 0);
	assert_int_equal(symlinkat("usr/lib", tree->fd, "lib"), 0);
	found = look(tree);
	assert_int_equal(found.count, 1);
	assert_string_equal(found.rows[0].path, "/usr/lib/libtcmalloc.so.4");
	flmem_installed_free(found.rows, found.count);
}

static void what_could_not_be_loaded_is_left_out(void **state)
{
	static const char script[] = "GROUP ( /usr/lib/libjemalloc.so.2 ) and a long tail of text "
				     "so that it is at least as long as a header";
	struct tree *tree = *state;
	struct found found;

	put_library(tree, "usr/lib/libjemalloc.so.2", ELFCLASS32, EM_386);
	put_library(tree, "usr/lib64/libjemalloc.so.2", ELFCLASS64, OTHER);
	put_file(tree, "usr/local/lib/libjemalloc.so", script, sizeof(script));
	put_file(tree, "usr/local/lib/libjemalloc.so.2", "\177ELF", 4);
	make_directories(tree, "usr/lib/libmimalloc.so/");
	assert_int_equal(mkfifoat(tree->fd, "usr/lib/libtcmalloc.so", 0644), 0);
	found = look(tree);
	assert_int_equal(found.count, 0);
	flmem_installed_free(found.rows, found.count);
}

/*
 * Makes one row of format 1.1: flags, key, value, osversion, hwcap; offsets count from the table.
 */
static size_t build_cache(char *out, const char *path, uint32_t value, uint32_t count)
{
	static const uint32_t flags = 0x303;
	uint32_t length = (uint32_t)strlen(path) + 1;

	memset(out, 0, 48 + 24);
	memcpy(out, "glibc-ld.so.cache1.1", 20);
	memcpy(out + 20, &count, 4);
	memcpy(out + 24, &length, 4);
	memcpy(out + 48, &flags, 4);
	memcpy(out + 56, &value, 4);
	memcpy(out + 72, path, length);
	return 72 + length;
}

static void directories_of_the_linkers_cache(void **state)
{
	struct tree *tree = *state;
	struct found found;
	char cache[256];
	size_t length = build_cache(cache, "/opt/site/lib/libother.so.1", 72, 1);

	put_library(tree, "opt/site/lib/libjemalloc.so.2", ELFCLASS64, OWN);
	put_file(tree, "etc/ld.so.cache", cache, length);
	found = look(tree);
	assert_int_equal(found.count, 1);
	assert_string_equal(found.rows[0].path, "/opt/site/lib/libjemalloc.so.2");
	flmem_installed_free(found.rows, found.count);
}

static void the_cache_of_an_older_glibc(void **state)
{
	struct tree *tree = *state;
	struct found found;
	char cache[512] = "ld.so-1.7.0";
	uint32_t rows = 1; /* 16 + 12, rounded up to 32 */
	size_t length;

	memcpy(cache + 12, &rows, 4);
	length = build_cache(cache + 32, "/opt/site/lib/libother.so.1", 72, 1);
	put_library(tree, "opt/site/lib/libjemalloc.so.2", ELFCLASS64, OWN);
	put_file(tree, "etc/ld.so.cache", cache, 32 + length);
	found = look(tree);
	assert_int_equal(found.count, 1);
	flmem_installed_free(found.rows, found.count);
}

static void a_broken_cache_gives_nothing(void **state)
{
	static const struct {
		uint32_t value, count;
		size_t cut;
	} broken[] = {
		{72, UINT32_MAX, 0}, {UINT32_MAX, 1, 0}, {4096, 1, 0},
		{72, 2, 0},	     {72, 1, 60},	 {72, 1, 20},
	};
	struct tree *tree = *state;

	put_library(tree, "opt/site/lib/libjemalloc.so.2", ELFCLASS64, OWN);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(broken); i++) {
		char cache[256];
		size_t length = build_cache(cache, "/opt/x", broken[i].value, broken[i].count);
		struct found found;

		put_file(tree, "etc/ld.so.cache", cache, broken[i].cut ? broken[i].cut : length);
		found = look(tree);
		assert_int_equal(found.count, 0);
		flmem_installed_free(found.rows, found.count);
	}
}

static void directories_of_the_environment_come_first(void **state)
{
	struct tree *tree = *state;
	struct found found;

	put_library(tree, "usr/lib/libjemalloc.so.2", ELFCLASS64, OWN);
	put_library(tree, "envs/fl/lib/libjemalloc.so.2", ELFCLASS64, OWN);
	put_library(tree, "site/libjemalloc.so.2", ELFCLASS64, OWN);
	setenv("CONDA_PREFIX", "/envs/fl", 1);
	setenv("LD_LIBRARY_PATH", ":relative:/site:/:", 1);
	found = look(tree);
	assert_int_equal(found.count, 3);
	assert_string_equal(found.rows[0].path, "/envs/fl/lib/libjemalloc.so.2");
	assert_string_equal(found.rows[1].path, "/site/libjemalloc.so.2");
	assert_string_equal(found.rows[2].path, "/usr/lib/libjemalloc.so.2");
	flmem_installed_free(found.rows, found.count);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_usual_places_in_order_of_preference, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(links_to_one_file_count_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_could_not_be_loaded_is_left_out, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(directories_of_the_linkers_cache, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(the_cache_of_an_older_glibc, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_broken_cache_gives_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(directories_of_the_environment_come_first, set_up,
						tear_down),
	};

	return cmocka_run_group_tests_name("installed", tests, NULL, NULL);
}
