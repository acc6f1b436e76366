/* SPDX-License-Identifier: Apache-2.0 */
/* Tests files of heap profiles: reading, rounds, kinds of frames, garbled fields. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>

#include <cmocka.h>

#include <flmem/heap_report.h>

#include "base/cleanup.h"
#include "profile_maker.h"

#define MIB (UINT64_C(1) << 20)

static char path[] = "/tmp/flmem-heap-profile-XXXXXX";

/* main -> train -> collect and main -> (native) alloc; five rounds, `collect` keeps 1 MiB each. */
static void make_sample(struct profile_maker *m)
{
	uint32_t main_frame, train, collect, native, nodes[4];

	maker_init(m);
	main_frame = maker_python(m, "main", "/app/server.py", 3);
	train = maker_python(m, "train", "/app/server.py", 20);
	collect = maker_python(m, "collect", "/app/a-file-name-that-needs-two-blocks.py", 7);
	maker_module(m, "/nonexistent/libx.so")->bias = 0x1000;
	native = maker_native(m, 0x1235, 0);
	nodes[0] = maker_node(m, FLMEM_PROFILE_ROOT, main_frame);
	nodes[1] = maker_node(m, nodes[0], train);
	nodes[2] = maker_node(m, nodes[1], collect);
	nodes[3] = maker_node(m, nodes[0], native);
	maker_site(m, nodes[2], 6 * MIB, 0);
	*maker_site(m, nodes[3], 100 * MIB, 90 * MIB) = (struct flmem_profile_site){
		.state = FLMEM_PROFILE_READY,
		.node = nodes[3],
		.totals = {.allocated_bytes = 100 * MIB, .freed_bytes = 90 * MIB},
		.peak_epoch = m->header->peak_epoch,
		.live_at_peak_bytes = 40 * MIB,
	};
	maker_round(m, FLMEM_PROFILE_ROUND_NONE, 0);
	maker_live(m, 0, FLMEM_PROFILE_ROUND_NONE, 500, 1 * MIB);
	maker_cell(m, 0, FLMEM_PROFILE_ROUND_NONE, MIB, 0);
	for (uint32_t round = 0; round < 5; round++) {
		maker_round(m, round, 1000 * (round + 1));
		maker_cell(m, 0, round, MIB, 0);
		maker_cell(m, 1, round, 20 * MIB, round ? 20 * MIB : 10 * MIB);
		/* Two records of a round count as one. */
		maker_live(m, 0, round, 1000 * (round + 1) + 10, MIB / 2);
		maker_live(m, 0, round, 1000 * (round + 1) + 20, MIB / 2);
		maker_moment(m, round, 1000 * (round + 1), 200 * MIB, 100 * MIB);
	}
	maker_live(m, 1, 4, 5500, 10 * MIB);
	m->header->end_ms = 6000;
}

static int read_file(const struct profile_maker *m, struct flmem_heap_request request,
		     struct flmem_heap_profile **ret_profile, struct flmem_error *err)
{
	maker_write(m, path, m->size);
	request.path = path;
	return flmem_heap_profile_read(&request, ret_profile, err);
}

static struct flmem_heap_profile *read_sample(struct flmem_heap_request request)
{
	struct flmem_heap_profile *p = NULL;
	struct flmem_error err = {0};
	struct profile_maker m;

	make_sample(&m);
	if (read_file(&m, request, &p, &err))
		fail_msg("%s", err.message);
	maker_clear(&m);
	return p;
}

static const struct flmem_heap_frame *frame_of(const struct flmem_heap_profile *p, uint32_t node)
{
	assert_int_not_equal(node, 0);
	return &p->frames[p->nodes[node].frame];
}

static void facts_and_amounts_are_read(void **state)
{
	struct flmem_heap_profile *p = read_sample((struct flmem_heap_request){0});

	(void)state;
	assert_string_equal(p->command, "python3 server.py");
	assert_int_equal(p->ending, FLMEM_HEAP_ENDED);
	assert_int_equal(p->duration_us, 6000000);
	assert_int_equal(p->site_count, 2);
	assert_int_equal(p->node_count, 5);
	assert_int_equal(p->skipped, 0);
	assert_int_equal(p->round_count, 6);
	assert_non_null(p->rounds[0].number.unknown);
	assert_int_equal(p->rounds[5].number.value, 4);
	assert_int_equal(p->totals.bytes[FLMEM_HEAP_ALLOCATED], 106 * MIB);
	assert_int_equal(p->totals.bytes[FLMEM_HEAP_FREED], 90 * MIB);
	assert_int_equal(p->totals.bytes[FLMEM_HEAP_LIVE], 16 * MIB);
	/* The first site has not changed since the peak: its live memory was live then. */
	assert_int_equal(p->totals.bytes[FLMEM_HEAP_PEAK], 46 * MIB);
	assert_int_equal(p->sites[0].amounts.count[FLMEM_HEAP_LIVE], 3);
	assert_int_equal(p->sites[0].oldest_us.value, 5500000);
	assert_int_equal(p->point_count, 5);
	flmem_heap_profile_free(p);
}

