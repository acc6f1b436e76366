/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dumps of jemalloc as heap profiles: captured ones (tests/fixtures/jemalloc: three threads with 8
 * blocks of 40,000 bytes each, one of 1 MiB, 200 of 3,000 that are freed), made ones, damaged ones.
 */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include <flmem/heap_report.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/buf.h"
#include "profiler/jemalloc_dump.h"

#define LIVE_DUMP	 FIXTURES "/jemalloc/live.heap"
#define ACCUMULATED_DUMP FIXTURES "/jemalloc/accumulated.heap"

#define MAPS "\nMAPPED_LIBRARIES:\n"

static char path[] = "/tmp/flmem-heap-dump-XXXXXX";

static void write_dump(const char *text, size_t length)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, length, file), length);
	assert_int_equal(fclose(file), 0);
}

static int read_dump(const char *file, struct flmem_heap_profile **ret_profile,
		     struct flmem_error *err)
{
	const struct flmem_heap_request request = {
		.path = file, .choose_stacks = true, .no_symbols = true};

	return flmem_heap_profile_read(&request, ret_profile, err);
}

static struct flmem_heap_profile *read_text(const char *text)
{
	struct flmem_heap_profile *p = NULL;
	struct flmem_error err = {0};

	write_dump(text, strlen(text));
	if (read_dump(path, &p, &err))
		fail_msg("%s", err.message);
	return p;
}

static void assert_refused(const char *text, const char *why)
{
	struct flmem_heap_profile *p = NULL;
	struct flmem_error err = {0};

	write_dump(text, strlen(text));
	assert_int_equal(read_dump(path, &p, &err), FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, why));
}

static struct flmem_heap_profile *read_fixture(const char *file)
{
	struct flmem_heap_profile *p = NULL;
	struct flmem_error err = {0};

	if (read_dump(file, &p, &err))
		fail_msg("%s", err.message);
	return p;
}

/* Returns the number that jeprof computes of the same figures. */
static double unbiased(double count, double bytes, double interval)
{
	return bytes / (1 - exp(-bytes / count / interval));
}

static void amounts_are_without_bias(void **state)
{
	struct flmem_heap_profile *p = read_fixture(LIVE_DUMP);
	double bytes = unbiased(1, 1048576, 16384) + unbiased(23, 894494, 16384) +
		       unbiased(1, 81939, 16384);

	(void)state;
	assert_int_equal(p->site_count, 3);
	assert_true(fabs((double)p->totals.bytes[FLMEM_HEAP_LIVE] - bytes) < 4);
	/* 24 blocks of the size class 40,960, of which 1 in 12 is not sampled */
	assert_true(fabs((double)p->totals.count[FLMEM_HEAP_LIVE] - 27) < 2);
	flmem_heap_profile_free(p);
}

static void what_a_dump_lacks_is_unknown(void **state)
{
	struct flmem_heap_profile *p = read_fixture(LIVE_DUMP);

	(void)state;
	assert_int_equal(p->ending, FLMEM_HEAP_DUMPED);
	assert_int_equal(p->interval_bytes, 16384);
	assert_string_equal(p->allocator, "jemalloc");
	assert_non_null(p->unrecorded);
	assert_non_null(p->no_python);
	assert_int_equal(p->stacks, FLMEM_HEAP_STACKS_NATIVE);
	assert_null(p->unknown[FLMEM_HEAP_LIVE]);
	assert_non_null(p->unknown[FLMEM_HEAP_PEAK]);
	assert_non_null(p->unknown[FLMEM_HEAP_ALLOCATED]);
	assert_non_null(p->unknown[FLMEM_HEAP_FREED]);
	for (size_t i = 0; i < p->site_count; i++)
		assert_non_null(p->sites[i].oldest_us.unknown);
	assert_false(p->cut);
	assert_int_equal(p->skipped, 0);
	flmem_heap_profile_free(p);
}

static void totals_are_known_where_jemalloc_counts_them(void **state)
{
	struct flmem_heap_profile *p = read_fixture(ACCUMULATED_DUMP);
	const struct flmem_heap_amounts *a = &p->totals;

	(void)state;
	assert_null(p->unknown[FLMEM_HEAP_ALLOCATED]);
	assert_null(p->unknown[FLMEM_HEAP_FREED]);
	assert_non_null(p->unknown[FLMEM_HEAP_PEAK]);
	assert_int_equal(a->bytes[FLMEM_HEAP_ALLOCATED],
			 a->bytes[FLMEM_HEAP_LIVE] + a->bytes[FLMEM_HEAP_FREED]);
	assert_true(a->bytes[FLMEM_HEAP_FREED] > 200 * 3000 / 2);
	assert_true(a->bytes[FLMEM_HEAP_FREED] < 200 * 3000 * 2);
	flmem_heap_profile_free(p);
}

