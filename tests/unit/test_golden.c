/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares all reports about the jobs of tests/fixtures, every setting of every role, and the table
 * of NVFlare's classes with kept texts (kept.h).
 */
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
#include <flmem/settings.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "frameworks/nvflare/nvflare_class_table.h"
#include "kept.h"

static const char *or_none(const char *text)
{
	return text ? text : "-";
}

static void put_findings(const struct flmem_recommendations *found, struct flmem_buf *text)
{
	flmem_buf_printf(text, "  %zu files\n", found->file_count);
	for (size_t i = 0; i < found->finding_count; i++) {
		const struct flmem_finding *f = &found->findings[i];

		flmem_buf_printf(text, "  %s:%u %s %s %s: %s -> %s%s: %s\n", f->file, f->line,
				 f->rule->id, flmem_severity_name(f->severity), f->path,
				 or_none(f->current), or_none(f->proposed),
				 f->fixable ? " (fix)" : "", f->message);
	}
	for (size_t i = 0; i < found->problem_count; i++)
		flmem_buf_printf(text, "  problem %s:%u %d\n", found->problems[i].file,
				 found->problems[i].line, found->problems[i].code);
}

static void findings_are_as_kept(void **state)
{
	static const char *const versions[] = {NULL, "2.7.1", "2.7.2", "2.8", "2.9"};
	static const char *const paths[] = {"jobs", "golden/inputs"};
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	(void)state;
	/* Messages name files, too, which must be the same wherever the tests are. */
	assert_int_equal(chdir(FIXTURES), 0);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(versions); i++) {
		struct flmem_recommend_options options = {.framework_version = versions[i]};
		struct flmem_recommendations found = {0};

		flmem_buf_printf(&text, "version %s\n", or_none(versions[i]));
		assert_int_equal(flmem_recommend(paths, 2, &options, &found, NULL), 0);
		put_findings(&found, &text);
		flmem_recommendations_clear(&found);
	}
	kept_compare("findings.txt", &text);
}

static void put_settings(const struct flmem_settings_request *request, struct flmem_buf *text)
{
	struct flmem_settings settings = {0};
	struct flmem_error err = {0};
	int rc = flmem_settings_make(request, &settings, &err);

	flmem_buf_printf(text, "%s %s %s %s%s%s job %d\n", flmem_role_name(request->role),
			 or_none(flmem_framework_name(request->framework)),
			 or_none(request->framework_version),
			 request->allocator == FLMEM_SETTINGS_ALLOCATOR_JEMALLOC ? "jemalloc"
										 : "glibc",
			 request->high_parallelism ? " parallel" : "", request->gpu ? " gpu" : "",
			 (int)request->job);
	if (rc)
		flmem_buf_printf(text, "  %s\n", err.message);
	for (size_t i = 0; i < settings.count; i++) {
		const struct flmem_setting *s = &settings.rows[i];

		flmem_buf_printf(text, "  %s=%s %s at %s: %s [%s] %s\n", s->name, or_none(s->value),
				 flmem_setting_origin_name(s->origin), or_none(s->where), s->reason,
				 or_none(s->source), or_none(s->note));
	}
	flmem_settings_clear(&settings);
}

static void put_role(enum flmem_role role, struct flmem_buf *text)
{
	static const char *const versions[] = {NULL, "2.7.1", "2.7.2", "2.8.1", "2.9"};
	char *const environment[] = {(char[]){"MALLOC_ARENA_MAX=0"},
				     (char[]){"MALLOC_CONF=narenas:2"}, NULL};

	for (unsigned bits = 0; bits < 16; bits++)
		for (size_t v = 0; v < FLMEM_ARRAY_SIZE(versions); v++)
			put_settings(
				&(struct flmem_settings_request){
					.role = role,
					.framework_version = versions[v],
					.framework = bits & 8 ? FLMEM_FRAMEWORK_FLOWER
							      : FLMEM_FRAMEWORK_NVFLARE,
					.high_parallelism = bits & 1,
					.gpu = bits & 2,
					.allocator = bits & 4 ? FLMEM_SETTINGS_ALLOCATOR_JEMALLOC
							      : FLMEM_SETTINGS_ALLOCATOR_GLIBC,
					.jemalloc_library = "/l/libjemalloc.so.2",
					.elsewhere = true,
					.job = (enum flmem_settings_job)(v % 4),
					.environment = bits & 1 ? environment : NULL},
				text);
}

static void settings_are_as_kept(void **state)
{
	static const enum flmem_role roles[] = {FLMEM_ROLE_SERVER, FLMEM_ROLE_CLIENT,
						FLMEM_ROLE_TRAINER, FLMEM_ROLE_SERVER_JOB};
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(roles); i++)
		put_role(roles[i], &text);
	kept_compare("settings.txt", &text);
}

/* The constructors of NVFlare, as in its packages. */
static void classes_are_as_kept(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	(void)state;
	for (size_t i = 0; i < flmem_nvflare_class_count; i++) {
		const struct flmem_nvflare_class *c = &flmem_nvflare_classes[i];

		flmem_buf_printf(&text, "%s %s since %s before %s part %d rounds %d at %s\n",
				 c->path, or_none(c->package), or_none(c->since),
				 or_none(c->before), (int)c->part, (int)c->rounds,
				 or_none(c->rounds_at));
		flmem_buf_printf(&text, "  offload %s format %s%s%s%s%s\n", or_none(c->offload),
				 or_none(c->format), c->pytorch ? " pytorch" : "",
				 c->cuda ? " cuda" : "", c->gc_ignored ? " ignored" : "",
				 c->converts ? " converts" : "");
		for (size_t side = 0; side < FLMEM_NVFLARE_SIDES; side++)
			if (c->intervals[side].exists)
				flmem_buf_printf(&text, "  side %zu: %s, %d\n", side,
						 or_none(c->intervals[side].arg),
						 (int)c->intervals[side].fallback);
	}
	kept_compare("classes.txt", &text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(findings_are_as_kept),
		cmocka_unit_test(settings_are_as_kept),
		cmocka_unit_test(classes_are_as_kept),
	};

	return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