static void stacks_lead_from_callee_to_caller(void **state)
{
	struct flmem_heap_profile *p = read_sample((struct flmem_heap_request){0});
	uint32_t node = p->sites[0].node;
	const struct flmem_heap_frame *frame = frame_of(p, node);

	(void)state;
	assert_string_equal(frame->function, "collect");
	assert_string_equal(frame->file, "/app/a-file-name-that-needs-two-blocks.py");
	assert_int_equal(frame->line, 7);
	node = p->nodes[node].parent;
	assert_string_equal(frame_of(p, node)->function, "train");
	node = p->nodes[node].parent;
	assert_string_equal(frame_of(p, node)->function, "main");
	assert_int_equal(p->nodes[node].parent, 0);
	/* The call is before the return address. */
	frame = frame_of(p, p->sites[1].node);
	assert_false(frame->python);
	assert_int_equal(frame->offset, 0x234);
	assert_string_equal(frame->module, "/nonexistent/libx.so");
	assert_null(frame->function);
	assert_non_null(frame->unresolved);
	flmem_heap_profile_free(p);
}

static void frames_of_one_kind_remain(void **state)
{
	struct flmem_heap_profile *p =
		read_sample((struct flmem_heap_request){.stacks = FLMEM_HEAP_STACKS_PYTHON});

	(void)state;
	assert_int_equal(p->node_count, 4);
	assert_string_equal(frame_of(p, p->sites[1].node)->function, "main");
	flmem_heap_profile_free(p);
	p = read_sample((struct flmem_heap_request){.stacks = FLMEM_HEAP_STACKS_NATIVE});
	assert_int_equal(p->node_count, 2);
	assert_int_equal(p->sites[0].node, 0);
	assert_int_equal(p->totals.bytes[FLMEM_HEAP_ALLOCATED], 106 * MIB);
	flmem_heap_profile_free(p);
}

static void rounds_are_selected(void **state)
{
	struct flmem_heap_profile *p = read_sample(
		(struct flmem_heap_request){.by_round = true, .first_round = 1, .last_round = 3});
	struct flmem_heap_request none = {.by_round = true, .first_round = 9, .last_round = 9};
	struct flmem_error err = {0};
	struct profile_maker m;

	(void)state;
	assert_int_equal(p->totals.bytes[FLMEM_HEAP_ALLOCATED], 63 * MIB);
	assert_int_equal(p->totals.bytes[FLMEM_HEAP_FREED], 60 * MIB);
	assert_int_equal(p->totals.bytes[FLMEM_HEAP_LIVE], 3 * MIB);
	assert_non_null(p->unknown[FLMEM_HEAP_PEAK]);
	assert_int_equal(p->totals.bytes[FLMEM_HEAP_PEAK], 0);
	flmem_heap_profile_free(p);

	make_sample(&m);
	assert_int_equal(read_file(&m, none, &p, &err), FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "rounds 0 to 4"));
	/* There was no space for cells from round 2 on. */
	m.header->cells_full_round = 2;
	m.header->dropped[FLMEM_PROFILE_DROP_CELLS_FULL] = 1;
	none.first_round = 1;
	none.last_round = 2;
	assert_int_equal(read_file(&m, none, &p, &err), 0);
	assert_non_null(p->unknown[FLMEM_HEAP_ALLOCATED]);
	assert_null(p->unknown[FLMEM_HEAP_LIVE]);
	flmem_heap_profile_free(p);
	maker_clear(&m);
}

static const struct flmem_heap_row *row_named(const struct flmem_heap_profile *p,
					      const struct flmem_heap_row *rows, size_t count,
					      const char *function)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].frame != FLMEM_HEAP_NO_FRAME && p->frames[rows[i].frame].function &&
		    strcmp(p->frames[rows[i].frame].function, function) == 0)
			return &rows[i];
	fail_msg("no row of %s", function);
	return NULL;
}