/*
 * Stacks go from the caller of malloc to the start of the thread; frames of libjemalloc are left
 * out.
 */
static void stacks_begin_at_the_caller(void **state)
{
	struct flmem_heap_profile *p = read_fixture(LIVE_DUMP);
	uint32_t *sites = flmem_heap_largest_sites(p, FLMEM_HEAP_LIVE);
	uint32_t node = p->sites[sites[0]].node;
	const struct flmem_heap_frame *frame = &p->frames[p->nodes[node].frame];
	size_t depth = 0;

	(void)state;
	assert_string_equal(frame->module, "/opt/app/worker");
	assert_int_equal(frame->offset, 0x1187 - 1); /* of return: the call is before it */
	for (; node; node = p->nodes[node].parent, depth++) {
		frame = &p->frames[p->nodes[node].frame];
		assert_null(strstr(frame->module, "jemalloc"));
	}
	assert_in_range(depth, 4, 5);
	free(sites);
	flmem_heap_profile_free(p);
}

/* The process is also sampled by flmem's sampler. */
static void frames_of_the_sampler_are_left_out(void **state)
{
	static const char *const names[] = {"/opt/lib/libflmem-sampler.so",
					    "/tmp/.flmem-7e5195ce4fcfb486.so (deleted)"};
	char text[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct flmem_heap_profile *p;

		snprintf(text, sizeof(text),
			 "heap_v2/512\n@ 0x1010 0x2020 0x3030\n  t*: 1: 512 [0: 0]\n" MAPS
			 "1000-2000 r-xp 00000000 08:01 11 /usr/lib/libjemalloc.so.2\n"
			 "2000-3000 r-xp 00000000 08:01 12 %s\n"
			 "3000-4000 r-xp 00000000 08:01 13 /opt/app/worker\n",
			 names[i]);
		p = read_text(text);
		assert_int_equal(p->site_count, 1);
		assert_string_equal(p->frames[p->nodes[p->sites[0].node].frame].module,
				    "/opt/app/worker");
		flmem_heap_profile_free(p);
	}
}

static void growth_is_not_found_in_one_moment(void **state)
{
	struct flmem_heap_profile *p = read_fixture(LIVE_DUMP);
	struct flmem_heap_finding findings[FLMEM_HEAP_FINDINGS_MAX];
	struct flmem_heap_leaks leaks = {0};
	struct flmem_error err = {0};
	size_t count = 1;

	(void)state;
	assert_int_equal(flmem_heap_leaks_find(p, &leaks, &err), FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "a snapshot"));
	assert_int_equal(flmem_heap_findings(p, findings, &count, &err), 0);
	assert_int_equal(count, 0);
	flmem_heap_profile_free(p);
}

static void rounds_cannot_be_selected(void **state)
{
	const struct flmem_heap_request request = {.path = LIVE_DUMP, .by_round = true};
	struct flmem_heap_profile *p = NULL;
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(flmem_heap_profile_read(&request, &p, &err), FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "no rounds"));
}

static void two_dumps_are_compared(void **state)
{
	struct flmem_heap_profile *first = read_fixture(LIVE_DUMP);
	struct flmem_heap_profile *second = read_fixture(ACCUMULATED_DUMP);
	struct flmem_heap_comparison comparison = {0};

	(void)state;
	assert_int_equal(flmem_heap_compare(first, second, FLMEM_HEAP_LIVE, &comparison, NULL), 0);
	assert_true(comparison.count > 0);
	assert_string_equal(comparison.rows[0].frame.module, "/opt/app/worker");
	flmem_heap_comparison_clear(&comparison);
	flmem_heap_profile_free(first);
	flmem_heap_profile_free(second);
}

static void damaged_first_lines_are_refused(void **state)
{
	(void)state;
	assert_refused("heap_v2/\n", "first line");
	assert_refused("heap_v2/0\n", "first line");
	assert_refused("heap_v2/12x\n", "first line");
	assert_refused("heap_v2/512", "first line");
	assert_refused("heap_v2/9223372036854775809\n", "first line");
	assert_refused("heap_v2/99999999999999999999999\n", "first line");
	assert_refused("heap_v3/512\n", "not a heap profile");
}

