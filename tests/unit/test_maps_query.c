/* SPDX-License-Identifier: Apache-2.0 */
/* Tests mappings read one by one against the text of /proc/PID/maps, of a child that only waits. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "proc/maps.h"
#include "proc/maps_query.h"
#include "proc/process.h"

struct scene {
	char folder[64], first[96], second[96];
	unsigned char *area;
	size_t page;
	pid_t child;
};

static void write_file(const char *path, size_t length)
{
	FLMEM_AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)length), 0);
}

/* Maps one page of a file into page `index` of the area. */
static void map_page(const struct scene *scene, unsigned index, const char *path, unsigned offset,
		     int access, int kind)
{
	FLMEM_AUTO_CLOSE int fd = open(path, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_true(mmap(scene->area + index * scene->page, scene->page, access, kind | MAP_FIXED,
			 fd, (off_t)(offset * scene->page)) != MAP_FAILED);
}

static pid_t start_child(void)
{
	const pid_t child = fork();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

static int set_up(void **state)
{
	static struct scene scene;

	scene.page = (size_t)sysconf(_SC_PAGESIZE);
	snprintf(scene.folder, sizeof(scene.folder), "/tmp/flmem-maps-XXXXXX");
	if (!mkdtemp(scene.folder))
		return -1;
	snprintf(scene.first, sizeof(scene.first), "%s/first", scene.folder);
	snprintf(scene.second, sizeof(scene.second), "%s/second", scene.folder);
	write_file(scene.first, 8 * scene.page);
	if (link(scene.first, scene.second))
		return -1;
	scene.area = mmap(NULL, 16 * scene.page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*state = &scene;
	return scene.area == MAP_FAILED ? -1 : 0;
}

static int tear_down(void **state)
{
	const struct scene *scene = *state;

	munmap(scene->area, 16 * scene->page);
	unlink(scene->first);
	unlink(scene->second);
	return rmdir(scene->folder);
}

static int query_child(struct scene *scene, struct flmem_maps *ret_maps,
		       struct flmem_process *ret_process)
{
	char path[64];
	int fd, rc;

	scene->child = start_child();
	assert_true(scene->child > 0);
	assert_int_equal(flmem_process_open(scene->child, ret_process, NULL), 0);
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)scene->child);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	rc = flmem_maps_query(fd, ret_maps);
	close(fd);
	return rc;
}

static void end_child(const struct scene *scene)
{
	kill(scene->child, SIGKILL);
	waitpid(scene->child, NULL, 0);
}

static void read_text(const struct flmem_process *process, struct flmem_maps *ret_maps)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;

	assert_int_equal(flmem_process_read(process, "maps", &buf), 0);
	assert_int_equal(flmem_maps_parse(flmem_buf_take(&buf), ret_maps, NULL), 0);
	if (strcmp(ret_maps->rows[ret_maps->count - 1].name, "[vsyscall]") == 0)
		ret_maps->count--;
}

/*
 * Segments of one file, the same file by another name right behind them, again from its start, an
 * older part behind a later one, a part behind a gap, shared memory, anonymous memory, a file that
 * is removed, and another file behind it.
 */
