/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests inputs that are read from mapped pages, of real files that become shorter meanwhile, and a
 * SIGBUS of another cause.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <flmem/aggregate.h>

#include "base/cleanup.h"
#include "ops/aggregate/input_direct.h"
#include "ops/aggregate/input_mapped.h"

#include "tree.h"

#define KIB	    ((uint64_t)1 << 10)
#define MIB	    ((uint64_t)1 << 20)
#define FILE_BYTES  (9 * MIB + 500 * KIB + 1234)
#define DATA_OFFSET 1240U
#define DATA_BYTES  (FILE_BYTES - DATA_OFFSET)
#define CHUNK	    (4 * MIB)
#define BLOCK	    (512 * KIB)

struct world {
	struct tree tree;
	char *bytes;
	struct flmem_input input;
	struct flmem_layout layout;
	struct flmem_mapped_windows windows;
};

static struct sigaction handler;

/* cmocka has its own handler in each test. */
static void install_handler(void)
{
	sigaction(SIGBUS, &handler, NULL);
}

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	struct flmem_input_file *file;

	*state = world;
	tree_init(&world->tree);
	world->bytes = malloc(FILE_BYTES);
	world->input.files = file = calloc(1, sizeof(*file));
	world->input.file_count = 1;
	world->input.data_offset = DATA_OFFSET;
	for (size_t i = 0; i < FILE_BYTES; i++)
		world->bytes[i] = (char)(i * 2654435761U >> 13);
	assert_true(asprintf(&file->path, "%s/a", world->tree.path) > 0);
	file->in_memory = true;
	file->fd = open(file->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(file->fd >= 0);
	assert_int_equal(pwrite(file->fd, world->bytes, FILE_BYTES, 0), FILE_BYTES);
	assert_int_equal(fsync(file->fd), 0);
	assert_int_equal(fstat(file->fd, &file->status), 0);
	flmem_direct_open(&world->input);
	assert_true(flmem_mapped_windows_init(&world->windows, 2, 1, BLOCK));
	flmem_mapped_attach(&world->windows);
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	flmem_mapped_attach(NULL);
	flmem_mapped_windows_clear(&world->windows);
	flmem_inputs_clear(&world->input, 1);
	tree_clear(&world->tree);
	free(world->bytes);
	free(world);
	return 0;
}

static char *find(struct world *world, uint64_t begin, uint64_t end, uint64_t limit)
{
	struct flmem_mapped_window *window = world->windows.windows;

	window->input = &world->input;
	window->limit = limit;
	return flmem_mapped_find(window, &world->layout, begin, end);
}

/* /tmp may be on a file system that is not mapped: an overlay. */
static void need_mapped(struct world *world)
{
	install_handler();
	if (find(world, 0, BLOCK, CHUNK))
		return;
	print_message("SKIP: files in /tmp are not mapped\n");
	skip();
}

static void bytes_of_the_file(void **state)
{
	struct world *world = *state;
	const struct flmem_mapped_window *window = world->windows.windows;
	const char *pages, *found;

	need_mapped(world);
	pages = window->pages;
	for (uint64_t at = 0; at < DATA_BYTES; at += BLOCK) {
		uint64_t limit = (at / CHUNK + 1) * CHUNK;
		uint64_t end = DATA_BYTES - at < BLOCK ? DATA_BYTES : at + BLOCK;

		found = find(world, at, end, limit < DATA_BYTES ? limit : DATA_BYTES);
		assert_non_null(found);
		assert_memory_equal(found, world->bytes + DATA_OFFSET + at, end - at);
		if (at < CHUNK)
			assert_ptr_equal(window->pages, pages); /* one window for a chunk */
	}
	assert_false(world->windows.failed);
}

static void elements_are_aligned(void **state)
{
	struct world *world = *state;

	need_mapped(world);
	world->input.data_offset = DATA_OFFSET - 3;
	assert_null(find(world, 0, BLOCK, CHUNK));
}

/* A page of a tmpfs that nobody has written is allocated when it is read from a mapping. */
static void holes_in_memory_are_not_filled(void **state)
{
	struct world *world = *state;
	struct flmem_input_file *file = world->input.files;

	need_mapped(world);
	assert_int_equal(ftruncate(file->fd, 0), 0);
	assert_int_equal(ftruncate(file->fd, FILE_BYTES), 0);
	assert_int_equal(fstat(file->fd, &file->status), 0);
	world->windows.windows->file = NULL;
	assert_null(find(world, 0, BLOCK, CHUNK));
}

