/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares what flmem reads of glibc's heaps from outside with what programs know of them, and do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <flmem/detect.h>
#include <flmem/trim.h>

#include "allocators/glibc/glibc_heap.h"
#include "base/cleanup.h"
#include "ops/target/inspection.h"
#include "proc/process.h"
#include "proc/status.h"

#include "counting_peek.h"

#define PROGRAM(name)  VICTIMS "/heaps/" name
#define START_LIMIT_MS 60000
#define KIB	       UINT64_C(1024)
#define FIXED	       12 /* number of tests besides those of the tables */
#define BUDGET_US      60000000U
#define CALL_KIB       64 /* memory that a call may itself make resident, such as stack */

struct row {
	const char *program, *state;
	unsigned arenas;
	bool nameless; /* malloc_trim has no name by which to call it */
};

static const struct row rows[] = {
	{PROGRAM("heaps"), "fresh", 1, false},
	{PROGRAM("heaps"), "dense", 1, false},
	{PROGRAM("heaps"), "top", 1, false},
	{PROGRAM("heaps"), "fragmented", 1, false},
	{PROGRAM("heaps"), "pinned", 1, false},
	{PROGRAM("heaps"), "fastbins", 1, false},
	{PROGRAM("heaps"), "tcache", 1, false},
	{PROGRAM("heaps"), "mmapped", 1, false},
	{PROGRAM("heaps"), "released", 1, false},
	{PROGRAM("heaps"), "arenas", 13, false},
	{PROGRAM("heaps-static"), "fragmented", 1, false},
	{PROGRAM("heaps-static"), "fastbins", 1, false},
	{PROGRAM("heaps-static-stripped"), "mmapped", 1, true},
	{PROGRAM("heaps-static-stripped"), "arenas", 13, true},
};

/* A victim with pipes to it. */
static struct {
	pid_t pid;
	FILE *in, *out;
} victim;

static void be_victim(const char *const *words, int in, int out)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	execv(words[0], (char *const *)(uintptr_t)words);
	_exit(127);
}

static void start(const char *program, const char *state, const char *mib)
{
	const char *const words[] = {program, state, mib, NULL};
	int in[2], out[2];
	char line[64] = "";

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	victim.pid = fork();
	assert_true(victim.pid >= 0);
	if (!victim.pid)
		be_victim(words, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	victim.in = fdopen(in[1], "w");
	victim.out = fdopen(out[0], "r");
	assert_int_equal(poll(&(struct pollfd){.fd = out[0], .events = POLLIN}, 1, START_LIMIT_MS),
			 1);
	assert_non_null(fgets(line, sizeof(line), victim.out));
	assert_int_equal(strncmp(line, "ready ", 6), 0);
}

static int stop(void **state)
{
	(void)state;
	if (!victim.pid)
		return 0;
	fclose(victim.in);
	fclose(victim.out);
	kill(victim.pid, SIGKILL);
	waitpid(victim.pid, NULL, 0);
	victim.pid = 0;
	return 0;
}

/* Returns the bytes that the victim still holds, heads included. */
static uint64_t ask_held(void)
{
	char line[128];
	unsigned long long bytes = 0;

	fputs("\n", victim.in);
	fflush(victim.in);
	assert_non_null(fgets(line, sizeof(line), victim.out));
	assert_int_equal(sscanf(line, "held %llu ", &bytes), 1);
	return bytes;
}

static struct flmem_status read_status(void)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	struct flmem_status status;

	assert_int_equal(flmem_process_open(victim.pid, &process, NULL), 0);
	assert_int_equal(flmem_status_read(&process, &status, NULL), 0);
	return status;
}

static struct flmem_heap_report read_heap(void)
{
	const struct flmem_detect_options options = {.budget_us = BUDGET_US};
	struct flmem_process_report report;
	struct flmem_heap_report heap = FLMEM_HEAP_UNKNOWN("no allocator");
	struct flmem_error err = {0};

	if (flmem_detect_process(victim.pid, &options, &report, &err))
		fail_msg("%s", err.message);
	for (size_t i = 0; i < report.allocator_count; i++)
		if (report.allocators[i].serves_malloc)
			heap = report.allocators[i].heap;
	flmem_process_report_clear(&report);
	return heap;
}

