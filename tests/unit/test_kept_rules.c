/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings in many small folders, and in the calls and configurations of every class of NVFlare
 * with values at the bounds, held against kept texts (kept.h).
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

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "frameworks/nvflare/nvflare_class_table.h"
#include "kept.h"
#include "tree.h"

#define SEPARATOR "%%%%%\n"
#define FILE_MARK "==> "
#define VERSIONS  "@versions "

/* At most so many bytes: what matters is which rule fired, where, and with which numbers. */
static void put_text(struct flmem_buf *out, const char *text, size_t most)
{
	for (; *text && most; text++, most--)
		if (*text == '\n')
			flmem_buf_puts(out, "\\n");
		else
			flmem_buf_putc(out, *text);
}

/* The message without the part that is the rule's own. */
static const char *detail_of(const struct flmem_finding *f)
{
	size_t length = strlen(f->rule->message);

	return strncmp(f->message, f->rule->message, length) == 0 ? f->message + length
								  : f->message;
}

static void put_fact(struct flmem_buf *out, const char *name, const struct flmem_u64 *value)
{
	if (!value->unknown)
		flmem_buf_printf(out, " %s %llu", name, (unsigned long long)value->value);
	else if (!strstr(value->unknown, "no "))
		flmem_buf_printf(out, " %s (%.20s)", name, value->unknown);
}

static void put_facts(const struct flmem_recommendations *r, struct flmem_buf *out)
{
	flmem_buf_printf(out, "  %zu", r->file_count);
	put_fact(out, "server", &r->server_gc_rounds);
	put_fact(out, "client", &r->client_gc_rounds);
	put_fact(out, "clear", &r->clear_cache);
	put_fact(out, "cuda", &r->cuda_empty_cache);
	if (r->trainers.count)
		flmem_buf_printf(out, " trainers %zu %zu %zu-%zu %zu", r->trainers.count,
				 r->trainers.unclear, (size_t)r->trainers.gc_lowest,
				 (size_t)r->trainers.gc_highest, r->trainers.cuda_count);
	if (r->silenced_count)
		flmem_buf_printf(out, " silenced %zu", r->silenced_count);
	flmem_buf_puts(out, r->disk_offload ? " offload\n" : "\n");
}

static void put_finding(const struct flmem_finding *f, struct flmem_buf *out)
{
	flmem_buf_printf(out, "  %s:%u %s %c %s", flmem_text_basename(f->file), f->line,
			 f->rule->id, *flmem_severity_name(f->severity), f->path);
	if (f->current) {
		flmem_buf_putc(out, ' ');
		put_text(out, f->current, 24);
	}
	if (f->proposed) {
		flmem_buf_puts(out, " -> ");
		put_text(out, f->proposed, 40);
	}
	flmem_buf_puts(out, f->fixable ? " (fix)" : "");
	put_text(out, detail_of(f), 60);
	flmem_buf_putc(out, '\n');
}

static void put_result(const struct flmem_recommendations *r, struct flmem_buf *out)
{
	put_facts(r, out);
	for (size_t i = 0; i < r->finding_count; i++)
		put_finding(&r->findings[i], out);
	for (size_t i = 0; i < r->problem_count; i++)
		flmem_buf_printf(out, "  %s:%u %d%s %s\n", flmem_text_basename(r->problems[i].file),
				 r->problems[i].line, r->problems[i].code,
				 r->problems[i].warning ? " warning" : "", r->problems[i].message);
}

static void put_folder(const char *version, struct flmem_buf *out)
{
	static const char *const paths[] = {"."};
	struct flmem_recommend_options options = {.framework_version = version};
	struct flmem_recommendations found = {0};
	struct flmem_error err = {0};

	if (flmem_recommend(paths, 1, &options, &found, &err))
		flmem_buf_printf(out, "  %d %s\n", err.code, err.message);
	else
		put_result(&found, out);
	flmem_recommendations_clear(&found);
}

