/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests reads past the page cache, of real files: the same bytes as through it, however the file
 * system answers. The test replaces pread(), to count and falsify.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "base/cleanup.h"
#include "ops/aggregate/input_direct.h"

#include "tree.h"

#define KIB	    ((uint64_t)1 << 10)
#define MIB	    ((uint64_t)1 << 20)
#define FILE_BYTES  (9 * MIB + 500 * KIB + 1234)
#define DATA_OFFSET 1237U /* an odd offset, which no regular file has */
#define DATA_BYTES  (FILE_BYTES - DATA_OFFSET)
#define CHUNK	    (4 * MIB)
#define WINDOW	    (2 * MIB)

struct world {
	struct tree tree;
	char *bytes; /* bytes of both files */
	struct flmem_input input;
	struct flmem_layout layout;
	struct flmem_direct_windows windows;
};

static size_t direct_reads, cached_reads;
static int fail_with; /* errno of the direct reads; 0: none fails */
static size_t answer_at_most;

ssize_t __real_pread(int fd, void *buffer, size_t bytes, off_t offset);
ssize_t __wrap_pread(int fd, void *buffer, size_t bytes, off_t offset);

ssize_t __wrap_pread(int fd, void *buffer, size_t bytes, off_t offset)
{
	if (!(fcntl(fd, F_GETFL) & O_DIRECT)) {
		cached_reads++;
		return __real_pread(fd, buffer, bytes, offset);
	}
	direct_reads++;
	if (fail_with) {
		errno = fail_with;
		return -1;
	}
	if (answer_at_most && bytes > answer_at_most)
		bytes = answer_at_most;
	return __real_pread(fd, buffer, bytes, offset);
}

static void write_file(const struct world *world, struct flmem_input_file *file, const char *name)
{
	assert_true(asprintf(&file->path, "%s/%s", world->tree.path, name) > 0);
	file->fd = open(file->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(file->fd >= 0);
	assert_int_equal(pwrite(file->fd, world->bytes, FILE_BYTES, 0), FILE_BYTES);
	assert_int_equal(fsync(file->fd), 0);
	assert_int_equal(fstat(file->fd, &file->status), 0);
}

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	*state = world;
	tree_init(&world->tree);
	world->bytes = malloc(FILE_BYTES);
	world->input.files = calloc(2, sizeof(*world->input.files));
	world->input.file_count = 2;
	world->input.data_offset = DATA_OFFSET;
	for (size_t i = 0; i < FILE_BYTES; i++)
		world->bytes[i] = (char)(i * 2654435761U >> 13);
	write_file(world, &world->input.files[0], "a");
	write_file(world, &world->input.files[1], "b");
	flmem_direct_open(&world->input);
	direct_reads = cached_reads = answer_at_most = 0;
	fail_with = 0;
	return flmem_direct_windows_init(&world->windows, 1, WINDOW) ? 0 : -1;
}

static int teardown(void **state)
{
	struct world *world = *state;

	flmem_direct_windows_clear(&world->windows);
	flmem_inputs_clear(&world->input, 1);
	tree_clear(&world->tree);
	free(world->bytes);
	free(world);
	return 0;
}

/* /tmp may be in memory, or on a file system without this kind of reads. */
static void need_direct(const struct world *world)
{
	if (world->input.files[0].direct)
		return;
	print_message("SKIP: files in /tmp cannot be read past the page cache\n");
	skip();
}

static int read_some(struct world *world, uint64_t begin, uint64_t end, uint64_t limit, char *out,
		     struct flmem_error *err)
{
	world->windows.windows->input = &world->input;
	world->windows.windows->limit = limit;
	return flmem_direct_read(world->windows.windows, &world->layout, begin, end, out, err);
}

/* Reads one chunk in blocks, as a thread does. */
static void check_chunk(struct world *world, uint64_t begin, uint64_t limit, uint64_t block)
{
	char *out = malloc(block);

	assert_non_null(out);
	for (uint64_t at = begin; at < limit; at += block) {
		uint64_t end = limit - at < block ? limit : at + block;

		assert_int_equal(read_some(world, at, end, limit, out, NULL), 0);
		assert_memory_equal(out, world->bytes + DATA_OFFSET + at, end - at);
	}
	free(out);
}

static void few_reads_for_a_chunk(void **state)
{
	struct world *world = *state;

	need_direct(world);
	check_chunk(world, 0, CHUNK, 512 * KIB);
	assert_int_equal(direct_reads, 3); /* a page more than two windows */
	assert_int_equal(cached_reads, 0);
	check_chunk(world, 2 * CHUNK, DATA_BYTES, 64 * KIB); /* up to the end of the file */
	assert_int_equal(direct_reads, 4);
	assert_int_equal(cached_reads, 0);
}

static void any_place_and_length(void **state)
{
	static const size_t windows[] = {256 * KIB, 300 * KIB, WINDOW};
	struct world *world = *state;
	unsigned short seed[3] = {1};

	need_direct(world);
	for (size_t i = 0; i < 300; i++) {
		uint64_t begin = (uint64_t)nrand48(seed) % DATA_BYTES;
		uint64_t limit = begin + 1 + (uint64_t)nrand48(seed) % (DATA_BYTES - begin);
		uint64_t block = 1 + (uint64_t)nrand48(seed) % (700 * KIB);

		world->windows.windows->room = windows[i % FLMEM_ARRAY_SIZE(windows)];
		check_chunk(world, begin, limit, block < 4 * KIB ? 4 * KIB : block);
	}
	assert_true(direct_reads > 300);
}