/* Reads the heap through less of the library, without a time limit. */
static struct flmem_heap_report read_heap_alone(uint64_t walked_max, uint64_t precision,
						uint64_t *ret_bytes_read)
{
	const struct flmem_glibc_effort effort = {
		.walked_max = walked_max,
		.precision = precision,
	};
	FLMEM_AUTO_INSPECTION struct flmem_target_inspection *target =
		flmem_target_inspection_new(NULL);
	FLMEM_AUTO(counting_peek_close) struct counting_peek counting;
	struct flmem_heap_report heap = FLMEM_HEAP_UNKNOWN("no allocator");
	struct flmem_glibc_space space = {0};

	assert_int_equal(flmem_process_open(victim.pid, &target->process, NULL), 0);
	assert_int_equal(flmem_target_inspection_read(target, NULL), 0);
	counting_peek_open(&target->process, &counting);
	space.peek = counting.peek;
	space.maps = &target->maps;
	for (size_t i = 0; i < target->allocators.count; i++) {
		const struct flmem_allocator *found = &target->allocators.rows[i];

		space.module_start = found->module->start;
		space.module_end = found->module->end;
		space.minor = flmem_glibc_minor(found->version);
		if (found->serves_malloc)
			flmem_glibc_heap_read(&space, &effort, &heap);
	}
	*ret_bytes_read = counting.bytes_read;
	return heap;
}

static uint64_t known(struct flmem_u64 field)
{
	if (field.unknown)
		fail_msg("unknown: %s", field.unknown);
	return field.value;
}

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static void check_sums(const struct flmem_heap_report *heap)
{
	assert_int_equal(known(heap->in_use_bytes) + known(heap->cached_bytes) +
				 known(heap->free_resident_bytes) + known(heap->metadata_bytes),
			 known(heap->resident_bytes));
	assert_int_equal(known(heap->trimmable_bytes) + known(heap->pinned_bytes),
			 known(heap->free_resident_bytes));
	assert_true(known(heap->mmapped_bytes) <= known(heap->in_use_bytes));
	assert_true(known(heap->free_bytes) >= known(heap->free_resident_bytes));
}

/* Checks that the arenas add up to the heap, and that each thread has one of them. */
static void check_arenas(const struct flmem_heap_report *heap, uint64_t count)
{
	const struct flmem_arena_list *list = &heap->arena_list;
	uint64_t resident = 0, trimmable = 0, threads = 0;

	assert_null(list->unknown);
	assert_int_equal(list->count, count);
	for (size_t i = 0; i < list->count; i++) {
		assert_int_equal(list->rows[i].number, i);
		assert_true(list->rows[i].trimmable_bytes <= list->rows[i].resident_bytes);
		resident += list->rows[i].resident_bytes;
		trimmable += list->rows[i].trimmable_bytes;
		threads += known(list->rows[i].threads);
	}
	assert_int_equal(resident + known(heap->mmapped_bytes), known(heap->resident_bytes));
	assert_int_equal(trimmable, known(heap->trimmable_bytes));
	assert_int_equal(threads, count);
}

static void agrees_with_the_program(void **state)
{
	const struct row *row = *state;
	const struct flmem_trim_options options = {0};
	struct flmem_heap_report heap;
	struct flmem_status before, after;
	struct flmem_trim_result trim;
	struct flmem_error err = {0};
	uint64_t held, expected;

	start(row->program, row->state, "64");
	before = read_status();
	heap = read_heap();
	after = read_status();
	check_sums(&heap);
	assert_string_equal(heap.method, "walked");
	assert_int_equal(known(heap.error_bytes), 0);
	assert_int_equal(known(heap.arenas), row->arenas);
	check_arenas(&heap, row->arenas);
	/* Reading changes nothing. */
	assert_true(apart(before.rss_bytes.value, after.rss_bytes.value) <= 64 * KIB);
	held = ask_held();
	/* Threads hold their own structures and lists besides. */
	assert_true(apart(known(heap.in_use_bytes), held) <= row->arenas * 64 * KIB);
	if (row->nameless)
		return;
	before = read_status();
	if (flmem_trim_process(victim.pid, &options, &trim, &err))
		fail_msg("%s", err.message);
	after = read_status();
	/* The call itself may touch pages: there can be more than before. */
	expected = before.anon_bytes.value - known(heap.trimmable_bytes);
	if (apart(after.anon_bytes.value, expected) > CALL_KIB * KIB)
		fail_msg("%s: of %llu KiB, %llu KiB were to be left, and %llu KiB are", row->state,
			 (unsigned long long)before.anon_bytes.value / 1024,
			 (unsigned long long)expected / 1024,
			 (unsigned long long)after.anon_bytes.value / 1024);
	heap = read_heap();
	check_sums(&heap);
	assert_true(known(heap.trimmable_bytes) <= CALL_KIB * KIB);
}

