/* SPDX-License-Identifier: Apache-2.0 */
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

#define CHANGES_SHOWN 3U

struct analyze_options {
	struct profile_options profile; /* must be first: PROFILE_OPTIONS */
	const char *baseline;
};

static const struct opt profile_analyze_options_table[] = {
	{.name = "baseline",
	 .kind = OPT_TEXT,
	 .offset = offsetof(struct analyze_options, baseline),
	 .metavar = "FILE",
	 .complete = OPT_COMPLETE_FILE,
	 .once = true,
	 .help = "compare the others with this file, given by its name in the folder or by a "
		 "path (default: the first one with 'original', 'baseline' or 'before' in its "
		 "name, else the first one)"},
	PROFILE_BY_OPTION,
	PROFILE_STACK_OPTION,
	PROFILE_IMPORTS_OPTION,
	PROFILE_LIMIT_OPTION("show at most this many of the largest changes of each (default 3)"),
	PROFILE_JSON_OPTION,
	{0},
};

static const char *name_in_folder(const struct flmem_heap_profile *profile, char *out, size_t size)
{
	const char *slash = strrchr(profile->path, '/');

	return flmem_text_escape(slash ? slash + 1 : profile->path, out, size);
}

static void print_folder_totals(const struct flmem_heap_folder *folder)
{
	char name[FLMEM_HEAP_FRAME_TEXT_MAX];

	print_profile_columns();
	printf("  profile\n");
	for (size_t i = 0; i < folder->count; i++) {
		const struct flmem_heap_profile *p = folder->profiles[i];

		print_profile_amounts(p, &p->totals);
		printf("  %s (%s)%s\n", name_in_folder(p, name, sizeof(name)),
		       flmem_heap_ending_name(p->ending),
		       i == folder->baseline ? ", the baseline" : "");
	}
}

static void print_profile_finding(const struct flmem_heap_profile *p,
				  const struct flmem_heap_finding *finding)
{
	char bytes[FORMAT_MAX];

	format_bytes(finding->bytes, bytes);
	switch (finding->kind) {
	case FLMEM_HEAP_FINDING_GROWS:
		printf("  grows with the rounds (%s, confidence %.1f %%): ", bytes,
		       finding->confidence * 100);
		break;
	case FLMEM_HEAP_FINDING_MAY_GROW:
		printf("  may grow (%s, confidence %.1f %%, %s): ", bytes,
		       finding->confidence * 100,
		       finding->unconfirmed ? "not confirmed by RSS" : "without rounds");
		break;
	case FLMEM_HEAP_FINDING_HOLDS:
		printf("  holds %.0f %% of the peak (%s): ", finding->share * 100, bytes);
		break;
	case FLMEM_HEAP_FINDING_CHURNS:
		printf("  allocates %.0f times the peak in total (%s): ", finding->share, bytes);
		break;
	}
	print_profile_frame(p, finding->frame);
	print_profile_own_frame(p, finding->frame, finding->own_frame, "    ");
}

/* Prints the changes. Returns how many are shown. */
static size_t print_folder_changes(const struct flmem_heap_folder *folder, size_t index,
				   enum flmem_heap_measure measure,
				   const struct flmem_heap_comparison *comparison, size_t limit)
{
	const struct flmem_heap_profile *const pair[2] = {folder->profiles[folder->baseline],
							  folder->profiles[index]};

	size_t shown = 0;

	for (size_t i = 0; i < comparison->count && shown < limit; i++) {
		const struct flmem_heap_difference *row = &comparison->rows[i];

		if (!flmem_heap_is_change(pair, row, measure))
			continue;
		shown++;
		print_profile_difference(pair, measure, row);
	}
	return shown;
}

/* Prints what stands out in one profile. */
static void print_analysis(const struct flmem_heap_folder *folder, size_t index,
			   enum flmem_heap_measure measure,
			   const struct flmem_heap_analysis *analysis, size_t limit)
{
	const struct flmem_heap_profile *p = folder->profiles[index];
	const char *few = flmem_heap_leaks_too_few(p);
	size_t shown = analysis->finding_count + (few != NULL);
	char name[FLMEM_HEAP_FRAME_TEXT_MAX];

	printf("\n%s\n", name_in_folder(p, name, sizeof(name)));
	if (few)
		printf("  growth: not enough to conclude: %s\n", few);
	for (size_t k = 0; k < analysis->finding_count; k++)
		print_profile_finding(p, &analysis->findings[k]);
	if (index != folder->baseline)
		shown += print_folder_changes(folder, index, measure, &analysis->comparison, limit);
	if (!shown)
		puts("  nothing conspicuous");
	print_profile_notes(p);
}

