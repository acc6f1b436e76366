/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that inputs which repeat one construct take time in proportion: eight times as much of it
 * takes about eight times as long.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include <flmem/recommend.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "tree.h"

#define RECIPE "from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe\n"
#define TIMES  8
#define TRIES  3
#define MOST   3 /* times as long as that many small ones; a processor has bad moments */
#define BEYOND 4 /* a factor that no bad moment explains */

struct shape {
	const char *file, *head, *repeated, *tail;
	size_t bytes; /* length of the smaller text */
};

static const struct shape shapes[] = {
	{"line.py", RECIPE "a = {", "'k': 1, ", "}\n", 8000},
	{"names.py", RECIPE "a = {", "k: 1, ", "}\n", 4000},
	{"brackets.py", RECIPE "a = ", "f(", "\n", 2000},
	{"lambda.py", RECIPE "a = ", "lambda: ", "1\n", 2000},
	{"late.py", RECIPE "import os\n", "os.environ['MALLOC_ARENA_MAX'] = '2'\n", "", 3000},
	{"marks.sh", "#!/bin/sh\nflower-superlink\n", "cd startup; ./start.sh\n", "", 2000},
	{"marks-of-texts.sh", "#!/bin/sh\nflower-superlink\n",
	 "bash -c 'cd startup && ./start.sh'\n", "", 2000},
	{"fields.py", RECIPE "a = f'", "{f(a)} ", "'\n", 4000},
};

static void write_shape(const struct tree *tree, const struct shape *shape, size_t bytes)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	flmem_buf_puts(&text, shape->head);
	while (text.length < bytes && !text.failed)
		flmem_buf_puts(&text, shape->repeated);
	flmem_buf_puts(&text, shape->tail);
	assert_false(text.failed);
	tree_puts(tree, shape->file, text.data);
}

static double processor_seconds(void)
{
	struct timespec now;

	assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double seconds_to_check(const struct tree *tree, const struct shape *shape)
{
	struct flmem_recommendations found = {0};
	char path[128];
	const char *const paths[] = {path};
	double start = processor_seconds();

	snprintf(path, sizeof(path), "%s/%s", tree->path, shape->file);
	assert_int_equal(flmem_recommend(paths, 1, NULL, &found, NULL), 0);
	flmem_recommendations_clear(&found);
	return processor_seconds() - start;
}

/* Returns how many times longer one large text takes than small ones of the same total length. */
static double proportion_of(const struct tree *tree, const struct shape *shape)
{
	double small = 0, large;

	write_shape(tree, shape, shape->bytes);
	for (int k = 0; k < TIMES; k++)
		small += seconds_to_check(tree, shape);
	write_shape(tree, shape, TIMES * shape->bytes);
	large = seconds_to_check(tree, shape);
	if (large >= MOST * small)
		print_error("%s: %.3f s for all, %.3f s in eight parts\n", shape->file, large,
			    small);
	return large / small;
}

static void long_inputs_take_time_in_proportion(void **state)
{
	const struct tree *tree = *state;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(shapes); i++) {
		double proportion = MOST;

		for (int k = 0; k < TRIES && proportion >= MOST && proportion < BEYOND; k++)
			proportion = proportion_of(tree, &shapes[i]);
		assert_true(proportion < MOST);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(long_inputs_take_time_in_proportion, tree_setup,
						tree_teardown),
	};

	return cmocka_run_group_tests_name("recommend_time", tests, NULL, NULL);
}
