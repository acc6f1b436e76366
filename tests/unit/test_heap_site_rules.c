/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which stacks the rules about the code of frameworks in heap profiles match. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <flmem/recommend.h>

#include "base/cleanup.h"
#include "frameworks/framework.h"
#include "rules/heap_rules.h"

#include "profile_maker.h"

#define MIB ((uint64_t)1 << 20)

/* One frame of a stack, callers first; without a file it is native. */
struct made_frame {
	const char *function, *file;
};

static uint32_t make_stack(struct profile_maker *m, const struct made_frame *frames)
{
	uint32_t node = 0;

	for (size_t i = 0; frames[i].function; i++)
		node = maker_node(m, node,
				  frames[i].file ? maker_python(m, frames[i].function,
								frames[i].file, (uint32_t)i + 1)
						 : maker_native(m, 0x1000 + i, FLMEM_PROFILE_NONE));
	return node;
}

static void make_peak(struct profile_maker *m, const struct made_frame *frames, uint64_t bytes)
{
	struct flmem_profile_site *site = maker_site(m, make_stack(m, frames), bytes, 0);

	site->live_at_peak_bytes = bytes;
	site->peak_epoch = 1;
	m->header->peak_epoch = 1;
	m->header->totals.peak_bytes += bytes;
}

/* Reads the made profile as a file. */
static struct flmem_heap_profile *read_made(struct profile_maker *m)
{
	char path[] = "/tmp/flmem-sites.XXXXXX";
	const struct flmem_heap_request request = {.path = path, .choose_stacks = true};
	struct flmem_heap_profile *profile;
	int fd = mkstemp(path);

	maker_write(m, path, m->size);
	assert_int_equal(flmem_heap_profile_read(&request, &profile, NULL), 0);
	close(fd);
	unlink(path);
	maker_clear(m);
	return profile;
}

/* Returns the findings of all rules about frameworks' code. */
static void find_in(struct profile_maker *m, const char *release,
		    struct flmem_recommendations *found)
{
	struct flmem_version_number number = {0};
	struct flmem_heap_profile *profile = read_made(m);

	*found = (struct flmem_recommendations)FLMEM_RECOMMENDATIONS_INIT;
	if (release)
		assert_int_equal(flmem_version_number_parse(release, &number, NULL), 0);
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++)
		if ((*f)->heap_rules)
			assert_int_equal(flmem_heap_site_rules_run((*f)->heap_rules, profile, "p",
								   &number, found, NULL),
					 0);
	flmem_heap_profile_free(profile);
}

static const struct made_frame others[] = {{"main", "/srv/train.py"}, {0}};

/* Makes a profile with these bytes at the peak in one stack, and others besides. */
static void find_in_stack(const struct made_frame *frames, uint64_t bytes, uint64_t rest,
			  const char *release, struct flmem_recommendations *found)
{
	struct profile_maker m;

	maker_init(&m);
	make_peak(&m, frames, bytes);
	if (rest)
		make_peak(&m, others, rest);
	find_in(&m, release, found);
}

#define SITE "/opt/env/lib/python3.11/site-packages/"

static const struct made_frame received[] = {
	{"run", SITE "nvflare/app_common/workflows/fedavg.py"},
	{"TensorConsumer.consume_items", SITE "nvflare/app_opt/pt/tensor_downloader.py"},
	{"load", SITE "safetensors/torch.py"},
	{"_view2torch", SITE "safetensors/torch.py"},
	{0}};

static void a_site_names_its_setting(void **state)
{
	struct flmem_recommendations found;

	(void)state;
	find_in_stack(received, 30 * MIB, 70 * MIB, NULL, &found);
	assert_int_equal(found.finding_count, 1);
	assert_string_equal(found.findings[0].rule->id, "NVF-HEAP-RECEIVED");
	assert_string_equal(found.findings[0].path, "workflows[].args.enable_tensor_disk_offload");
	assert_string_equal(found.findings[0].proposed, "true");
	/* The profile does not show the setting. */
	assert_string_equal(found.findings[0].current, "unknown");
	assert_non_null(strstr(found.findings[0].message, "load (safetensors/torch.py:3)"));
	assert_non_null(strstr(found.findings[0].message, "30 MiB, 30 % of the peak"));
	flmem_recommendations_clear(&found);
}

