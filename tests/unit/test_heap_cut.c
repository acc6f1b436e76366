/* SPDX-License-Identifier: Apache-2.0 */
/* Tests a heap profile that lacks its end: its records are read, what it lacks is unknown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <flmem/heap_report.h>

#include "profile_maker.h"

#define MIB (UINT64_C(1) << 20)

static char path[] = "/tmp/flmem-heap-cut-XXXXXX";

/* Makes two sites of 3 MiB each, and a round. */
static void make_two_sites(struct profile_maker *m)
{
	uint32_t frame, node;

	maker_init(m);
	frame = maker_python(m, "train", "/app/server.py", 20);
	node = maker_node(m, FLMEM_PROFILE_ROOT, frame);
	maker_site(m, node, 3 * MIB, 0);
	maker_site(m, node, 3 * MIB, 0);
	maker_round(m, FLMEM_PROFILE_ROUND_NONE, 0);
}

static struct flmem_heap_profile *read_first(const struct profile_maker *m, size_t size)
{
	struct flmem_heap_request request = {.path = path};
	struct flmem_heap_profile *p = NULL;

	maker_write(m, path, size);
	assert_int_equal(flmem_heap_profile_read(&request, &p, NULL), 0);
	return p;
}

/* Sums of 0 would mean that nothing was allocated. */
static void amounts_that_were_cut_off_are_unknown(void **state)
{
	struct flmem_heap_profile *p;
	struct profile_maker m;

	(void)state;
	make_two_sites(&m);
	p = read_first(&m, FLMEM_PROFILE_HEADER_SIZE);
	assert_true(p->cut);
	assert_non_null(strstr(flmem_heap_lacks_amounts(p), "truncated before its amounts"));
	for (enum flmem_heap_measure measure = 0; measure < FLMEM_HEAP_MEASURE_COUNT; measure++) {
		assert_non_null(flmem_heap_bytes(p, &p->totals, measure).unknown);
		assert_non_null(flmem_heap_count(p, &p->totals, measure).unknown);
	}
	flmem_heap_profile_free(p);
	maker_clear(&m);
}

static void amounts_that_are_there_are_known(void **state)
{
	const size_t site = sizeof(struct flmem_profile_site);
	struct flmem_heap_profile *p;
	struct profile_maker m;
	uint64_t sites;

	(void)state;
	make_two_sites(&m);
	sites = m.header->section[FLMEM_PROFILE_SECTION_SITES].offset;
	for (size_t kept = 1; kept <= 2; kept++) {
		p = read_first(&m, sites + kept * site);
		assert_true(p->cut);
		assert_null(flmem_heap_lacks_amounts(p));
		assert_int_equal(p->totals.bytes[FLMEM_HEAP_LIVE], kept * 3 * MIB);
		flmem_heap_profile_free(p);
	}
	maker_clear(&m);
}

/* Makes two rounds, one native frame in a module, and live memory. */
static void make_whole(struct profile_maker *m)
{
	uint32_t frame, node, module = 0;

	maker_init(m);
	maker_module(m, "/lib/libtorch.so");
	frame = maker_native(m, 0x1000, module);
	node = maker_node(m, FLMEM_PROFILE_ROOT, frame);
	maker_site(m, node, 3 * MIB, MIB);
	for (uint32_t round = 1; round <= 2; round++) {
		maker_round(m, round, round * 1000);
		maker_cell(m, 0, round, MIB, 0);
		maker_live(m, 0, round, round * 1000, MIB);
		maker_moment(m, round, round * 1000, 500 * MIB, MIB);
	}
}

#define PART(name) (1U << FLMEM_HEAP_PART_##name)