static void damaged_stacks_are_left_out_and_counted(void **state)
{
	struct flmem_heap_profile *p = read_text("heap_v2/512\n"
						 "  t*: 9: 9 [0: 0]\n"
						 "@ 0x10 0x20\n"
						 "  t*: 1: 512 [0: 0]\n"
						 "@ 0x10 zero\n"
						 "  t*: 1: 512 [0: 0]\n"
						 "@ 0x10\n"
						 "  t*: 1: 512 [0: 0\n"
						 "@ 0x10\n"
						 "  t*: 0: 512 [0: 0]\n"
						 "@ 0x10\n"
						 "  t*: 18446744073709551616: 1 [0: 0]\n"
						 "@ 0x10\n"
						 "@ 0x11112222333344445\n"
						 "  t*: 1: 1 [0: 0]\n" MAPS);

	(void)state;
	assert_int_equal(p->site_count, 1);
	assert_int_equal(p->skipped, 6);
	assert_false(p->cut);
	assert_int_equal(p->totals.bytes[FLMEM_HEAP_LIVE], lrint(unbiased(1, 512, 512)));
	flmem_heap_profile_free(p);
}

static void absurd_amounts_stay_in_range(void **state)
{
	struct flmem_heap_profile *p =
		read_text("heap_v2/9223372036854775808\n"
			  "@ 0x0\n"
			  "  t*: 18446744073709551615: 18446744073709551615 [1: 1]\n"
			  "@ 0xffffffffffffffff\n"
			  "  t*: 18446744073709551615: 1 [0: 0]\n"
			  "@\n"
			  "  t*: 1: 1 [18446744073709551615: 18446744073709551615]\n" MAPS);

	(void)state;
	assert_int_equal(p->site_count, 3);
	for (size_t i = 0; i < 3; i++)
		assert_true(p->sites[i].amounts.bytes[FLMEM_HEAP_LIVE] <= UINT64_C(1) << 62);
	flmem_heap_profile_free(p);
}

static void deep_stacks_lose_their_outer_frames(void **state)
{
	char text[8192] = "heap_v2/512\n@";
	struct flmem_heap_profile *p;
	uint32_t node;

	(void)state;
	for (unsigned i = 0; i < 300; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), " 0x%x", 0x1000 + i);
	snprintf(text + strlen(text), sizeof(text) - strlen(text), "\n  t*: 1: 512 [0: 0]\n" MAPS);
	p = read_text(text);
	assert_int_equal(p->cut_stacks, 1);
	assert_int_equal(p->node_count, 256 + 1);
	node = p->sites[0].node;
	assert_int_equal(p->frames[p->nodes[node].frame].offset, 0x1000 - 1);
	flmem_heap_profile_free(p);
}

/* They would take memory in proportion. */
static void many_addresses_are_refused(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	(void)state;
	flmem_buf_puts(&text, "heap_v2/512\n");
	for (unsigned i = 0; i <= FLMEM_JEMALLOC_ADDRESSES_MAX; i++)
		flmem_buf_printf(&text, "%s 0x%x%s", i % 200 ? "" : "@", 0x1000 + i,
				 i % 200 == 199 ? "\n  t*: 1: 512 [0: 0]\n" : "");
	flmem_buf_puts(&text, "\n  t*: 1: 512 [0: 0]\n" MAPS);
	assert_refused(text.data, "more than 262144 addresses");
}

/* Stacks share the nodes of common callers. */
static void stacks_share_their_callers(void **state)
{
	struct flmem_heap_profile *p = read_text("heap_v2/512\n"
						 "@ 0x1000 0x2000 0x3000\n  t*: 1: 512 [0: 0]\n"
						 "@ 0x1001 0x2000 0x3000\n  t*: 1: 512 [0: 0]\n"
						 "@ 0x2000 0x3000\n  t*: 1: 512 [0: 0]\n" MAPS);

	(void)state;
	assert_int_equal(p->node_count, 4 + 1);
	assert_int_equal(p->site_count, 3);
	flmem_heap_profile_free(p);
}

static void cut_dumps_are_survived(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf whole = FLMEM_BUF_INIT;
	const char *maps;

	(void)state;
	assert_int_equal(flmem_io_read_file_at(AT_FDCWD, LIVE_DUMP, 1 << 20, &whole), 0);
	maps = strstr(whole.data, MAPS);
	assert_non_null(maps);
	for (size_t length = 8; length < whole.length; length++) {
		struct flmem_heap_profile *p = NULL;
		bool has_maps = whole.data + length >= maps + strlen(MAPS);

		write_dump(whole.data, length);
		if (read_dump(path, &p, NULL))
			continue;
		assert_int_equal(p->cut, !has_maps || whole.data[length - 1] != '\n');
		assert_true(p->totals.bytes[FLMEM_HEAP_LIVE] < 3 << 20);
		/* Stacks after the cut are unknown; without any, 0 would be a guess. */
		assert_int_equal(FLMEM_HEAP_LACKS(p, AMOUNTS), !has_maps);
		assert_int_equal(FLMEM_HEAP_LACKS(p, MODULES), p->cut);
		assert_int_equal(p->unknown[FLMEM_HEAP_LIVE] != NULL, !has_maps && !p->site_count);
		flmem_heap_profile_free(p);
	}
}