static void recursion_counts_once(void **state)
{
	struct flmem_heap_profile *p = NULL;
	struct flmem_heap_row *rows;
	struct profile_maker m;
	uint32_t f, g, node = FLMEM_PROFILE_ROOT;
	size_t count;

	(void)state;
	maker_init(&m);
	f = maker_python(&m, "f", "a.py", 1);
	g = maker_python(&m, "g", "a.py", 9);
	for (unsigned i = 0; i < 6; i++)
		node = maker_node(&m, node, i % 2 ? g : f);
	maker_site(&m, node, 8 * MIB, 0);
	maker_site(&m, maker_node(&m, node, f), 2 * MIB, 0);
	assert_int_equal(read_file(&m, (struct flmem_heap_request){0}, &p, NULL), 0);
	assert_int_equal(
		flmem_heap_rows(p, FLMEM_HEAP_BY_FUNCTION, FLMEM_HEAP_LIVE, &rows, &count, NULL),
		0);
	assert_int_equal(row_named(p, rows, count, "f")->total.bytes[FLMEM_HEAP_LIVE], 10 * MIB);
	assert_int_equal(row_named(p, rows, count, "f")->own.bytes[FLMEM_HEAP_LIVE], 2 * MIB);
	assert_int_equal(row_named(p, rows, count, "g")->total.bytes[FLMEM_HEAP_LIVE], 10 * MIB);
	assert_int_equal(row_named(p, rows, count, "g")->own.bytes[FLMEM_HEAP_LIVE], 8 * MIB);
	free(rows);
	flmem_heap_profile_free(p);
	maker_clear(&m);
}

static void leaks_are_those_that_grow_by_round(void **state)
{
	struct flmem_heap_profile *p = read_sample((struct flmem_heap_request){0});
	struct flmem_heap_leaks leaks;

	(void)state;
	assert_int_equal(flmem_heap_leaks_find(p, &leaks, NULL), 0);
	assert_true(leaks.by_round);
	assert_int_equal(leaks.count, 1);
	assert_string_equal(frame_of(p, p->sites[leaks.rows[0].site].node)->function, "collect");
	assert_true(leaks.rows[0].growth_bytes > 0.99 * MIB);
	assert_true(leaks.rows[0].growth_bytes < 1.01 * MIB);
	assert_true(leaks.rows[0].confidence > 0.95);
	assert_int_equal(leaks.rows[0].survived_in, 5);
	flmem_heap_leaks_clear(&leaks);
	/*
	 * A running program's last round may go on, and a killed one's was cut: four are complete.
	 */
	for (unsigned killed = 0; killed < 2; killed++) {
		p->ending = killed ? FLMEM_HEAP_KILLED : FLMEM_HEAP_RUNNING;
		assert_int_equal(flmem_heap_leaks_find(p, &leaks, NULL), 0);
		assert_int_equal(leaks.count, 0);
		assert_non_null(leaks.too_few);
		flmem_heap_leaks_clear(&leaks);
	}
	flmem_heap_profile_free(p);
}

/* A site that grew once, and one that is replaced each round, are not leaks. */
static void steps_and_turnover_are_no_leaks(void **state)
{
	struct flmem_heap_profile *p = NULL;
	struct flmem_heap_leaks leaks;
	struct profile_maker m;

	(void)state;
	maker_init(&m);
	for (unsigned i = 0; i < 2; i++)
		maker_site(&m,
			   maker_node(&m, FLMEM_PROFILE_ROOT,
				      maker_python(&m, i ? "turnover" : "step", "a.py", 1)),
			   20 * MIB, i ? 19 * MIB : 0);
	for (uint32_t round = 0; round < 20; round++) {
		maker_round(&m, round, 1000 * round);
		if (round == 9) {
			maker_cell(&m, 0, round, 20 * MIB, 0);
			maker_live(&m, 0, round, 1000 * round, 20 * MIB);
		}
		maker_cell(&m, 1, round, MIB, round ? MIB : 0);
	}
	maker_live(&m, 1, 19, 19000, MIB);
	assert_int_equal(read_file(&m, (struct flmem_heap_request){0}, &p, NULL), 0);
	assert_int_equal(flmem_heap_leaks_find(p, &leaks, NULL), 0);
	assert_null(leaks.too_few);
	assert_int_equal(leaks.count, 0);
	flmem_heap_leaks_clear(&leaks);
	flmem_heap_profile_free(p);
	maker_clear(&m);
}