/* References to lost records are not damage, and the unknown parts are named. */
static void what_is_cut_off_behind_the_amounts_is_named(void **state)
{
	static const struct {
		enum flmem_profile_section_index end; /* the first section that is lost */
		uint32_t lacks;
	} rows[] = {
		{FLMEM_PROFILE_SECTION_CELLS,
		 PART(ROUNDS) | PART(SURVIVORS) | PART(TIMELINE) | PART(MODULES)},
		{FLMEM_PROFILE_SECTION_LIVE,
		 PART(ROUNDS) | PART(SURVIVORS) | PART(TIMELINE) | PART(MODULES)},
		{FLMEM_PROFILE_SECTION_ROUNDS, PART(ROUNDS) | PART(TIMELINE) | PART(MODULES)},
		{FLMEM_PROFILE_SECTION_TIMELINE, PART(TIMELINE) | PART(MODULES)},
		{FLMEM_PROFILE_SECTION_MODULES, PART(MODULES)},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[FLMEM_HEAP_CUT_TEXT_MAX];
		struct flmem_heap_profile *p;
		struct profile_maker m;

		make_whole(&m);
		p = read_first(&m, m.header->section[rows[i].end].offset);
		assert_true(p->cut);
		assert_int_equal(p->skipped, 0);
		assert_int_equal(p->lacks, rows[i].lacks);
		assert_int_equal(p->totals.bytes[FLMEM_HEAP_ALLOCATED], 3 * MIB);
		assert_int_equal(p->frame_count, 1);
		assert_non_null(strstr(p->frames[0].unresolved, "truncated before its modules"));
		if (rows[i].lacks & PART(SURVIVORS))
			assert_non_null(strstr(p->sites[0].oldest_us.unknown, "was truncated"));
		flmem_heap_cut_text(p, text, sizeof(text));
		assert_non_null(strstr(text, "its amounts are whole"));
		assert_non_null(strstr(text, "the files of native code"));
		flmem_heap_profile_free(p);
		maker_clear(&m);
	}
}

static void a_cut_of_unused_room_lacks_nothing(void **state)
{
	char text[FLMEM_HEAP_CUT_TEXT_MAX];
	struct flmem_heap_profile *p;
	struct profile_maker m;

	(void)state;
	make_whole(&m);
	p = read_first(&m, m.size - 1);
	assert_true(p->cut);
	assert_int_equal(p->lacks, 0);
	assert_string_equal(flmem_heap_cut_text(p, text, sizeof(text)),
			    "nothing that was recorded is missing");
	flmem_heap_profile_free(p);
	maker_clear(&m);
}

/* The amounts of a round are not 0 where its records are missing. */
static void rounds_of_a_cut_file_are_unknown(void **state)
{
	struct flmem_heap_request request = {
		.path = path, .by_round = true, .first_round = 1, .last_round = 1};
	struct flmem_heap_profile *p = NULL;
	struct flmem_error err = {0};
	struct profile_maker m;
	uint64_t rounds;

	(void)state;
	make_whole(&m);
	rounds = m.header->section[FLMEM_PROFILE_SECTION_ROUNDS].offset;
	maker_write(&m, path, rounds + sizeof(struct flmem_profile_round));
	assert_int_equal(flmem_heap_profile_read(&request, &p, NULL), 0);
	assert_non_null(strstr(p->unknown[FLMEM_HEAP_ALLOCATED], "truncated before"));
	assert_non_null(p->unknown[FLMEM_HEAP_FREED]);
	assert_null(p->unknown[FLMEM_HEAP_LIVE]);
	assert_int_equal(p->totals.bytes[FLMEM_HEAP_LIVE], MIB);
	flmem_heap_profile_free(p);
	request.first_round = request.last_round = 2;
	assert_int_equal(flmem_heap_profile_read(&request, &p, &err), FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "was truncated before its last rounds"));
	maker_write(&m, path, m.header->section[FLMEM_PROFILE_SECTION_LIVE].offset);
	assert_int_equal(flmem_heap_profile_read(&request, &p, &err), FLMEM_EUSAGE);
	maker_clear(&m);
}

/* A profile without samples has no amounts, wherever it ends. */
static void no_samples_are_no_amounts(void **state)
{
	struct flmem_heap_profile *p;
	struct profile_maker m;

	(void)state;
	maker_init(&m);
	p = read_first(&m, FLMEM_PROFILE_HEADER_SIZE);
	assert_null(flmem_heap_lacks_amounts(p));
	assert_int_equal(p->totals.bytes[FLMEM_HEAP_LIVE], 0);
	flmem_heap_profile_free(p);
	maker_clear(&m);
}

