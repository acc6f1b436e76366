/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests Python that CPython refuses. A certain fault is found at its place; valid Python has none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/recommend.h>

#include "base/cleanup.h"
#include "documents/python/python_syntax.h"
#include "findings.h"
#include "tree.h"

static const struct {
	const char *text;
	unsigned line, column; /* place of the fault; 0: no fault */
} rows[] = {
	/* brackets */
	{"f(1,\nx = 2\n", 1, 2},
	{"a = [\n(1)\n", 1, 5},
	{"f(1))\n", 1, 5},
	{"f(1]\n", 1, 4},
	{"a = {1)\n", 1, 7},
	{"\xef\xbb\xbf(\n", 1, 1},
	{"f([{}])\n# (\n'('\n", 0, 0},
	{"f(\n\n  1, # )\n)\n", 0, 0},
	/* strings */
	{"a = 'x\nb = 1\n", 1, 5},
	{"a = r'x\\'\n", 1, 6},
	{"a = '''x\n", 1, 5},
	{"a = f'x\n", 1, 6},
	{"a = f'{x}\n", 1, 6},
	{"a = 'x\\\ny'\nb = \"x\\\r\ny\"\r\n", 0, 0},
	{"a = '''x\n'y' \\''' '''\n", 0, 0},
	{"a = rb'x' Rb\"y\" u''\n", 0, 0},
	{"print'x'\n", 0, 0},
	/*
	 * quotes of the same kind in a field, valid from 3.12 on: the rest of the file is not
	 * judged
	 */
	{"a = f'{d['it']}'\nb = (\n", 0, 0},
	{"a = f\"{d[\"it's\"]}\"\n", 0, 0},
	{"a = f'{x:\n}'\n", 0, 0},
	{"a = t'{d['x']}'\n", 0, 0},
	{"a = f'{{x}} {y}'\nb = (\n", 2, 5},
	/* blocks */
	{"if a:\nb = 1\n", 2, 1},
	{"if a:\n", 2, 1},
	{"class A: # x\n", 2, 1},
	{"a = 1\n  b = 2\n", 2, 3},
	{"if a:\n    b = 1\n  c = 2\n", 3, 3},
	{"if a:\n    b = 1\n     c = 2\n", 3, 6},
	{" a = 1\n", 1, 2},
	{"if a: b = 1\nc = 2\n", 0, 0},
	{"if a:\n  b = [\n1,\n]\n# x\n\n  c = 2\nd = 3\n", 0, 0},
	{"if a:\n\n      # x\n  b = 1\n  if c:\n    d\n", 0, 0},
	{"if a and \\\nb:\n  c = 1\n", 0, 0},
	{"a = b[1:\n2]\nc: int\nd = lambda: 1\ne = {1:\n2}\n", 0, 0},
	{"def f():\n  '''x\ny'''\n  return 1\n", 0, 0},
	{"if a:\r\n  b = 1\r\n\r\nc = 2\r\n", 0, 0},
	/* Neither tabs nor the text after them are judged. */
	{"if a:\n\tb = 1\n        c = 2\n(\n", 0, 0},
	{"", 0, 0},
	{"# x", 0, 0},
	{"if a:\n  b = 1 \\\n\n", 0, 0},
	{"a = 1 \\ \n(\n", 0, 0},
};

static void faults_are_found_at_their_places(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_python_fault fault = {0};
		bool found = flmem_python_find_fault(rows[i].text, &fault);

		if (found != (rows[i].line > 0) || fault.place.line != rows[i].line ||
		    fault.place.column != rows[i].column)
			fail_msg("row %zu: %u:%u %s", i, fault.place.line, fault.place.column,
				 found ? fault.text : "");
	}
}

/* Brackets and blocks are nested deeper than CPython reads. */
static void depth_is_limited(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf brackets = FLMEM_BUF_INIT, blocks = FLMEM_BUF_INIT;
	struct flmem_python_fault fault;

	(void)state;
	for (int i = 0; i < 5000; i++) {
		flmem_buf_putc(&brackets, '(');
		flmem_buf_printf(&blocks, "%*sif a:\n", i, "");
	}
	assert_false(flmem_python_find_fault(brackets.data, &fault));
	assert_false(flmem_python_find_fault(blocks.data, &fault));
}

static void scripts_of_each_framework_are_judged(void **state)
{
	static const struct {
		const char *text;
		size_t hits;
	} scripts[] = {
		{"import nvflare\nf(\n", 1},
		{"from flwr.app import ArrayRecord\nf(\n", 1},
		{"from appfl.agent import A\nc['max_message_size'] = (\n", 1},
		{"import subprocess\nsubprocess.run(['flwr-serverapp'], (\n", 1},
		{"import nvflare, subprocess\nsubprocess.run(['flwr-serverapp'], (\n", 1},
		{"import nvflare\nf()\n", 0},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(scripts); i++) {
		FLMEM_AUTO(flmem_recommendations_clear) struct flmem_recommendations found = {0};
		const struct flmem_finding *last;
		struct tree tree;
		const char *path = tree.path;

		tree_init(&tree);
		tree_puts(&tree, "job.py", scripts[i].text);
		assert_int_equal(flmem_recommend(&path, 1, NULL, &found, NULL), 0);
		if (findings_of(&found, "PYTHON-REFUSED", &last) != scripts[i].hits ||
		    (last && last->line != 2))
			fail_msg("row %zu", i);
		tree_clear(&tree);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faults_are_found_at_their_places),
		cmocka_unit_test(depth_is_limited),
		cmocka_unit_test(scripts_of_each_framework_are_judged),
	};

	return cmocka_run_group_tests_name("python_syntax", tests, NULL, NULL);
}