/* The error of an estimate is within its stated limit. */
static void a_sample_agrees_with_the_walk(void **state)
{
	struct flmem_heap_report walked, sampled;
	uint64_t error, bytes_read;

	start(PROGRAM("heaps"), *state, "100");
	walked = read_heap();
	sampled = read_heap_alone(1, FLMEM_GLIBC_PRECISION, &bytes_read);
	check_sums(&sampled);
	assert_string_equal(walked.method, "walked");
	assert_string_equal(sampled.method, "sampled");
	assert_non_null(sampled.arena_list.unknown);
	error = known(sampled.error_bytes);
	/* Most samples are far better than the worst of a hundred. */
	assert_in_range(error, 1, known(walked.resident_bytes) / 20);
	assert_int_equal(known(sampled.resident_bytes), known(walked.resident_bytes));
	assert_true(apart(known(sampled.in_use_bytes), known(walked.in_use_bytes)) <= 2 * error);
	assert_true(apart(known(sampled.free_resident_bytes), known(walked.free_resident_bytes)) <=
		    2 * error);
	if (apart(known(sampled.trimmable_bytes), known(walked.trimmable_bytes)) > 2 * error)
		fail_msg("%s: estimated %llu KiB, walked %llu KiB, error %llu KiB",
			 (const char *)*state,
			 (unsigned long long)known(sampled.trimmable_bytes) / 1024,
			 (unsigned long long)known(walked.trimmable_bytes) / 1024,
			 (unsigned long long)error / 1024);
	assert_int_equal(known(sampled.arenas), known(walked.arenas));
}

/* Slices lose nothing at their borders: when all are read, the sum is that of the walk. */
static void slices_add_up_to_the_walk(void **state)
{
	struct flmem_heap_report walked, sampled;
	uint64_t error, bytes_read;

	start(PROGRAM("heaps"), *state, "20");
	walked = read_heap();
	sampled = read_heap_alone(1, UINT64_MAX, &bytes_read);
	check_sums(&sampled);
	assert_string_equal(sampled.method, "sampled");
	error = known(sampled.error_bytes);
	assert_true(error <= 16 * KIB);
	assert_true(apart(known(sampled.free_resident_bytes), known(walked.free_resident_bytes)) <=
		    error);
	assert_true(apart(known(sampled.cached_bytes), known(walked.cached_bytes)) <= error);
	/* The difference is due to whole pages. */
	assert_true(apart(known(sampled.trimmable_bytes), known(walked.trimmable_bytes)) <=
		    error + 4 * KIB);
}

/* Blocks in use need not be read where few chunks are free. */
static void lists_tell_of_a_dense_heap(void **state)
{
	struct flmem_heap_report heap;
	uint64_t bytes_read;

	(void)state;
	start(PROGRAM("heaps"), "dense", "64");
	heap = read_heap_alone(UINT64_MAX, FLMEM_GLIBC_PRECISION, &bytes_read);
	check_sums(&heap);
	assert_string_equal(heap.method, "walked");
	assert_int_equal(known(heap.error_bytes), 0);
	assert_true(apart(known(heap.in_use_bytes), ask_held()) <= 64 * KIB);
	assert_true(known(heap.free_resident_bytes) > 0);
	assert_true(known(heap.cached_bytes) > 0);
	assert_true(bytes_read < 16 * 1024 * KIB);
}