/* The state after a power failure: a file of the right size, with zeros in some of its blocks. */
static void zeros_in_the_place_of_records_are_a_loss(void **state)
{
	static const struct {
		enum flmem_profile_section_index lost;
		uint32_t lacks;
	} rows[] = {
		{FLMEM_PROFILE_SECTION_CELLS, PART(ROUNDS)},
		{FLMEM_PROFILE_SECTION_ROUNDS, PART(ROUNDS)},
		{FLMEM_PROFILE_SECTION_LIVE, PART(SURVIVORS)},
		{FLMEM_PROFILE_SECTION_NODES, PART(STACKS)},
		{FLMEM_PROFILE_SECTION_SITES, PART(AMOUNTS)},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct flmem_profile_section *lost;
		struct flmem_heap_profile *p;
		struct profile_maker m;

		make_whole(&m);
		m.header->totals = (struct flmem_profile_totals){
			.samples = 2, .allocated_bytes = 3 * MIB, .freed_bytes = MIB};
		lost = &m.header->section[rows[i].lost];
		memset(m.bytes + lost->offset, 0, (size_t)lost->used * lost->record_size);
		p = read_first(&m, m.size);
		assert_true(p->cut);
		assert_int_equal(p->lacks, rows[i].lacks);
		assert_string_equal(flmem_heap_cut_name(p),
				    "has zeros in place of records, as after a power failure");
		assert_non_null(strstr(flmem_heap_leaks_too_few(p), "zeros"));
		assert_int_equal(flmem_heap_lacks_amounts(p) != NULL,
				 rows[i].lost == FLMEM_PROFILE_SECTION_SITES);
		flmem_heap_profile_free(p);
		maker_clear(&m);
	}
}

/* A block has some thousand bytes; data that threads had not written yet are not a loss. */
static void a_hole_is_more_than_what_was_being_written(void **state)
{
	(void)state;
	for (uint32_t missing = 64; missing <= 65; missing++) {
		struct flmem_heap_profile *p;
		struct profile_maker m;

		make_two_sites(&m);
		m.header->totals.samples = 2;
		MADE_SECTION(&m, SITES)->used += missing;
		p = read_first(&m, m.size);
		assert_int_equal(p->lacks, missing > 64 ? PART(AMOUNTS) : 0);
		assert_int_equal(p->cut, missing > 64);
		flmem_heap_profile_free(p);
		maker_clear(&m);
	}
}

/* The file had no space for the name. */
static void code_of_an_unknown_file_has_no_name(void **state)
{
	struct flmem_heap_profile *p;
	struct profile_maker m;

	(void)state;
	maker_init(&m);
	maker_module(&m, "/lib/libtorch.so")->path = FLMEM_PROFILE_NONE;
	maker_site(&m, maker_node(&m, FLMEM_PROFILE_ROOT, maker_native(&m, 0x1000, 0)), MIB, 0);
	p = read_first(&m, m.size);
	assert_null(p->frames[0].function);
	assert_null(p->frames[0].module);
	assert_string_equal(p->frames[0].unresolved, "the file of the code is not known");
	flmem_heap_profile_free(p);
	maker_clear(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(amounts_that_were_cut_off_are_unknown),
		cmocka_unit_test(amounts_that_are_there_are_known),
		cmocka_unit_test(what_is_cut_off_behind_the_amounts_is_named),
		cmocka_unit_test(a_cut_of_unused_room_lacks_nothing),
		cmocka_unit_test(rounds_of_a_cut_file_are_unknown),
		cmocka_unit_test(no_samples_are_no_amounts),
		cmocka_unit_test(zeros_in_the_place_of_records_are_a_loss),
		cmocka_unit_test(a_hole_is_more_than_what_was_being_written),
		cmocka_unit_test(code_of_an_unknown_file_has_no_name),
	};
	int fd = mkstemp(path), failed;

	if (fd < 0)
		return 1;
	close(fd);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return failed;
}