/* CPython before 3.11 has no names of classes; native frames lie in between. */
static void short_names_and_native_frames_are_no_obstacle(void **state)
{
	static const struct made_frame frames[] = {
		{"consume_items", SITE "nvflare/app_opt/pt/tensor_downloader.py"},
		{"native", NULL},
		{"load", SITE "safetensors/torch.py"},
		{"native", NULL},
		{0}};
	struct flmem_recommendations found;

	(void)state;
	find_in_stack(frames, 30 * MIB, 0, NULL, &found);
	assert_int_equal(found.finding_count, 1);
	flmem_recommendations_clear(&found);
}

static void assert_none(const struct made_frame *frames, uint64_t bytes, uint64_t rest)
{
	struct flmem_recommendations found;

	find_in_stack(frames, bytes, rest, NULL, &found);
	assert_int_equal(found.finding_count, 0);
	flmem_recommendations_clear(&found);
}

static void what_only_looks_similar_has_no_finding(void **state)
{
	static const struct made_frame other_caller[] = {
		{"read", "/srv/train.py"}, {"load", SITE "safetensors/torch.py"}, {0}};
	static const struct made_frame not_direct[] = {
		{"consume_items", SITE "nvflare/app_opt/pt/tensor_downloader.py"},
		{"other", "/srv/other.py"},
		{"load", SITE "safetensors/torch.py"},
		{0}};
	static const struct made_frame other_package[] = {
		{"numerical_params_diff", "/srv/my_nvflare/client/utils.py"}, {0}};
	static const struct made_frame other_name[] = {
		{"my_numerical_params_diff", SITE "nvflare/client/utils.py"}, {0}};

	(void)state;
	assert_none(other_caller, 30 * MIB, 0);
	assert_none(not_direct, 30 * MIB, 0);
	assert_none(other_package, 30 * MIB, 0);
	assert_none(other_name, 30 * MIB, 0);
	assert_none(received, 9 * MIB, 91 * MIB); /* a small part of the peak */
	assert_none(received, MIB / 2, 0);	  /* a small program */
}

static void recursion_counts_once(void **state)
{
	static const struct made_frame frames[] = {
		{"numerical_params_diff", "nvflare/client/utils.py"},
		{"numerical_params_diff", "nvflare/client/utils.py"},
		{0}};
	struct flmem_recommendations found;

	(void)state;
	find_in_stack(frames, 30 * MIB, 0, NULL, &found);
	assert_int_equal(found.finding_count, 1);
	assert_true(found.finding_count &&
		    strstr(found.findings[0].message, "30 MiB, 100 % of the peak"));
	flmem_recommendations_clear(&found);
}

static void a_release_before_it_has_no_finding(void **state)
{
	struct flmem_recommendations found;

	(void)state;
	find_in_stack(received, 30 * MIB, 0, "2.7.2", &found);
	assert_int_equal(found.finding_count, 0);
	flmem_recommendations_clear(&found);
}

/* Each row is complete, and `flmem_recommend_rule()` lists it. */
static void all_rows_are_complete_and_listed(void **state)
{
	(void)state;
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++)
		for (size_t i = 0; (*f)->heap_rules && i < (*f)->heap_rules->count; i++) {
			const struct flmem_heap_site_row *row = &(*f)->heap_rules->rows[i];
			const struct flmem_rule *rule;
			bool listed = false;

			assert_true(row->place.function && row->place.file && row->path);
			assert_int_equal(!row->caller.function, !row->caller.file);
			assert_int_equal(row->rule.framework, (*f)->framework);
			for (size_t k = 0; (rule = flmem_recommend_rule(k)); k++)
				listed |= rule == &row->rule;
			assert_true(listed);
		}
}

