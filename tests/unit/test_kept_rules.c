/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests findings in many small folders against kept texts (kept.h), and findings in the calls and
 * configurations of every class of NVFlare with values at the bounds.
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
#include "frameworks/launch/launch_search.h"
#include "frameworks/nvflare/nvflare_class_table.h"
#include "kept_rules.h"
#include "tree.h"

static void keep_case(size_t number, const char *from, const char *end, struct flmem_buf *out)
{
	char versions[64] = "", *rest = versions, *version;
	struct tree tree;

	flmem_buf_printf(out, "%zu ", number);
	flmem_buf_append(out, from, strcspn(from, "\n") + 1);
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

static void cases_are_as_kept(void **state)
{
	compare_cases(*state, "txt", keep_case);
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
	if (more) /* the pair "name": value */
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

/* Writes a script: from a.b import C; C(...) */
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

	/* One class gets the even rows, the next class the odd ones. */
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

/* Keeps the texts of half of the rows, and a checksum of those of the other half. */
static void keep_classes(bool python, const char *name)
{
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT, sums = FLMEM_BUF_INIT;
	char path[128];

	for (size_t i = 0; i < flmem_nvflare_class_count; i++) {
		const struct flmem_nvflare_class *class = &flmem_nvflare_classes[i];
		FLMEM_AUTO_BUF struct flmem_buf rest = FLMEM_BUF_INIT;

		if (!python && class->part == FLMEM_NVFLARE_RECIPE)
			continue;
		keep_class(class, python, i % 2, &out);
		keep_class(class, python, i % 2 == 0, &rest);
		flmem_buf_printf(&sums, "%s %08x\n", class->path,
				 (unsigned)flmem_crc32(0, rest.data, rest.length));
	}
	snprintf(path, sizeof(path), "rules/%s.txt", name);
	kept_compare(path, &out);
	snprintf(path, sizeof(path), "rules/%s.sums", name);
	kept_compare(path, &sums);
}

static void configurations_are_as_kept(void **state)
{
	(void)state;
	keep_classes(false, "configurations");
}

static void calls_are_as_kept(void **state)
{
	(void)state;
	keep_classes(true, "calls");
}

/*
 * Writes scripts, and templates of them that are not YAML, under each possible name of a launch
 * file.
 */
static void put_named(const struct flmem_file_name *row, const char *text, struct flmem_buf *out)
{
	struct tree tree;
	char name[64];

	snprintf(name, sizeof(name), "%s%s%s", row->match == FLMEM_NAME_SUFFIX ? "run" : "",
		 row->text, row->match == FLMEM_NAME_START ? ".x" : "");
	tree_init(&tree);
	tree_puts(&tree, name, text);
	assert_int_equal(fchdir(tree.fd), 0);
	flmem_buf_printf(out, "%s\n", name);
	put_folder(NULL, out);
	assert_int_equal(chdir("/"), 0);
	tree_clear(&tree);
}

static void names_of_launch_files_are_as_kept(void **state)
{
	static const char *const texts[] = {
		"python3 -m nvflare.private.fed.app.client.client_train -m ws\n",
		"{% if a %}\n- run: nvflare simulator job\n{% endif %}\n",
	};
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(texts); i++)
		for (const struct flmem_file_name *row = flmem_launch_file_names; row->text; row++)
			put_named(row, texts[i], &out);
	kept_compare("rules/names.txt", &out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KEPT_RULE_TESTS(cases_are_as_kept),
		cmocka_unit_test(configurations_are_as_kept),
		cmocka_unit_test(calls_are_as_kept),
		cmocka_unit_test(names_of_launch_files_are_as_kept),
	};

	return cmocka_run_group_tests_name("kept_rules", tests, NULL, NULL);
}