static void put_corrections(struct flmem_buf *out)
{
	static const char *const paths[] = {"."};
	struct flmem_recommend_options options = {0};
	struct flmem_corrections corrections = {0};

	assert_int_equal(flmem_recommend_correct(paths, 1, &options, &corrections, NULL), 0);
	for (size_t i = 0; i < corrections.count; i++) {
		flmem_buf_printf(out, "  %zu changes of %s: ", corrections.rows[i].changes,
				 corrections.rows[i].file);
		put_text(out, corrections.rows[i].after, 1000);
		flmem_buf_putc(out, '\n');
	}
	flmem_corrections_clear(&corrections);
}

/* One folder after another; ret_versions gets what the case is checked with besides. */
static void write_files(const struct tree *tree, const char *from, const char *end,
			char ret_versions[64])
{
	while (from < end) {
		const char *line = strchr(from, '\n'), *next;
		char name[128];

		assert_true(flmem_text_starts(from, FILE_MARK));
		snprintf(name, sizeof(name), "%.*s", (int)(line - from - 4), from + 4);
		next = strstr(line, "\n" FILE_MARK);
		next = next && next < end ? next + 1 : end;
		if (flmem_text_starts(name, VERSIONS))
			snprintf(ret_versions, 64, "%.63s", name + strlen(VERSIONS));
		else
			tree_write(tree, name, line + 1, (size_t)(next - line - 1));
		from = next;
	}
}

static void keep_case(const char *from, const char *end, struct flmem_buf *out)
{
	char versions[64] = "", *rest = versions, *version;
	struct tree tree;

	tree_init(&tree);
	write_files(&tree, from, end, versions);
	assert_int_equal(fchdir(tree.fd), 0);
	put_folder(NULL, out);
	put_corrections(out);
	while ((version = strsep(&rest, " ")))
		if (*version) {
			flmem_buf_printf(out, " version %s\n", version);
			put_folder(version, out);
		}
	assert_int_equal(chdir("/"), 0);
	tree_clear(&tree);
}

static void keep_cases(const char *name)
{
	FLMEM_AUTO_BUF struct flmem_buf cases = FLMEM_BUF_INIT, out = FLMEM_BUF_INIT;
	char path[128];
	const char *from, *end;
	size_t count = 0;

	snprintf(path, sizeof(path), "rules/%s.cases", name);
	kept_read(path, &cases);
	for (from = cases.data; *from; from = end + strlen(SEPARATOR)) {
		end = strstr(from, SEPARATOR);
		assert_non_null(end);
		flmem_buf_printf(&out, "%zu ", ++count);
		flmem_buf_append(&out, from, strcspn(from, "\n") + 1);
		keep_case(from, end, &out);
	}
	snprintf(path, sizeof(path), "rules/%s.txt", name);
	kept_compare(path, &out);
}

static void launches_are_as_kept(void **state)
{
	(void)state;
	keep_cases("launch");
}

static void appfl_is_as_kept(void **state)
{
	(void)state;
	keep_cases("appfl");
}

static void flower_is_as_kept(void **state)
{
	(void)state;
	keep_cases("flower");
}

static void jobs_are_as_kept(void **state)
{
	(void)state;
	keep_cases("jobs");
}

static void scripts_are_as_kept(void **state)
{
	(void)state;
	keep_cases("scripts");
}

/* The arguments of one check of a class. */
static const char *const arguments[][3] = {
	{NULL},
	{"memory_gc_rounds", "0"},
	{"memory_gc_rounds", "1", "\"num_rounds\": 1"},
	{"memory_gc_rounds", "6"},
	{"memory_gc_rounds", "-1"},
	{"memory_gc_rounds", "\"x\"", "\"cuda_empty_cache\": true"},
	{"client_memory_gc_rounds", "0", "\"cuda_empty_cache\": true"},
	{"client_memory_gc_rounds", "3", "\"server_memory_gc_rounds\": 3"},
	{"enable_tensor_disk_offload", "true"},
	{"num_rounds", "0"},
};

