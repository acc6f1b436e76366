/* SPDX-License-Identifier: Apache-2.0 */
/* Tests frames of a stack in a heap profile: the program's own code, and frames of imports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/heap_profile.h>

#include "profile_maker.h"
#include "profiler/frames.h"

static char path[] = "/tmp/flmem-own-frame-XXXXXX";

/* Reads a profile with a stack of these files, callers first; "" is native. */
static struct flmem_heap_profile *read_stack(const char *const *files, bool import_frames)
{
	const struct flmem_heap_request request = {.path = path, .import_frames = import_frames};
	struct flmem_heap_profile *p = NULL;
	struct profile_maker m;
	uint32_t node = 0;
	char function[24];

	maker_init(&m);
	for (size_t i = 0; files[i]; i++) {
		snprintf(function, sizeof(function), "f%zu", i);
		node = maker_node(&m, node,
				  *files[i] ? maker_python(&m, function, files[i], (uint32_t)i + 1)
					    : maker_native(&m, 0x1000 + i, FLMEM_PROFILE_NONE));
	}
	maker_site(&m, node, 1 << 20, 0);
	maker_write(&m, path, m.size);
	assert_int_equal(flmem_heap_profile_read(&request, &p, NULL), 0);
	maker_clear(&m);
	return p;
}

/* Returns the frame of the program itself. The file of the innermost frame may be unknown. */
static const char *own_function_of(bool unknown, const char *const *files)
{
	struct flmem_heap_profile *p = read_stack(files, true);
	uint32_t node = p->sites[0].node, own, *all;
	static char function[24];

	if (unknown)
		p->frames[p->nodes[node].frame].file = NULL;
	own = flmem_heap_own_frame(p, node);
	all = flmem_heap_own_frames(p);
	assert_non_null(all);
	assert_int_equal(all[node], own);
	free(all);
	snprintf(function, sizeof(function), "%s",
		 own == FLMEM_HEAP_NO_FRAME ? "none" : p->frames[own].function);
	flmem_heap_profile_free(p);
	return function;
}

/* Checks the functions that are left, callees first. */
static void assert_left(const char *expected, bool import_frames, const char *const *files)
{
	struct flmem_heap_profile *p = read_stack(files, import_frames);
	char left[64] = "";
	size_t length = 0;

	for (uint32_t node = p->sites[0].node; node; node = p->nodes[node].parent) {
		const char *function = p->frames[p->nodes[node].frame].function;

		length += (size_t)snprintf(left + length, sizeof(left) - length, "%s ",
					   function ? function : "native");
	}
	flmem_heap_profile_free(p);
	assert_string_equal(left, expected);
}

#define assert_own(expected, ...)                                                             \
	assert_string_equal(own_function_of(false, (const char *const[]){__VA_ARGS__, NULL}), \
			    expected)

static void own_frame_is_the_innermost_of_no_library(void **state)
{
	(void)state;
	assert_own("f0", "/app/a.py");
	assert_own("f1", "/app/a.py", "/app/b.py", "/usr/lib/python3/dist-packages/numpy/core.py");
	assert_own("f0", "/app/a.py", "/srv/env/lib/python3.12/site-packages/torch/nn.py", "");
	assert_own("f0", "train.py", "/usr/lib/python3.11/copy.py");
	assert_own("f0", "a.py", "/usr/lib64/python3.13t/copy.py", "/opt/lib/python312.zip/ast.py");
	assert_own("f0", "a.py", "<frozen importlib._bootstrap>", "<__array_function__ internals>");
	assert_own("f1", "a.py", "/home/me/lib/python3-jobs/b.py");
	assert_own("f1", "a.py", "/home/me/python3.11/b.py");
	assert_own("f1", "a.py", "/home/site-packages.old/b.py");
	assert_own("none", "/usr/lib/python3.11/runpy.py", "<string>");
	assert_own("none", "", "");
}

/* An inner frame may be the program's own. */
static void own_frame_behind_an_unknown_file_is_unknown(void **state)
{
	static const char *const files[] = {"/app/a.py", "/app/b.py", NULL};

	(void)state;
	assert_string_equal(own_function_of(false, files), "f1");
	assert_string_equal(own_function_of(true, files), "none");
}

/* Between the importing line and the module; where nothing else is above, one frame is left. */
static void frames_of_imports_are_left_out(void **state)
{
	static const char *const imports[] = {"a.py",
					      "<frozen importlib._bootstrap>",
					      "<frozen importlib._bootstrap_external>",
					      "",
					      "<frozen zipimport>",
					      "b.py",
					      NULL};
	static const char *const start[] = {"<frozen importlib._bootstrap>",
					    "<frozen importlib._bootstrap>", "<frozen site>", NULL};
	static const char *const others[] = {"a.py", "<frozen os>", "<string>",
					     "importlib._bootstrap", NULL};
	static const char *const innermost[] = {"a.py", "<frozen importlib._bootstrap>", NULL};

	(void)state;
	assert_left("f5 native f0 ", false, imports);
	assert_left("f5 f4 native f2 f1 f0 ", true, imports);
	assert_left("f2 f0 ", false, start);
	assert_left("f3 f2 f1 f0 ", false, others);
	assert_left("f0 ", false, innermost);
}

/* Three lines of the program call the library; the sum of two is attributed by line. */
static void a_row_names_the_line_with_most_of_it(void **state)
{
	static const struct {
		uint32_t line;
		uint64_t bytes;
	} stacks[] = {{10, 3}, {20, 2}, {20, 2}, {30, 1}};
	const struct flmem_heap_request request = {.path = path};
	struct flmem_heap_profile *p = NULL;
	struct flmem_heap_row *rows;
	struct profile_maker m;
	uint32_t library;
	size_t count;

	(void)state;
	maker_init(&m);
	library = maker_python(&m, "ones", "/usr/lib/python3/dist-packages/numpy/n.py", 1);
	for (size_t i = 0; i < sizeof(stacks) / sizeof(*stacks); i++) {
		uint32_t own = maker_node(&m, 0, maker_python(&m, "f", "/a.py", stacks[i].line));
		uint32_t between =
			maker_node(&m, own, maker_python(&m, i % 2 ? "a" : "b", "<string>", 1));

		maker_site(&m, maker_node(&m, between, library), stacks[i].bytes << 20, 0);
	}
	maker_write(&m, path, m.size);
	assert_int_equal(flmem_heap_profile_read(&request, &p, NULL), 0);
	assert_int_equal(
		flmem_heap_rows(p, FLMEM_HEAP_BY_LINE, FLMEM_HEAP_LIVE, &rows, &count, NULL), 0);
	assert_string_equal(p->frames[rows[0].frame].function, "ones");
	assert_int_not_equal(rows[0].own_frame, FLMEM_HEAP_NO_FRAME);
	assert_int_equal(p->frames[rows[0].own_frame].line, 20);
	assert_int_equal(rows[count - 1].own_frame, FLMEM_HEAP_NO_FRAME);
	free(rows);
	flmem_heap_profile_free(p);
	maker_clear(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_frame_is_the_innermost_of_no_library),
		cmocka_unit_test(own_frame_behind_an_unknown_file_is_unknown),
		cmocka_unit_test(frames_of_imports_are_left_out),
		cmocka_unit_test(a_row_names_the_line_with_most_of_it),
	};
	int fd = mkstemp(path), failed;

	if (fd < 0)
		return 1;
	close(fd);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return failed;
}
