/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <flmem/heap_report.h>
#include <flmem/sort.h>
#include <flmem/text.h>

#include "cmd.h"
#include "print/print_format.h"
#include "print/print_json.h"
#include "print/print_profile.h"
#include "profile/profile_options.h"

#define ROWS_SHOWN 30U

static const struct opt profile_summary_options_table[] = {
	PROFILE_OPTIONS("show at most this many functions (default 30)"),
	{0},
};

static int compare_totals(const void *a, const void *b, void *context)
{
	const struct flmem_heap_row *x = a, *y = b;
	enum flmem_heap_measure measure = *(const enum flmem_heap_measure *)context;
	uint64_t one = x->total.bytes[measure], other = y->total.bytes[measure];

	return one > other ? -1 : one < other;
}

/* Prints the summary. There are `all_count` rows, of which `count` are shown. */
static void print_summary(const struct flmem_heap_profile *p, enum flmem_heap_measure measure,
			  const struct flmem_heap_row *rows, size_t count, size_t all_count)
{
	uint64_t all = p->totals.bytes[measure];
	size_t more = count;
	char total[FORMAT_MAX], own[FORMAT_MAX];

	if (count && rows[0].total.bytes[measure])
		printf("%11s%8s%11s%8s  function, its line with most (by %s)\n", "total", "", "own",
		       "", flmem_heap_measure_name(measure));
	else
		printf("no function has any (by %s)\n", flmem_heap_measure_name(measure));
	for (size_t i = 0; i < count && rows[i].total.bytes[measure]; i++) {
		printf("%11s%7.1f%%%11s%7.1f%%  ",
		       format_bytes(rows[i].total.bytes[measure], total),
		       (double)rows[i].total.bytes[measure] / (double)all * 100,
		       format_bytes(rows[i].own.bytes[measure], own),
		       (double)rows[i].own.bytes[measure] / (double)all * 100);
		print_profile_frame(p, rows[i].frame);
	}
	while (more < all_count && rows[more].total.bytes[measure])
		more++;
	print_profile_more(more - count);
	print_profile_notes(p);
}

static int show_summary(const struct profile_options *o, const struct flmem_heap_profile *p,
			struct flmem_error *err)
{
	struct flmem_heap_row *rows = NULL;
	enum flmem_heap_measure measure;
	size_t count, all, limit = o->limit ? o->limit : ROWS_SHOWN;
	int rc = profile_measure(o, p, &measure, err);

	if (!rc)
		rc = flmem_heap_rows(p, FLMEM_HEAP_BY_FUNCTION, measure, &rows, &count, err);
	if (rc)
		return rc;
	flmem_sort(rows, count, sizeof(*rows), compare_totals, &measure);
	all = count;
	count = count < limit ? count : limit;
	if (o->json)
		rc = print_json(flmem_report_heap_summary_json(p, measure, rows, count), err);
	else
		print_summary(p, measure, rows, count, all);
	free(rows);
	return rc;
}

static int run_profile_summary(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	return profile_show_one(cmd, options, rest, show_summary);
}

static const char *const profile_summary_examples[] = {
	"flmem profile summary server.prof",
	"functions by the memory that they and their callees allocated",
	"flmem profile summary --by live --stack native server.prof",
	"native functions by the live bytes at the end",
	NULL,
};

const struct cmd cmd_profile_summary = {
	.name = "profile summary",
	.summary = "shows functions by what they and their callees allocated",
	.arguments = "FILE",
	.description =
		"'total' is the memory that a function and its callees allocated, 'own' the "
		"memory that it allocated itself. A recursive function counts once. The line "
		"is the one with the largest part of the total.",
	.examples = profile_summary_examples,
	.options = profile_summary_options_table,
	.options_size = sizeof(struct profile_options),
	.complete = OPT_COMPLETE_FILE,
	.run = run_profile_summary,
};