static void print_folder(const struct analyze_options *o, const struct flmem_heap_folder *folder,
			 enum flmem_heap_measure measure,
			 const struct flmem_heap_analysis *analyses)
{
	size_t limit = o->profile.limit ? o->profile.limit : CHANGES_SHOWN;

	print_folder_totals(folder);
	for (size_t i = 0; i < folder->count; i++)
		print_analysis(folder, i, measure, &analyses[i], limit);
	for (size_t i = 0; i < folder->unread_count; i++)
		fprintf(stderr, "flmem: left out: %s\n", folder->unread[i].reason);
}

static int analyze_profiles(const struct flmem_heap_folder *folder, enum flmem_heap_measure measure,
			    struct flmem_heap_analysis *analyses, struct flmem_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < folder->count && !rc; i++) {
		rc = flmem_heap_findings(folder->profiles[i], analyses[i].findings,
					 &analyses[i].finding_count, err);
		if (!rc && i != folder->baseline)
			rc = flmem_heap_compare(folder->profiles[folder->baseline],
						folder->profiles[i], measure,
						&analyses[i].comparison, err);
	}
	return rc;
}

static int show_folder(const struct analyze_options *o, const struct flmem_heap_folder *folder,
		       struct flmem_error *err)
{
	struct flmem_heap_analysis *analyses = calloc(folder->count, sizeof(*analyses));
	enum flmem_heap_measure measure;
	int rc = profile_measure_of_all(&o->profile,
					(const struct flmem_heap_profile *const *)folder->profiles,
					folder->count, &measure, err);

	if (!analyses)
		return flmem_error_nomem(err, "cannot analyze the profiles");
	if (!rc)
		rc = analyze_profiles(folder, measure, analyses, err);
	if (!rc && o->profile.json)
		rc = print_json(flmem_report_heap_analyze_json(folder, measure, analyses,
							       o->profile.limit ? o->profile.limit
										: SIZE_MAX),
				err);
	else if (!rc)
		print_folder(o, folder, measure, analyses);
	for (size_t i = 0; i < folder->count; i++)
		flmem_heap_comparison_clear(&analyses[i].comparison);
	free(analyses);
	return rc;
}

static int run_profile_analyze(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	const struct analyze_options *o = options;
	struct flmem_heap_folder folder = {0};
	struct flmem_heap_request request;
	struct flmem_error err = {0};
	int rc = profile_request(&o->profile, false, &request, &err);

	if (!rc && rest->count != 1)
		rc = flmem_error_set(&err, FLMEM_EUSAGE, 0,
				     "name one folder after the options, not %d", rest->count);
	if (!rc)
		rc = flmem_heap_folder_read(rest->values[0], o->baseline, &request, &folder, &err);
	if (!rc)
		rc = show_folder(o, &folder, &err);
	flmem_heap_folder_clear(&folder);
	return rc ? cmd_fail(cmd, o->profile.json, &err) : 0;
}

static const char *const profile_analyze_examples[] = {
	"flmem profile analyze profiles",
	"all runs of an experiment side by side, and the findings of each",
	NULL,
};

const struct cmd cmd_profile_analyze = {
	.name = "profile analyze",
	.summary = "compares all heap profiles of a folder",
	.arguments = "DIR",
	.description =
		"Prints for each profile the totals, the stacks whose live bytes grow (with "
		"the rounds or, less certain, without), a line with at least half of the "
		"peak, and a line that in total allocates ten times the peak. It also prints "
		"the functions that differ most from the baseline, if by more than the "
		"sampling error. Files that are not profiles, and subfolders, are ignored.",
	.examples = profile_analyze_examples,
	.options = profile_analyze_options_table,
	.options_size = sizeof(struct analyze_options),
	.complete = OPT_COMPLETE_FILE,
	.run = run_profile_analyze,
};
