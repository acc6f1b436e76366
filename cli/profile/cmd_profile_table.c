/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/heap_report.h>
#include <flmem/text.h>

#include "cmd.h"
#include "print/print_format.h"
#include "print/print_json.h"
#include "print/print_profile.h"
#include "profile/profile_options.h"

#define ROWS_SHOWN 50U

/* This indents the program's own line to the column of the frame above it, after the measures. */
#define OWN_LINE_INDENT "                                                            "

static const struct opt profile_table_options_table[] = {
	PROFILE_OPTIONS("show at most this many lines of code (default 50)"),
	{0},
};

static double total_variance(const struct flmem_heap_profile *p)
{
	double sum = 0;

	for (size_t i = 0; i < p->site_count; i++)
		sum += p->sites[i].live_variance;
	return sum;
}

static void print_live_error(const struct flmem_heap_profile *p, double live_variance)
{
	char bytes[FORMAT_MAX];

	printf("%12s  ", format_bytes_or(flmem_heap_live_error(p, live_variance), "-", bytes));
}

static void print_profile_table(const struct flmem_heap_profile *p, enum flmem_heap_measure measure,
				const struct flmem_heap_table *table, size_t all)
{
	size_t more = table->row_count;

	print_profile_columns();
	printf("%12s  line (by %s)\n", "live +-", flmem_heap_measure_name(measure));
	for (size_t i = 0; i < table->row_count && table->rows[i].own.bytes[measure]; i++) {
		print_profile_amounts(p, &table->rows[i].own);
		print_live_error(p, table->rows[i].live_variance);
		print_profile_frame(p, table->rows[i].frame);
		print_profile_own_frame(p, table->rows[i].frame, table->rows[i].own_frame,
					OWN_LINE_INDENT);
	}
	print_profile_amounts(p, &p->totals);
	print_live_error(p, total_variance(p));
	puts("total");
	while (more < all && table->rows[more].own.bytes[measure])
		more++;
	print_profile_more(more - table->row_count);
	print_profile_notes(p);
}

/* Counts the rows in which something was allocated; the others are only callers, and last. */
static size_t count_allocating(const struct flmem_heap_row *rows, size_t count)
{
	static const struct flmem_heap_amounts none;

	while (count && memcmp(&rows[count - 1].own, &none, sizeof(none)) == 0)
		count--;
	return count;
}

static int show_rows(const struct profile_options *o, const struct flmem_heap_profile *p,
		     enum flmem_heap_measure measure, struct flmem_heap_table *table,
		     struct flmem_error *err)
{
	size_t limit = o->limit ? o->limit : ROWS_SHOWN, all;

	table->row_count = count_allocating(table->rows, table->row_count);
	all = table->row_count;
	table->row_count = all < limit ? all : limit;
	table->site_count = p->site_count < limit ? p->site_count : limit;
	if (o->json)
		return print_json(flmem_report_heap_table_json(p, measure, table), err);
	print_profile_table(p, measure, table, all);
	return 0;
}

static int show_table(const struct profile_options *o, const struct flmem_heap_profile *p,
		      struct flmem_error *err)
{
	struct flmem_heap_table table = {0};
	struct flmem_heap_row *rows = NULL;
	enum flmem_heap_measure measure;
	uint32_t *sites;
	int rc = profile_measure_shown(o, p, &measure, err);

	if (!rc)
		rc = flmem_heap_rows(p, FLMEM_HEAP_BY_LINE, measure, &rows, &table.row_count, err);
	if (rc)
		return rc;
	sites = flmem_heap_largest_sites(p, measure);
	table.rows = rows;
	table.sites = sites;
	rc = sites ? show_rows(o, p, measure, &table, err)
		   : flmem_error_nomem(err, "cannot print the table");
	free(rows);
	free(sites);
	return rc;
}

static int run_profile_table(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	return profile_show_one(cmd, options, rest, show_table);
}

static const char *const profile_table_examples[] = {
	"flmem profile table server.prof",
	"lines of code that allocated, with all measures",
	"flmem profile table --round 3..5 --by live --json server.prof",
	"memory that rounds 3 to 5 allocated and that is still live, with stacks",
	NULL,
};

const struct cmd cmd_profile_table = {
	.name = "profile table",
	.summary = "lists the lines of code that allocated, with all measures",
	.arguments = "FILE",
	.description =
		"One row per line of code, the innermost frame of the stacks. If that is a "
		"line of a library, 'own line' is the line of the program's own code with the "
		"largest part of it. 'live +-' is the standard error of 'live', computed from "
		"the live samples. --json also has each stack with its amounts ('sites').",
	.examples = profile_table_examples,
	.options = profile_table_options_table,
	.options_size = sizeof(struct profile_options),
	.complete = OPT_COMPLETE_FILE,
	.run = run_profile_table,
};