/* Threads that add the same record at the same moment may both write it. */
static void duplicates_are_merged(void **state)
{
	struct flmem_heap_profile *p = NULL;
	struct profile_maker m;
	uint32_t frames[2], nodes[2];

	(void)state;
	maker_init(&m);
	for (unsigned i = 0; i < 2; i++) {
		frames[i] = maker_python(&m, "f", "a.py", 1);
		nodes[i] = maker_node(&m, FLMEM_PROFILE_ROOT, frames[i]);
		maker_site(&m, nodes[i], MIB, 0);
		maker_round(&m, 4, 100 + i);
		maker_cell(&m, i, 4, MIB, 0);
		maker_live(&m, i, 4, 100, MIB);
	}
	assert_int_equal(read_file(&m, (struct flmem_heap_request){0}, &p, NULL), 0);
	assert_int_equal(p->frame_count, 1);
	assert_int_equal(p->node_count, 2);
	assert_int_equal(p->site_count, 1);
	assert_int_equal(p->sites[0].amounts.bytes[FLMEM_HEAP_LIVE], 2 * MIB);
	assert_int_equal(p->round_count, 1);
	assert_int_equal(p->change_count, 1);
	assert_int_equal(p->changes[0].allocated_bytes, 2 * MIB);
	flmem_heap_profile_free(p);
	maker_clear(&m);
}

/* A later parent, or the node itself, could close a cycle. */
static void cycles_are_cut(void **state)
{
	struct flmem_heap_profile *p = NULL;
	struct profile_maker m;
	uint32_t frame, a, b;

	(void)state;
	maker_init(&m);
	frame = maker_python(&m, "f", "a.py", 1);
	a = maker_node(&m, 2, frame);
	b = maker_node(&m, a, frame);
	maker_node(&m, 3, frame);
	maker_node(&m, UINT32_MAX, UINT32_MAX);
	maker_site(&m, b, MIB, 0);
	maker_site(&m, 77, MIB, 0);
	assert_int_equal(read_file(&m, (struct flmem_heap_request){0}, &p, NULL), 0);
	assert_int_equal(p->nodes[1].parent, 0);
	assert_int_equal(p->totals.bytes[FLMEM_HEAP_LIVE], 2 * MIB);
	assert_true(p->skipped >= 4);
	flmem_heap_profile_free(p);
	maker_clear(&m);
}

static void refuses(const struct profile_maker *m, size_t size, const char *why)
{
	struct flmem_heap_request request = {.path = path};
	struct flmem_heap_profile *p = NULL;
	struct flmem_error err = {0};

	maker_write(m, path, size);
	assert_int_equal(flmem_heap_profile_read(&request, &p, &err), FLMEM_EUSAGE);
	assert_null(p);
	if (!strstr(err.message, why))
		fail_msg("'%s' does not contain '%s'", err.message, why);
}

static void other_files_are_refused(void **state)
{
	struct profile_maker m;

	(void)state;
	make_sample(&m);
	refuses(&m, 0, "not a heap profile");
	refuses(&m, FLMEM_PROFILE_HEADER_SIZE - 1, "truncated");
	m.header->version = 2;
	refuses(&m, m.size, "version 2");
	m.header->version = FLMEM_PROFILE_VERSION;
	MADE_SECTION(&m, SITES)->offset += 8;
	refuses(&m, m.size, "'sites' and 'cells' overlap");
	MADE_SECTION(&m, SITES)->offset -= 8;
	m.header->phase = FLMEM_PROFILE_PREPARED;
	refuses(&m, m.size, "has not started");
	m.header->phase = FLMEM_PROFILE_REFUSED;
	snprintf(m.header->refusal, sizeof(m.header->refusal), "no room\n");
	refuses(&m, m.size, "no room\\x0a");
	m.header->phase = 9;
	refuses(&m, m.size, "phase");
	m.bytes[0] = 'x';
	refuses(&m, m.size, "not a heap profile");
	maker_clear(&m);
}