static void garbled_dumps_are_survived(void **state)
{
	static const char bytes[] = {'\0', '\n', '@', '9', ' ', '\xff'};
	FLMEM_AUTO_BUF struct flmem_buf whole = FLMEM_BUF_INIT;

	(void)state;
	assert_int_equal(flmem_io_read_file_at(AT_FDCWD, LIVE_DUMP, 1 << 20, &whole), 0);
	for (size_t at = 0; at < whole.length; at += 3) {
		char before = whole.data[at];
		struct flmem_heap_profile *p = NULL;

		whole.data[at] = bytes[at / 3 % sizeof(bytes)];
		write_dump(whole.data, whole.length);
		if (!read_dump(path, &p, NULL) && !whole.data[at])
			assert_true(p->cut);
		flmem_heap_profile_free(p);
		whole.data[at] = before;
	}
}

/* Makes a dump with an address of this program; `inode` is added to that of its file. */
static void make_own_dump(uintptr_t address, unsigned inode)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	FLMEM_AUTO_BUF struct flmem_buf maps = FLMEM_BUF_INIT;
	char *line, *rest;

	flmem_buf_printf(&text, "heap_v2/512\n@ 0x%jx\n  t*: 1: 512 [0: 0]\n" MAPS,
			 (uintmax_t)address);
	assert_int_equal(flmem_io_read_file_at(AT_FDCWD, "/proc/self/maps", 1 << 22, &maps), 0);
	for (rest = maps.data; (line = strsep(&rest, "\n"));) {
		char range[64], flags[8], offset[32], device[16], name[512] = "";
		unsigned long number;

		if (sscanf(line, "%63s %7s %31s %15s %lu %511s", range, flags, offset, device,
			   &number, name) >= 5)
			flmem_buf_printf(&text, "%s %s %s %s %lu %s\n", range, flags, offset,
					 device, number + inode, name);
	}
	write_dump(text.data, text.length);
}

static struct flmem_heap_profile *read_with_names(void)
{
	const struct flmem_heap_request request = {.path = path, .choose_stacks = true};
	struct flmem_heap_profile *p = NULL;
	struct flmem_error err = {0};

	if (flmem_heap_profile_read(&request, &p, &err))
		fail_msg("%s", err.message);
	assert_int_equal(p->frame_count, 1);
	return p;
}

static void functions_get_names_from_the_mapped_file(void **state)
{
	struct flmem_heap_profile *p;

	(void)state;
	make_own_dump((uintptr_t)flmem_heap_profile_read + 2, 0);
	p = read_with_names();
	assert_string_equal(p->frames[0].function, "flmem_heap_profile_read");
	flmem_heap_profile_free(p);
}

static void another_file_gives_no_names(void **state)
{
	const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	struct flmem_heap_profile *p;

	(void)state;
	make_own_dump((uintptr_t)flmem_heap_profile_read + 2, 1);
	p = read_with_names();
	assert_null(p->frames[0].function);
	assert_non_null(strstr(p->frames[0].unresolved, "another inode"));
	flmem_heap_profile_free(p);
	make_own_dump((uintptr_t)flmem_heap_profile_read + 2, 0);
	assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
	p = read_with_names();
	assert_null(p->frames[0].function);
	assert_non_null(strstr(p->frames[0].unresolved, "changed since"));
	flmem_heap_profile_free(p);
}

static int make_path(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
	(void)state;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(amounts_are_without_bias),
		cmocka_unit_test(what_a_dump_lacks_is_unknown),
		cmocka_unit_test(totals_are_known_where_jemalloc_counts_them),
		cmocka_unit_test(stacks_begin_at_the_caller),
		cmocka_unit_test(frames_of_the_sampler_are_left_out),
		cmocka_unit_test(growth_is_not_found_in_one_moment),
		cmocka_unit_test(rounds_cannot_be_selected),
		cmocka_unit_test(two_dumps_are_compared),
		cmocka_unit_test(damaged_first_lines_are_refused),
		cmocka_unit_test(damaged_stacks_are_left_out_and_counted),
		cmocka_unit_test(absurd_amounts_stay_in_range),
		cmocka_unit_test(deep_stacks_lose_their_outer_frames),
		cmocka_unit_test(many_addresses_are_refused),
		cmocka_unit_test(stacks_share_their_callers),
		cmocka_unit_test(cut_dumps_are_survived),
		cmocka_unit_test(garbled_dumps_are_survived),
		cmocka_unit_test(functions_get_names_from_the_mapped_file),
		cmocka_unit_test(another_file_gives_no_names),
	};

	return cmocka_run_group_tests(tests, make_path, remove_path);
}