static void refused_by_the_file_system(void **state)
{
	struct world *world = *state;

	need_direct(world);
	fail_with = EINVAL;
	check_chunk(world, 0, CHUNK, 512 * KIB);
	check_chunk(world, CHUNK, 2 * CHUNK, 512 * KIB);
	assert_int_equal(direct_reads, 1); /* it is not tried again */
	assert_int_equal(cached_reads, 16);
}

static void interrupted(void **state)
{
	struct world *world = *state;

	need_direct(world);
	fail_with = EINTR;
	check_chunk(world, 0, 512 * KIB, 512 * KIB);
	assert_int_equal(cached_reads, 1);
	fail_with = 0;
	check_chunk(world, CHUNK, 2 * CHUNK, 512 * KIB);
	assert_int_equal(cached_reads, 1);
}

static void answered_in_parts(void **state)
{
	struct world *world = *state;

	need_direct(world);
	answer_at_most = 12 * KIB;
	check_chunk(world, 0, CHUNK, 512 * KIB);
	answer_at_most = 1; /* less than the bytes before the first one */
	check_chunk(world, CHUNK, 2 * CHUNK, 512 * KIB);
	assert_true(cached_reads > 0);
}

static void small_pieces_are_read_ahead(void **state)
{
	struct world *world = *state;
	struct flmem_input_piece piece = {.file = world->input.files, .bytes = MIB - 1};

	need_direct(world);
	assert_false(flmem_direct_takes(&piece));
	check_chunk(world, 0, MIB - 1, 512 * KIB);
	assert_int_equal(direct_reads, 0);
	piece.bytes++;
	assert_true(flmem_direct_takes(&piece));
	check_chunk(world, 0, MIB, 512 * KIB);
	assert_int_equal(direct_reads, 1);
}

/* Tensors are in another order, and in two files. */
static void tensors_in_other_places(void **state)
{
	static uint64_t begins[] = {0, 1 * MIB, 3 * MIB, 3 * MIB + 9, 4 * MIB, 7 * MIB};
	static const uint64_t offsets[] = {5 * MIB + 3, 2 * MIB + 1, 4 * MIB + 1, 77, 6 * MIB + 3};
	static const uint32_t file_of[] = {0, 1, 1, 0, 0};
	struct world *world = *state;
	char *out = malloc(7 * MIB);

	need_direct(world);
	world->layout.list.count = FLMEM_ARRAY_SIZE(offsets);
	world->layout.begins = begins;
	world->input.offsets = malloc(sizeof(offsets));
	world->input.file_of = malloc(sizeof(file_of));
	memcpy(world->input.offsets, offsets, sizeof(offsets));
	memcpy(world->input.file_of, file_of, sizeof(file_of));
	for (uint64_t at = 0; at < 7 * MIB; at += 512 * KIB)
		assert_int_equal(read_some(world, at, at + 512 * KIB, at < CHUNK ? CHUNK : 7 * MIB,
					   out + at, NULL),
				 0);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(offsets); i++)
		assert_memory_equal(out + begins[i], world->bytes + offsets[i],
				    begins[i + 1] - begins[i]);
	free(out);
}

static void cut_while_it_is_read(void **state)
{
	struct world *world = *state;
	struct flmem_error error = {0};
	char *out = malloc(CHUNK);

	need_direct(world);
	check_chunk(world, 0, 64 * KIB, 64 * KIB);
	assert_int_equal(ftruncate(world->input.files[0].fd, 5 * MIB), 0);
	assert_int_not_equal(read_some(world, CHUNK, 2 * CHUNK, 2 * CHUNK, out, &error), 0);
	assert_non_null(
		strstr(error.message, "truncated while it was read: it ends at byte 5242880"));
	free(out);
}

static void windows_within_their_limits(void **state)
{
	(void)state;
	assert_int_equal(flmem_direct_window_bytes(4, 4), 2 * MIB);
	assert_int_equal(flmem_direct_window_bytes(1, 1), 2 * MIB);
	assert_int_equal(flmem_direct_window_bytes(32, 4), 256 * KIB);
	assert_int_equal(flmem_direct_window_bytes(4, 64), 512 * KIB);
	assert_int_equal(flmem_direct_window_bytes(4, 3), 2 * MIB);
	assert_int_equal(flmem_direct_window_bytes(8, 3), 1364 * KIB);
	assert_int_equal(flmem_direct_window_bytes(8, 65), 0);
	for (unsigned threads = 1; threads <= 32; threads++)
		for (size_t inputs = 1; inputs <= 1000; inputs++) {
			size_t bytes = flmem_direct_window_bytes(threads, inputs);

			assert_int_equal(bytes % (4 * KIB), 0);
			assert_true(threads * inputs * bytes <= (inputs <= 4 ? 32 : 128) * MIB);
		}
}

static void no_memory_for_windows(void **state)
{
	struct flmem_direct_windows windows;

	(void)state;
	assert_true(flmem_direct_windows_init(&windows, 1, (size_t)1 << 50));
	assert_null(windows.windows);
	flmem_direct_windows_clear(&windows);
	assert_true(flmem_direct_windows_init(&windows, 4, 0));
	assert_null(windows.windows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(few_reads_for_a_chunk, setup, teardown),
		cmocka_unit_test_setup_teardown(any_place_and_length, setup, teardown),
		cmocka_unit_test_setup_teardown(refused_by_the_file_system, setup, teardown),
		cmocka_unit_test_setup_teardown(interrupted, setup, teardown),
		cmocka_unit_test_setup_teardown(answered_in_parts, setup, teardown),
		cmocka_unit_test_setup_teardown(small_pieces_are_read_ahead, setup, teardown),
		cmocka_unit_test_setup_teardown(tensors_in_other_places, setup, teardown),
		cmocka_unit_test_setup_teardown(cut_while_it_is_read, setup, teardown),
		cmocka_unit_test(windows_within_their_limits),
		cmocka_unit_test(no_memory_for_windows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