static void thresholds_in_force_are_reported(void **state)
{
	struct flmem_heap_report heap;

	(void)state;
	start(PROGRAM("heaps"), "fresh", "64");
	heap = read_heap();
	assert_int_equal(known(heap.trim_threshold_bytes), 128 * KIB);
	assert_int_equal(known(heap.mmap_threshold_bytes), 128 * KIB);
	assert_int_equal(known(heap.threshold_raised), 0);
	assert_int_equal(known(heap.arena_max), 0);
	stop(NULL);
	start(PROGRAM("heaps"), "mmapped", "64");
	heap = read_heap();
	assert_true(known(heap.mmap_threshold_bytes) >= 4096 * KIB);
	assert_int_equal(known(heap.trim_threshold_bytes), 2 * known(heap.mmap_threshold_bytes));
	assert_int_equal(known(heap.threshold_raised), 1);
	assert_true(known(heap.mmapped_bytes) >= 72 * 1024 * KIB);
	stop(NULL);
	setenv("MALLOC_ARENA_MAX", "3", 1);
	start(PROGRAM("heaps"), "fresh", "64");
	unsetenv("MALLOC_ARENA_MAX");
	heap = read_heap();
	assert_int_equal(known(heap.arena_max), 3);
}

static void a_damaged_heap_is_not_reported(void **state)
{
	struct flmem_heap_report heap;

	start(PROGRAM("heaps"), *state, "64");
	heap = read_heap();
	assert_non_null(heap.in_use_bytes.unknown);
	assert_non_null(strstr(heap.trimmable_bytes.unknown, "damaged"));
	assert_null(heap.method);
	/* Arenas elsewhere are counted. */
	assert_int_equal(known(heap.arenas), 1);
	assert_int_equal(known(heap.mmap_threshold_bytes), 128 * KIB);
}

/* Locked memory is not released, whoever is asked for it. */
static void locked_memory_is_not_promised(void **state)
{
	struct rlimit limit;
	struct flmem_heap_report heap;

	(void)state;
	if (geteuid() != 0 && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
	    limit.rlim_cur < 256 * 1024 * KIB) {
		fputs("skipped: this user may not lock 256 MiB\n", stderr);
		skip();
	}
	start(PROGRAM("heaps"), "locked", "64");
	heap = read_heap();
	assert_non_null(strstr(heap.trimmable_bytes.unknown, "mlock"));
	assert_non_null(heap.pinned_bytes.unknown);
	assert_true(known(heap.free_resident_bytes) >= 62356 * KIB);
}

/* Its [heap] is then two mappings, as parts of it were advised. */
static void a_heap_of_huge_pages_is_one(void **state)
{
	struct flmem_heap_report heap;

	(void)state;
	setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 1);
	start(PROGRAM("heaps"), "fragmented", "64");
	unsetenv("GLIBC_TUNABLES");
	heap = read_heap();
	check_sums(&heap);
	assert_int_equal(known(heap.error_bytes), 0);
	assert_true(apart(known(heap.in_use_bytes), ask_held()) <= 64 * KIB);
}

/*
 * Checks that all figures, however they were read, are right within their stated error, or unknown.
 */
static void check_reported(const struct flmem_heap_report *heap, uint64_t held)
{
	if (!heap->method) {
		assert_non_null(strstr(heap->trimmable_bytes.unknown, "hugetlb=2"));
		return;
	}
	check_sums(heap);
	assert_true(apart(known(heap->in_use_bytes), held) <= known(heap->error_bytes) + 64 * KIB);
}

/* Its main arena is then not [heap], and lies in several places. */
static void a_heap_of_reserved_huge_pages_is_not_guessed(void **state)
{
	struct flmem_heap_report walked, sampled;
	uint64_t held, bytes_read;

	setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=2", 1);
	start(PROGRAM("heaps"), *state, "64");
	unsetenv("GLIBC_TUNABLES");
	walked = read_heap();
	sampled = read_heap_alone(1, FLMEM_GLIBC_PRECISION, &bytes_read);
	held = ask_held();
	check_reported(&walked, held);
	check_reported(&sampled, held);
}