/* Reads any profile, and makes every report of it. */
static void use_profile(struct flmem_heap_profile *p)
{
	struct flmem_heap_leaks leaks;
	FLMEM_AUTO_FREE char *page = flmem_heap_page_html(p, p, FLMEM_HEAP_LIVE);

	assert_non_null(page);
	for (enum flmem_heap_format f = 0; f <= FLMEM_HEAP_FORMAT_JSON; f++) {
		FLMEM_AUTO_FREE char *bytes = NULL;
		size_t length;

		assert_int_equal(flmem_heap_export(p, f, FLMEM_HEAP_LIVE, &bytes, &length, NULL),
				 0);
	}
	assert_int_equal(flmem_heap_leaks_find(p, &leaks, NULL), 0);
	flmem_heap_leaks_clear(&leaks);
	for (size_t i = 1; i < p->node_count; i++)
		assert_true(p->nodes[i].parent < i);
	flmem_heap_profile_free(p);
}

static void try_file(const struct profile_maker *m, size_t size)
{
	struct flmem_heap_request request = {.path = path, .no_symbols = true};
	struct flmem_heap_profile *p = NULL;
	struct flmem_error err = {0};

	maker_write(m, path, size);
	if (flmem_heap_profile_read(&request, &p, &err) == 0)
		use_profile(p);
	else
		assert_true(err.message[0] != '\0');
}

static void garbled_headers_are_survived(void **state)
{
	static const uint32_t values[] = {0, 1, 0x7fffffff, UINT32_MAX};
	struct profile_maker m;

	(void)state;
	make_sample(&m);
	for (size_t at = 0; at < sizeof(*m.header); at += sizeof(uint32_t)) {
		uint32_t kept;

		/* Texts are alike everywhere. */
		if (at > offsetof(struct flmem_profile_header, program) + 64 && at % 64)
			continue;
		memcpy(&kept, m.bytes + at, sizeof(kept));
		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(values); i++) {
			memcpy(m.bytes + at, &values[i], sizeof(kept));
			try_file(&m, m.size);
		}
		memcpy(m.bytes + at, &kept, sizeof(kept));
	}
	maker_clear(&m);
}

static void garbled_records_are_survived(void **state)
{
	static const uint32_t values[] = {0, 1, 5, UINT32_MAX};
	struct profile_maker m;

	(void)state;
	make_sample(&m);
	for (uint32_t section = 0; section < m.header->sections; section++) {
		const struct flmem_profile_section *s = &m.header->section[section];
		size_t end = (s->used < 3 ? s->used : 3) * (size_t)s->record_size;

		for (size_t at = s->offset; at < s->offset + end; at += sizeof(uint32_t)) {
			uint32_t kept;

			memcpy(&kept, m.bytes + at, sizeof(kept));
			for (size_t i = 0; i < FLMEM_ARRAY_SIZE(values); i++) {
				memcpy(m.bytes + at, &values[i], sizeof(kept));
				try_file(&m, m.size);
			}
			memcpy(m.bytes + at, &kept, sizeof(kept));
		}
	}
	maker_clear(&m);
}

static void cut_files_are_survived(void **state)
{
	struct flmem_heap_request request = {.path = path};
	struct flmem_heap_profile *p = NULL;
	struct profile_maker m;

	(void)state;
	make_sample(&m);
	for (size_t size = 0; size < m.size; size += size < FLMEM_PROFILE_HEADER_SIZE ? 509 : 997)
		try_file(&m, size);
	maker_write(&m, path, m.size - 1);
	assert_int_equal(flmem_heap_profile_read(&request, &p, NULL), 0);
	assert_true(p->cut);
	assert_non_null(strstr(flmem_heap_leaks_too_few(p), "truncated"));
	flmem_heap_profile_free(p);
	maker_clear(&m);
}

/* The names of this program's functions, from its own file. */
static void native_frames_get_names(void **state)
{
	struct flmem_heap_profile *p = NULL;
	struct flmem_profile_module *module;
	struct profile_maker m;
	char own[512] = "";

	(void)state;
	assert_true(readlink("/proc/self/exe", own, sizeof(own) - 1) > 0);
	maker_init(&m);
	module = maker_module(&m, own);
	/* Program headers follow the header of the file. */
	module->bias = getauxval(AT_PHDR) - sizeof(Elf64_Ehdr);
	maker_site(&m,
		   maker_node(&m, FLMEM_PROFILE_ROOT,
			      maker_native(&m, (uintptr_t)flmem_heap_profile_read + 2, 0)),
		   MIB, 0);
	assert_int_equal(read_file(&m, (struct flmem_heap_request){0}, &p, NULL), 0);
	assert_non_null(p->frames[0].function);
	assert_string_equal(p->frames[0].function, "flmem_heap_profile_read");
	flmem_heap_profile_free(p);
	/* It is another build of the file: its names would be wrong. */
	module->build_id_size = 4;
	assert_int_equal(read_file(&m, (struct flmem_heap_request){0}, &p, NULL), 0);
	assert_null(p->frames[0].function);
	assert_non_null(strstr(p->frames[0].unresolved, "build-id"));
	flmem_heap_profile_free(p);
	maker_clear(&m);
}

