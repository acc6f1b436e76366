/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_UNIT_LAUNCH_ROWS_H
#define FLMEM_TESTS_UNIT_LAUNCH_ROWS_H

/* Tables of files that start a federation, each with what one rule has to report on it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/recommend.h>

#include "findings.h"
#include "tree.h"

#define SERVER	"python3 -u -m nvflare.private.fed.app.server.server_train -m ws\n"
#define CLIENT	"python3 -u -m nvflare.private.fed.app.client.client_train -m ws\n"
#define SET	"export MALLOC_ARENA_MAX=2\n"
#define UNSET	"NVF-ARENA-UNSET"
#define UNCLEAR "NVF-LAUNCH-CANNOT-TELL"
#define IGNORED "ENV-ARENA-IGNORED"

struct row {
	const char *rule, *text;
	size_t hits;
	const char *says; /* text of the last finding; NULL: any text */
};

struct file_row {
	const char *file;
	struct row row;
};

/* Reports whether the rule fired as often as expected, with the expected text. */
static inline bool row_is_right(const char *file, const struct row *row)
{
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last;
	struct tree tree;
	const char *path;
	bool right;

	tree_init(&tree);
	path = tree.path;
	tree_puts(&tree, file, row->text);
	assert_int_equal(flmem_recommend(&path, 1, NULL, &found, NULL), 0);
	assert_int_equal(flmem_recommendations_failures(&found), 0);
	right = findings_of(&found, row->rule, &last) == row->hits &&
		!(row->says && last && !strstr(last->message, row->says));
	if (!right)
		print_error("not %zu findings %s (last '%s') on:\n%s\n", row->hits, row->rule,
			    last ? last->message : "none", row->text);
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
	return right;
}

/* Tries all rows, also after a wrong one. */
static inline bool scripts_are_right(const struct row *rows, size_t count)
{
	bool right = true;

	for (size_t i = 0; i < count; i++)
		right &= row_is_right("run.sh", &rows[i]);
	return right;
}

static inline bool files_are_right(const struct file_row *rows, size_t count)
{
	bool right = true;

	for (size_t i = 0; i < count; i++)
		right &= row_is_right(rows[i].file, &rows[i].row);
	return right;
}

#endif