static void map_all_kinds(const struct scene *scene)
{
	char gone[128];

	snprintf(gone, sizeof(gone), "%s/gone", scene->folder);
	write_file(gone, 4 * scene->page);
	map_page(scene, 0, scene->first, 0, PROT_READ, MAP_PRIVATE);
	map_page(scene, 1, scene->first, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE);
	map_page(scene, 2, scene->first, 2, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	map_page(scene, 3, scene->second, 0, PROT_READ, MAP_PRIVATE);
	map_page(scene, 4, scene->second, 2, PROT_READ, MAP_PRIVATE);
	map_page(scene, 5, scene->first, 1, PROT_READ, MAP_SHARED);
	map_page(scene, 7, scene->second, 3, PROT_READ, MAP_PRIVATE);
	map_page(scene, 8, gone, 0, PROT_READ, MAP_PRIVATE);
	map_page(scene, 9, gone, 1, PROT_READ | PROT_WRITE, MAP_SHARED);
	map_page(scene, 10, scene->first, 2, PROT_READ, MAP_PRIVATE);
	map_page(scene, 12, scene->first, 2, PROT_READ, MAP_SHARED);
	map_page(scene, 13, scene->second, 3, PROT_READ, MAP_SHARED);
	assert_int_equal(munmap(scene->area + 6 * scene->page, scene->page), 0);
	assert_true(mmap(scene->area + 11 * scene->page, scene->page, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	assert_int_equal(unlink(gone), 0);
}

static void mappings_are_those_of_the_text(void **state)
{
	struct scene *scene = *state;
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_MAPS struct flmem_maps queried = {0}, text = {0};
	int rc;

	map_all_kinds(scene);
	rc = query_child(scene, &queried, &process);
	read_text(&process, &text);
	end_child(scene);
	if (rc == -ENOTTY)
		skip();
	assert_int_equal(rc, 0);
	assert_int_equal(queried.count, text.count);
	assert_true(flmem_map_is_deleted(
		flmem_maps_find(&queried, (uintptr_t)scene->area + 8 * scene->page)));
	for (size_t i = 0; i < text.count; i++) {
		const struct flmem_map *got = &queried.rows[i], *right = &text.rows[i];

		assert_string_equal(got->name, right->name);
		assert_int_equal(got->start, right->start);
		assert_int_equal(got->end, right->end);
		assert_int_equal(got->offset, right->offset);
		assert_int_equal(got->inode, right->inode);
		assert_int_equal(got->device, right->device);
		assert_int_equal(got->flags, right->flags);
	}
}

/* The text shows a newline as \\012, so that a file cannot forge a line. */
static void a_path_with_a_newline_is_left_to_the_text(void **state)
{
	struct scene *scene = *state;
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_MAPS struct flmem_maps queried = {0}, whole = {0};
	char path[128];
	int rc;

	snprintf(path, sizeof(path), "%s/a\nb", scene->folder);
	write_file(path, scene->page);
	map_page(scene, 0, path, 0, PROT_READ, MAP_PRIVATE);
	unlink(path);
	rc = query_child(scene, &queried, &process);
	assert_int_equal(flmem_maps_read(&process, &whole, NULL), 0);
	end_child(scene);
	if (rc == -ENOTTY)
		skip();
	assert_int_equal(rc, -EILSEQ);
	assert_non_null(strstr(flmem_maps_find(&whole, (uintptr_t)scene->area)->name, "a\\012b"));
}

/* A file of a captured process does not belong to the kernel. */
static void another_file_is_refused(void **state)
{
	const struct scene *scene = *state;
	FLMEM_AUTO_CLOSE int fd = open(scene->first, O_RDONLY | O_CLOEXEC);
	struct flmem_maps maps;

	assert_int_equal(flmem_maps_query(fd, &maps), -ENOTTY);
}

/* A mapping that the test shows in place of the kernel, from a certain address on. */
struct shown_map {
	uint64_t asked_from, start, end, flags, offset, inode;
	uint32_t major_number, minor_number;
	const char *name;
};

/* The structure of PROCMAP_QUERY (linux/fs.h of 6.11). */
struct shown_query {
	uint64_t size, flags, address;
	uint64_t start, end, vma_flags, page_bytes, offset, inode;
	uint32_t major_number, minor_number, name_size, build_id_size;
	uint64_t name, build_id;
};

static const struct shown_map *shown;
static size_t shown_count;

int __real_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
	struct shown_query *query = argument;
	const struct shown_map *map = NULL;

	if (!shown)
		return __real_ioctl(fd, request, argument);
	for (size_t i = 0; i < shown_count; i++)
		if (shown[i].asked_from <= query->address)
			map = &shown[i];
	if (!map || query->address >= 0x10000) {
		errno = ENOENT;
		return -1;
	}
	query->start = map->start;
	query->end = map->end;
	query->vma_flags = map->flags;
	query->offset = map->offset;
	query->inode = map->inode;
	query->major_number = map->major_number;
	query->minor_number = map->minor_number;
	if (query->name_size) {
		query->name_size = map->name ? (uint32_t)strlen(map->name) + 1 : 0;
		if (map->name)
			memcpy((void *)(uintptr_t)query->name, map->name, query->name_size);
	}
	return 0;
}

static int query_shown(const struct shown_map *maps, size_t count, struct flmem_maps *ret_maps)
{
	int rc;

	shown = maps;
	shown_count = count;
	rc = flmem_maps_query(-1, ret_maps);
	shown = NULL;
	return rc;
}

/* A mapping that is seen again, because it has grown downwards, is in the list once. */
static void mappings_ascend(void **state)
{
	static const struct shown_map maps[] = {
		{0, 0x1000, 0x2000, 3, 0, 0, 0, 0, NULL},
		{0x2000, 0x1000, 0x3000, 3, 0, 0, 0, 0, NULL},
		{0x3000, 0x8000, 0x10000, 0xff03, 0, 0, 0, 0, "[stack]"},
	};
	FLMEM_AUTO_MAPS struct flmem_maps queried = {0};

	(void)state;
	assert_int_equal(query_shown(maps, FLMEM_ARRAY_SIZE(maps), &queried), 0);
	assert_int_equal(queried.count, 2);
	assert_int_equal(queried.rows[0].end, 0x2000);
	assert_int_equal(queried.rows[1].start, 0x8000);
	assert_int_equal(queried.rows[1].flags, 3);
	assert_string_equal(queried.rows[0].name, "");
	assert_string_equal(queried.rows[1].name, "[stack]");
}

/* Numbers of inodes are those of one device; memory without a file has none. */
static void only_parts_of_one_file_share_a_path(void **state)
{
	static const struct shown_map maps[] = {
		{0, 0x1000, 0x2000, 1, 0, 7, 8, 1, "/first"},
		{0x2000, 0x2000, 0x3000, 1, 0x1000, 7, 8, 2, "/second"},
		{0x3000, 0x3000, 0x4000, 1, 0x2000, 7, 9, 2, "/third"},
		{0x4000, 0x4000, 0x5000, 1, 0, 0, 0, 0, "[heap]"},
		{0x5000, 0x5000, 0x10000, 1, 0x1000, 0, 0, 0, NULL},
	};
	FLMEM_AUTO_MAPS struct flmem_maps queried = {0};

	(void)state;
	assert_int_equal(query_shown(maps, FLMEM_ARRAY_SIZE(maps), &queried), 0);
	assert_int_equal(queried.count, FLMEM_ARRAY_SIZE(maps));
	for (size_t i = 0; i < queried.count; i++)
		assert_string_equal(queried.rows[i].name, maps[i].name ? maps[i].name : "");
}

/* An answer that does not lead on would be asked for again and again. */
static void an_answer_that_leads_nowhere_ends_the_query(void **state)
{
	static const struct shown_map before[] = {{0, 0x1000, 0x2000, 1, 0, 0, 0, 0, NULL}};
	static const struct shown_map reversed[] = {{0, 0x2000, 0x2000, 1, 0, 0, 0, 0, NULL}};
	struct flmem_maps queried;

	(void)state;
	alarm(5);
	assert_int_equal(query_shown(before, 1, &queried), -EIO);
	assert_int_equal(query_shown(reversed, 1, &queried), -EIO);
	alarm(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(mappings_are_those_of_the_text, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_path_with_a_newline_is_left_to_the_text, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(another_file_is_refused, set_up, tear_down),
		cmocka_unit_test(mappings_ascend),
		cmocka_unit_test(only_parts_of_one_file_share_a_path),
		cmocka_unit_test(an_answer_that_leads_nowhere_ends_the_query),
	};

	return cmocka_run_group_tests_name("maps_query", tests, NULL, NULL);
}