#define NAMED_ARGUMENTS FLMEM_ARRAY_SIZE(arguments)

static void put_argument(struct flmem_buf *text, size_t row, bool python)
{
	const char *name = arguments[row][0], *value = arguments[row][1];
	const char *more = arguments[row][2];

	if (!name)
		return;
	if (!python) {
		flmem_buf_printf(text, "\"%s\": %s%s%s", name, value, more ? ", " : "",
				 more ? more : "");
		return;
	}
	flmem_buf_printf(text, "%s=%s", name, strcmp(value, "true") == 0 ? "True" : value);
	if (more) /* "name": value */
		flmem_buf_printf(text, ", %.*s=%s", (int)(strchr(more + 1, '"') - more - 1),
				 more + 1, strstr(more, "true") ? "True" : strstr(more, ": ") + 2);
}

static void put_configuration(struct flmem_buf *text, const struct flmem_nvflare_class *class,
			      size_t row)
{
	bool client = class->part == FLMEM_NVFLARE_EXECUTOR ||
		      class->part == FLMEM_NVFLARE_SWARM_EXECUTOR;

	flmem_buf_printf(text, "{\"%s\": [%s{\"path\": \"%s\", \"args\": {",
			 client ? "executors" : "workflows", client ? "{\"executor\": " : "",
			 class->path);
	put_argument(text, row, false);
	flmem_buf_puts(text, client ? "}}}]}" : "}}]}");
}

/* from a.b import C; C(...) */
static void put_script(struct flmem_buf *text, const struct flmem_nvflare_class *class, size_t row)
{
	const char *dot = strrchr(class->path, '.');

	flmem_buf_printf(text, "from %.*s import %s\n%s(", (int)(dot - class->path), class->path,
			 dot + 1, dot + 1);
	put_argument(text, row, true);
	flmem_buf_puts(text, ")\n");
}

static void keep_class(const struct flmem_nvflare_class *class, bool python, bool odd,
		       struct flmem_buf *out)
{
	static const char *const versions[] = {NULL, "2.7.2", "2.8", "2.9"};
	bool client = class->part == FLMEM_NVFLARE_EXECUTOR ||
		      class->part == FLMEM_NVFLARE_SWARM_EXECUTOR;

	/* One class gets the even rows, the next the odd ones. */
	for (size_t row = odd; row < NAMED_ARGUMENTS; row += 2) {
		FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
		struct tree tree;

		tree_init(&tree);
		(python ? put_script : put_configuration)(&text, class, row);
		tree_puts(&tree,
			  python ? "job.py"
				 : (client ? "config_fed_client.json" : "config_fed_server.json"),
			  text.data);
		assert_int_equal(fchdir(tree.fd), 0);
		put_text(out, text.data, text.length);
		flmem_buf_putc(out, '\n');
		put_folder(versions[row % 4], out);
		assert_int_equal(chdir("/"), 0);
		tree_clear(&tree);
	}
}

static void keep_classes(bool python, const char *name)
{
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	for (size_t i = 0; i < flmem_nvflare_class_count; i++)
		if (python || flmem_nvflare_classes[i].part != FLMEM_NVFLARE_RECIPE)
			keep_class(&flmem_nvflare_classes[i], python, i % 2, &out);
	kept_compare(name, &out);
}

static void configurations_are_as_kept(void **state)
{
	(void)state;
	keep_classes(false, "rules/configurations.txt");
}

static void calls_are_as_kept(void **state)
{
	(void)state;
	keep_classes(true, "rules/calls.txt");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(launches_are_as_kept),
		cmocka_unit_test(appfl_is_as_kept),
		cmocka_unit_test(flower_is_as_kept),
		cmocka_unit_test(jobs_are_as_kept),
		cmocka_unit_test(scripts_are_as_kept),
		cmocka_unit_test(configurations_are_as_kept),
		cmocka_unit_test(calls_are_as_kept),
	};

	return cmocka_run_group_tests_name("kept_rules", tests, NULL, NULL);
}
