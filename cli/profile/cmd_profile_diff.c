/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <flmem/heap_report.h>
#include <flmem/output_place.h>
#include <flmem/text.h>

#include "cmd.h"
#include "print/print_format.h"
#include "print/print_json.h"
#include "print/print_profile.h"
#include "profile/profile_options.h"

#define ROWS_SHOWN 30U

struct profile_diff_options {
	struct profile_options profile; /* must be first: PROFILE_OPTIONS */
	const char *html;
};

static const struct opt profile_diff_options_table[] = {
	{.name = "html",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct profile_diff_options, html),
	 .metavar = "PAGE",
	 .complete = OPT_COMPLETE_FILE,
	 .once = true,
	 .help = "write a page with a flame graph in two colours, too: orange for more, blue for "
		 "less; a page of flmem is replaced, another file is not"},
	PROFILE_OPTIONS("show at most this many of the largest changes (default 30)"),
	{0},
};

static void print_functions(const struct profile_options *o,
			    const struct flmem_heap_profile *const profiles[2],
			    enum flmem_heap_measure measure,
			    const struct flmem_heap_comparison *comparison)
{
	size_t limit = o->limit ? o->limit : ROWS_SHOWN, shown = 0;

	for (size_t i = 0; i < comparison->count && shown < limit; i++) {
		const struct flmem_heap_difference *row = &comparison->rows[i];

		if (!flmem_heap_is_change(profiles, row, measure))
			continue;
		if (!shown++)
			printf("\nfunctions by %s:\n", flmem_heap_measure_name(measure));
		print_profile_difference(profiles, measure, row);
	}
	if (!shown)
		printf("\nno function differs by more than the error of the samples\n");
}

/* Prints the standard error of a change; a change of up to twice that may be noise. */
static void print_change_error(struct flmem_u64 error, uint64_t before, uint64_t after)
{
	uint64_t change = before > after ? before - after : after - before;
	char text[FORMAT_MAX];

	if (!error.unknown)
		printf(" (+- %s%s)", format_bytes(error.value, text),
		       change && change / 2 <= error.value ? ", within the error" : "");
	putchar('\n');
}

/* Prints all arenas as one row, since it is chance which line needs a new one. */
static void print_arenas(const struct flmem_heap_profile *const profiles[2],
			 enum flmem_heap_measure measure)
{
	struct flmem_heap_amounts arenas[2] = {0};

	for (size_t i = 0; i < 2; i++)
		for (size_t k = 0; k < profiles[i]->site_count; k++)
			if (profiles[i]->sites[k].arenas)
				arenas[i].bytes[measure] +=
					profiles[i]->sites[k].amounts.bytes[measure];
	if (!arenas[0].bytes[measure] && !arenas[1].bytes[measure])
		return;
	print_profile_compared(profiles, measure, &arenas[0], &arenas[1]);
	printf("  of %s: arenas of Python's small objects", flmem_heap_measure_name(measure));
	print_change_error(flmem_heap_total_error(profiles, measure, true),
			   arenas[0].bytes[measure], arenas[1].bytes[measure]);
}

static void print_differences(const struct profile_options *o,
			      const struct flmem_heap_profile *const profiles[2],
			      enum flmem_heap_measure measure,
			      const struct flmem_heap_comparison *comparison)
{
	printf("%12s%11s%11s\n", "change", "first", "second");
	for (enum flmem_heap_measure m = 0; m < FLMEM_HEAP_MEASURE_COUNT; m++) {
		print_profile_compared(profiles, m, &profiles[0]->totals, &profiles[1]->totals);
		printf("  total %s", flmem_heap_measure_name(m));
		print_change_error(flmem_heap_total_error(profiles, m, false),
				   profiles[0]->totals.bytes[m], profiles[1]->totals.bytes[m]);
	}
	print_arenas(profiles, measure);
	print_functions(o, profiles, measure, comparison);
	print_profile_notes(profiles[0]);
	print_profile_notes(profiles[1]);
}

static int show_diff(const struct profile_diff_options *options,
		     const struct flmem_heap_profile *const profiles[2], struct flmem_error *err)
{
	const struct profile_options *o = &options->profile;
	struct flmem_heap_comparison comparison;
	enum flmem_heap_measure measure;
	int rc = profile_measure_of_all(o, profiles, 2, &measure, err);

	if (!rc && options->html)
		rc = flmem_output_place_check(options->html, err);
	if (!rc && options->html)
		rc = flmem_heap_page_write(profiles[0], profiles[1], measure, options->html, err);
	if (!rc)
		rc = flmem_heap_compare(profiles[0], profiles[1], measure, &comparison, err);
	if (rc)
		return rc;
	if (o->json)
		rc = print_json(flmem_report_heap_diff_json(profiles, measure, &comparison,
							    o->limit ? o->limit : SIZE_MAX),
				err);
	else
		print_differences(o, profiles, measure, &comparison);
	flmem_heap_comparison_clear(&comparison);
	return rc;
}

static int run_profile_diff(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	const struct profile_diff_options *o = options;
	struct flmem_heap_profile *profiles[2] = {NULL, NULL};
	struct flmem_error err = {0};
	int rc = profile_count_files(rest, 2, &err);

	for (int i = 0; i < 2 && !rc; i++)
		rc = profile_load(&o->profile, rest, i, false, &profiles[i], &err);
	if (!rc)
		rc = show_diff(o, (const struct flmem_heap_profile *const *)profiles, &err);
	flmem_heap_profile_free(profiles[0]);
	flmem_heap_profile_free(profiles[1]);
	return rc ? cmd_fail(cmd, o->profile.json, &err) : 0;
}

static const char *const profile_diff_examples[] = {
	"flmem profile diff original.prof optimized.prof",
	"functions that have more or less live memory at the peak",
	"flmem profile diff --by allocated --html diff.html original.prof new.prof",
	"what was allocated in total, also as a flame graph",
	NULL,
};

const struct cmd cmd_profile_diff = {
	.name = "profile diff",
	.summary = "compares two heap profiles function by function",
	.arguments = "FIRST SECOND",
	.description =
		"Functions are matched by name and file; lines may differ, and so may the "
		"files of the two programs themselves. The largest changes are first; changes "
		"within twice the standard error of the samples are only in --json. Each "
		"total has the standard error of its change (+-), and a note if the change is "
		"within twice that error and so may be chance. Python stores small objects in "
		"arenas, which count at the line that needed a new one; the error includes "
		"the chance in which line that is.",
	.examples = profile_diff_examples,
	.options = profile_diff_options_table,
	.options_size = sizeof(struct profile_diff_options),
	.complete = OPT_COMPLETE_FILE,
	.run = run_profile_diff,
};