/* Two threads never stop allocating: each figure states how far off it may be. */
static void a_busy_heap_is_approximate(void **state)
{
	struct flmem_heap_report heap;

	(void)state;
	start(PROGRAM("heaps"), "busy", "64");
	for (int i = 0; i < 5; i++) {
		heap = read_heap();
		if (heap.method) {
			check_sums(&heap);
			/* 62356 KiB are free in the arena that rests. */
			assert_true(apart(known(heap.trimmable_bytes), 62356 * KIB) <=
				    known(heap.error_bytes) + 1024 * KIB);
		} else {
			assert_non_null(heap.in_use_bytes.unknown);
		}
	}
}

/* Its pages are dropped and touched while they are read, and no page is swapped out. */
static void pages_that_come_and_go_are_not_swapped_out(void **state)
{
	unsigned known_times = 0;

	(void)state;
	start(PROGRAM("heaps"), "taking", "64");
	for (int i = 0; i < 100; i++) {
		struct flmem_heap_report heap = read_heap();
		struct flmem_status status = read_status();

		if (heap.method)
			known_times++;
		else if (strstr(heap.in_use_bytes.unknown, "swapped") &&
			 status.swap_bytes.value == 0)
			fail_msg("no page of it is swapped out: %s", heap.in_use_bytes.unknown);
		else if (strstr(heap.in_use_bytes.unknown, "damaged"))
			fail_msg("nothing of it is damaged: %s", heap.in_use_bytes.unknown);
	}
	print_message("read %u times of 100\n", known_times);
}

int main(void)
{
	static const char *const sampled[] = {"fresh",	 "fragmented", "pinned", "fastbins",
					      "mmapped", "released",   "arenas"};
	static const char *const whole[] = {"fragmented", "pinned", "fastbins", "many"};
	struct CMUnitTest tests[FLMEM_ARRAY_SIZE(rows) + FLMEM_ARRAY_SIZE(sampled) +
				FLMEM_ARRAY_SIZE(whole) + FIXED] = {
		{"thresholds in force", thresholds_in_force_are_reported, NULL, stop, NULL},
		{"absurd size", a_damaged_heap_is_not_reported, NULL, stop,
		 (void *)(uintptr_t) "corrupted"},
		{"list in a ring", a_damaged_heap_is_not_reported, NULL, stop,
		 (void *)(uintptr_t) "fast-loop"},
		{"absurd top", a_damaged_heap_is_not_reported, NULL, stop,
		 (void *)(uintptr_t) "top-absurd"},
		{"way back", a_damaged_heap_is_not_reported, NULL, stop,
		 (void *)(uintptr_t) "cyclic"},
		{"lists", lists_tell_of_a_dense_heap, NULL, stop, NULL},
		{"busy", a_busy_heap_is_approximate, NULL, stop, NULL},
		{"taking", pages_that_come_and_go_are_not_swapped_out, NULL, stop, NULL},
		{"locked", locked_memory_is_not_promised, NULL, stop, NULL},
		{"huge pages", a_heap_of_huge_pages_is_one, NULL, stop, NULL},
		{"reserved huge pages", a_heap_of_reserved_huge_pages_is_not_guessed, NULL, stop,
		 (void *)(uintptr_t) "fragmented"},
		{"their fastbins", a_heap_of_reserved_huge_pages_is_not_guessed, NULL, stop,
		 (void *)(uintptr_t) "fastbins"},
	};

	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		tests[i + FIXED] = (struct CMUnitTest){
			.name = rows[i].state,
			.test_func = agrees_with_the_program,
			.teardown_func = stop,
			.initial_state = (void *)(uintptr_t)&rows[i],
		};
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(sampled); i++)
		tests[i + FLMEM_ARRAY_SIZE(rows) + FIXED] = (struct CMUnitTest){
			.name = "sampled",
			.test_func = a_sample_agrees_with_the_walk,
			.teardown_func = stop,
			.initial_state = (void *)(uintptr_t)sampled[i],
		};
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(whole); i++)
		tests[i + FLMEM_ARRAY_SIZE(rows) + FLMEM_ARRAY_SIZE(sampled) + FIXED] =
			(struct CMUnitTest){
				.name = "all slices",
				.test_func = slices_add_up_to_the_walk,
				.teardown_func = stop,
				.initial_state = (void *)(uintptr_t)whole[i],
			};
	return cmocka_run_group_tests_name("glibc_heap", tests, NULL, NULL);
}