static bool has_finding(const struct made_frame *frames, const char *id)
{
	struct flmem_recommendations found;
	bool has = false;

	find_in_stack(frames, 30 * MIB, 0, NULL, &found);
	for (size_t i = 0; i < found.finding_count; i++)
		has |= strcmp(found.findings[i].rule->id, id) == 0;
	flmem_recommendations_clear(&found);
	return has;
}

static void check_place(const struct flmem_heap_site_row *row)
{
	const struct flmem_heap_place *place = &row->place, *caller = &row->caller;
	char path[512], calling[512];
	struct made_frame frames[] = {{caller->function ? caller->function : "caller", calling},
				      {place->function, path},
				      {"allocate", "/srv/other.py"},
				      {0}};

	snprintf(calling, sizeof(calling), SITE "%s", caller->file ? caller->file : "start.py");
	snprintf(path, sizeof(path), SITE "%s", place->file);
	if (!has_finding(frames, row->rule.id))
		fail_msg("%s is not found at %s", row->rule.id, path);
	snprintf(path, sizeof(path), "/srv/x%s", strrchr(place->file, '/'));
	if (has_finding(frames, row->rule.id))
		fail_msg("%s is found at %s", row->rule.id, path);
}

static void each_row_is_found_at_its_place_and_nowhere_else(void **state)
{
	size_t checked = 0;

	(void)state;
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++)
		for (size_t i = 0; (*f)->heap_rules && i < (*f)->heap_rules->count; i++) {
			check_place(&(*f)->heap_rules->rows[i]);
			checked++;
		}
	assert_true(checked >= 8);
}

/*
 * Returns the findings of the rules about any program, in a profile with one stack of so many
 * bytes.
 */
static void find_any(const struct made_frame *frames, uint64_t peak,
		     struct flmem_recommendations *found)
{
	struct flmem_heap_profile *profile;
	struct profile_maker m;

	maker_init(&m);
	make_peak(&m, frames, peak);
	make_peak(&m, others, 10 * MIB);
	profile = read_made(&m);
	*found = (struct flmem_recommendations)FLMEM_RECOMMENDATIONS_INIT;
	assert_int_equal(flmem_heap_rules_run(profile, "p", found, NULL), 0);
	flmem_heap_profile_free(profile);
}

static void the_line_that_holds_the_peak_is_named(void **state)
{
	static const struct made_frame own[] = {{"main", "/srv/train.py"},
						{"collect", "/srv/train.py"},
						{"copy", SITE "numpy/core.py"},
						{0}};
	struct flmem_recommendations found;

	(void)state;
	find_any(own, 30 * MIB, &found);
	assert_int_equal(found.finding_count, 1);
	assert_string_equal(found.findings[0].rule->id, "PROFILE-HOLDS");
	assert_string_equal(found.findings[0].path, "peak");
	assert_non_null(
		strstr(found.findings[0].message, "/numpy/core.py:3): 30 MiB, 75 % of the peak"));
	assert_non_null(strstr(found.findings[0].message, "; own line: collect (/srv/train.py:2)"));
	flmem_recommendations_clear(&found);
	find_any(own, 9 * MIB, &found);
	assert_int_equal(found.finding_count, 1); /* main() alone */
	assert_null(strstr(found.findings[0].message, "own line"));
	flmem_recommendations_clear(&found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row_is_found_at_its_place_and_nowhere_else),
		cmocka_unit_test(a_site_names_its_setting),
		cmocka_unit_test(the_line_that_holds_the_peak_is_named),
		cmocka_unit_test(short_names_and_native_frames_are_no_obstacle),
		cmocka_unit_test(what_only_looks_similar_has_no_finding),
		cmocka_unit_test(recursion_counts_once),
		cmocka_unit_test(a_release_before_it_has_no_finding),
		cmocka_unit_test(all_rows_are_complete_and_listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