static void functions_are_compared_by_name(void **state)
{
	struct flmem_heap_comparison comparison;
	struct flmem_heap_profile *p[2] = {NULL, NULL};

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		struct profile_maker m;

		maker_init(&m);
		maker_site(&m,
			   maker_node(&m, FLMEM_PROFILE_ROOT, maker_python(&m, "f", "a.py", 5 + i)),
			   (9 - 5 * i) * MIB, 0);
		maker_site(&m,
			   maker_node(&m, FLMEM_PROFILE_ROOT,
				      maker_python(&m, i ? "new" : "old", "a.py", 9)),
			   (1 + i) * MIB, 0);
		assert_int_equal(read_file(&m, (struct flmem_heap_request){0}, &p[i], NULL), 0);
		maker_clear(&m);
	}
	assert_int_equal(flmem_heap_compare(p[0], p[1], FLMEM_HEAP_LIVE, &comparison, NULL), 0);
	assert_string_equal(comparison.rows[0].frame.function, "f");
	assert_int_equal(comparison.rows[0].own[0].bytes[FLMEM_HEAP_LIVE], 9 * MIB);
	assert_int_equal(comparison.rows[0].own[1].bytes[FLMEM_HEAP_LIVE], 4 * MIB);
	assert_string_equal(comparison.rows[1].frame.function, "new");
	assert_string_equal(comparison.rows[2].frame.function, "old");
	flmem_heap_comparison_clear(&comparison);
	flmem_heap_profile_free(p[0]);
	flmem_heap_profile_free(p[1]);
}

static void small_branches_are_left_out(void **state)
{
	struct flmem_heap_profile *p = read_sample((struct flmem_heap_request){0});
	struct flmem_heap_tree_request request = {.measure = FLMEM_HEAP_LIVE, .sites_max = 1};
	struct flmem_heap_tree tree;

	(void)state;
	assert_int_equal(flmem_heap_tree_make(p, &request, &tree, NULL), 0);
	assert_int_equal(tree.count, 3); /* all, main, the native frame with 10 MiB */
	assert_int_equal(tree.branches[1].total.bytes[FLMEM_HEAP_LIVE], 16 * MIB);
	assert_int_equal(tree.branches[2].own.bytes[FLMEM_HEAP_LIVE], 10 * MIB);
	flmem_heap_tree_clear(&tree);
	request = (struct flmem_heap_tree_request){.branches_max = 3};
	assert_int_equal(flmem_heap_tree_make(p, &request, &tree, NULL), 0);
	assert_true(tree.count <= 3);
	assert_int_equal(tree.count + tree.left_out, p->node_count);
	flmem_heap_tree_clear(&tree);
	flmem_heap_profile_free(p);
}

static int make_path(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

static int remove_path(void **state)
{
	(void)state;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(facts_and_amounts_are_read),
		cmocka_unit_test(stacks_lead_from_callee_to_caller),
		cmocka_unit_test(frames_of_one_kind_remain),
		cmocka_unit_test(rounds_are_selected),
		cmocka_unit_test(recursion_counts_once),
		cmocka_unit_test(leaks_are_those_that_grow_by_round),
		cmocka_unit_test(steps_and_turnover_are_no_leaks),
		cmocka_unit_test(duplicates_are_merged),
		cmocka_unit_test(cycles_are_cut),
		cmocka_unit_test(other_files_are_refused),
		cmocka_unit_test(garbled_headers_are_survived),
		cmocka_unit_test(garbled_records_are_survived),
		cmocka_unit_test(cut_files_are_survived),
		cmocka_unit_test(native_frames_get_names),
		cmocka_unit_test(functions_are_compared_by_name),
		cmocka_unit_test(small_branches_are_left_out),
	};

	return cmocka_run_group_tests(tests, make_path, remove_path);
}