static void windows_are_bounded(void **state)
{
	struct world *world = *state;
	struct flmem_mapped_windows many;

	need_mapped(world);
	world->windows.windows->room = 2 * BLOCK;
	assert_non_null(find(world, CHUNK, CHUNK + BLOCK, 2 * CHUNK));
	assert_in_range(world->windows.windows->length, 2 * BLOCK, 2 * BLOCK + 4096);
	/* 64 MiB for all windows together. */
	assert_true(flmem_mapped_windows_init(&many, 8, 64, BLOCK));
	assert_null(many.windows);
	assert_true(flmem_mapped_windows_init(&many, 8, 16, BLOCK));
	assert_int_equal(many.windows[15].room, BLOCK);
	flmem_mapped_windows_clear(&many);
}

static void a_truncated_file_reads_as_zeros_once(void **state)
{
	struct world *world = *state;
	struct flmem_error err;
	char out[64];
	char *found;

	need_mapped(world);
	found = find(world, 0, BLOCK, CHUNK);
	assert_int_equal(ftruncate(world->input.files->fd, 0), 0);
	assert_int_equal(found[BLOCK - 1], 0);
	assert_true(world->windows.failed);
	/* A repeated read reports the reason again. */
	assert_int_equal(flmem_input_read(&world->input, &world->layout, 0, sizeof(out), out, &err),
			 FLMEM_EFAILED);
	assert_non_null(strstr(err.message, "was truncated while it was read"));
}

/* Runs it in a child; returns its wait status. */
static int status_of(void (*run)(struct world *), struct world *world)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		run(world);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void read_another_mapping(struct world *world)
{
	int fd = world->input.files->fd;
	char *pages = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	volatile char byte;

	if (pages == MAP_FAILED || ftruncate(fd, 0) != 0)
		_exit(1);
	byte = *pages;
	(void)byte;
}

static void send_to_itself(struct world *world)
{
	(void)world;
	kill(getpid(), SIGBUS);
	for (;;)
		pause();
}

static void other_causes_keep_their_effect(void **state)
{
	void (*const runs[])(struct world *) = {read_another_mapping, send_to_itself};

	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		int status;

		install_handler();
		status = status_of(runs[i], *state);

		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGBUS);
	}
}

static volatile sig_atomic_t taken;

static void take_signal(int number)
{
	(void)number;
	taken++;
}

/* Sends the signal any number of times; after that, pages still fail safely. */
static void send_then_truncate(int expected)
{
	struct world *world;
	char *found;

	alarm(20);
	flmem_aggregate_map_inputs();
	kill(getpid(), SIGBUS);
	kill(getpid(), SIGBUS);
	if (taken != expected || setup((void **)&world))
		_exit(2);
	found = find(world, 0, BLOCK, CHUNK);
	if (found && (ftruncate(world->input.files->fd, 0) || found[0] || !world->windows.failed))
		_exit(3);
	teardown((void **)&world);
}

static void send_to_a_handler(struct world *world)
{
	(void)world;
	signal(SIGBUS, take_signal);
	send_then_truncate(2);
}

static void send_ignored(struct world *world)
{
	(void)world;
	signal(SIGBUS, SIG_IGN);
	send_then_truncate(0);
}

/* The first call of a process counts. */
static void who_takes_it_already_still_does(void **state)
{
	(void)state;
	assert_int_equal(status_of(send_to_a_handler, NULL), 0);
	assert_int_equal(status_of(send_ignored, NULL), 0);
}

static void nothing_is_mapped_unasked(void **state)
{
	struct flmem_mapped_windows windows;

	(void)state;
	assert_true(flmem_mapped_windows_init(&windows, 1, 1, BLOCK));
	assert_null(windows.windows);
	/* A sanitizer's handler would be the earlier one. */
	signal(SIGBUS, SIG_DFL);
	flmem_aggregate_map_inputs();
	flmem_aggregate_map_inputs();
	sigaction(SIGBUS, NULL, &handler);
	assert_true(flmem_mapped_windows_init(&windows, 1, 1, BLOCK));
	assert_non_null(windows.windows);
	flmem_mapped_windows_clear(&windows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_takes_it_already_still_does),
		cmocka_unit_test(nothing_is_mapped_unasked), /* it cannot be undone */
		cmocka_unit_test_setup_teardown(bytes_of_the_file, setup, teardown),
		cmocka_unit_test_setup_teardown(elements_are_aligned, setup, teardown),
		cmocka_unit_test_setup_teardown(holes_in_memory_are_not_filled, setup, teardown),
		cmocka_unit_test_setup_teardown(windows_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(a_truncated_file_reads_as_zeros_once, setup,
						teardown),
		cmocka_unit_test_setup_teardown(other_causes_keep_their_effect, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
