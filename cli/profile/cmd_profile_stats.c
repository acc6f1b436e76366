/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <flmem/heap_report.h>
#include <flmem/text.h>

#include "cmd.h"
#include "print/print_format.h"
#include "print/print_json.h"
#include "print/print_profile.h"
#include "profile/profile_options.h"

#define LINES_SHOWN 5U

/* Where there are more rounds, the first, the last and those with the largest peaks are shown. */
#define ROUNDS_ALL   16U /* up to this number all rounds are shown: few would be left out */
#define ROUNDS_SHOWN 12U
#define ROUNDS_EACH  4U

/* This indents the program's own line to the column of the frame above it. */
#define OWN_LINE_INDENT "               "

static const struct opt profile_stats_options_table[] = {
	PROFILE_OPTIONS("show at most this many of the largest lines of code (default 5)"),
	{0},
};

/*
 * Prints how long was sampled. The file of a running or killed program ends with its latest sample.
 */
static void print_profile_span(const struct flmem_heap_profile *p)
{
	char span[FORMAT_MAX];

	printf("process: %" PRIu32, p->pid);
	if (p->ending == FLMEM_HEAP_ENDED)
		printf(", sampled for %s\n", format_us(p->duration_us, span));
	else if (p->samples)
		printf(", latest sample after %s\n", format_us(p->duration_us, span));
	else
		puts(", no sample yet");
	if (p->began_late)
		puts("began after its process: what was allocated before is not in the profile");
}

static void print_profile_samples(const struct flmem_heap_profile *p)
{
	char bytes[FORMAT_MAX], most[FORMAT_MAX];

	fputs("samples: ", stdout);
	if (!p->unrecorded)
		printf("%" PRIu64 ", ", p->samples);
	printf("one per %s on average", format_bytes(p->interval_bytes, bytes));
	if (p->interval_full_bytes > p->interval_bytes)
		printf(", later one per %s because the file filled",
		       format_bytes(p->interval_full_bytes, most));
	if (p->interval_now_bytes > p->interval_full_bytes)
		printf(", at times one per %s", format_bytes(p->interval_now_bytes, most));
	putchar('\n');
}

static void print_no_samples(const struct flmem_heap_profile *p)
{
	if (p->began_late)
		puts("no samples: the process has allocated too little itself since then; wait "
		     "longer, or give a smaller --interval. Processes that it starts have their "
		     "own profiles only");
	else
		puts("no samples: the program has allocated too little itself; of programs that it "
		     "starts (a shell's, timeout's) there are profiles with --follow-children");
}

static void print_facts(const struct flmem_heap_profile *p)
{
	char shown[FLMEM_HEAP_FRAME_TEXT_MAX], bytes[FORMAT_MAX], span[FORMAT_MAX];

	printf("%s: %s\n", flmem_text_escape(p->path, shown, sizeof(shown)),
	       flmem_heap_ending_name(p->ending));
	if (p->command[0])
		printf("command: %s\n", flmem_text_escape(p->command, shown, sizeof(shown)));
	else if (p->program[0]) /* the profile is one of a child */
		printf("program: %s\n", flmem_text_escape(p->program, shown, sizeof(shown)));
	if (!p->unrecorded)
		print_profile_span(p);
	if (p->allocator[0])
		printf("allocator: %s\n", flmem_text_escape(p->allocator, shown, sizeof(shown)));
	print_profile_samples(p);
	if (!p->unrecorded && !p->samples)
		print_no_samples(p);
	if (p->no_python)
		printf("no Python frames: %s\n", p->no_python);
	if (p->peak_bytes)
		printf("peak: %s after %s\n", format_bytes(p->peak_bytes, bytes),
		       format_us(p->peak_at_us, span));
}

static void print_profile_counts(const struct flmem_heap_profile *p)
{
	printf("%11s", "");
	print_profile_columns();
	printf("\n%-11s", "bytes");
	print_profile_amounts(p, &p->totals);
	printf("\n%-11s", "allocations");
	for (enum flmem_heap_measure m = 0; m < FLMEM_HEAP_MEASURE_COUNT; m++) {
		struct flmem_u64 count = flmem_heap_count(p, &p->totals, m);

		if (count.unknown)
			printf("%11s", "-");
		else
			printf("%11" PRIu64, count.value);
	}
	if (flmem_heap_lacks_amounts(p))
		puts("\nstacks: -");
	else
		printf("\nstacks: %zu\n", p->site_count);
}

static bool is_selected_round(const struct flmem_heap_profile *p, const struct flmem_heap_round *r)
{
	return !p->by_round || (!r->number.unknown && r->number.value >= p->first_round &&
				r->number.value <= p->last_round);
}

static void print_round(const struct flmem_heap_round *r)
{
	char a[FORMAT_MAX], f[FORMAT_MAX], k[FORMAT_MAX], number[24] = "before";

	if (!r->number.unknown)
		snprintf(number, sizeof(number), "%" PRIu64, r->number.value);
	printf("%11s%11s%11s%11s\n", number, format_bytes(r->allocated_bytes, a),
	       format_bytes(r->freed_bytes, f), format_bytes(r->peak_bytes, k));
}

/* Returns the first round with the largest peak that is not shown yet. */
static size_t largest_hidden_round(const struct flmem_heap_profile *p, const bool *shown)
{
	size_t largest = p->round_count;

	for (size_t i = 0; i < p->round_count; i++)
		if (!shown[i] && is_selected_round(p, &p->rounds[i]) &&
		    (largest == p->round_count ||
		     p->rounds[i].peak_bytes > p->rounds[largest].peak_bytes))
			largest = i;
	return largest;
}

/* Chooses which rounds are shown. Returns how many are left out. */
static size_t choose_rounds(const struct flmem_heap_profile *p, bool *shown)
{
	size_t selected = 0, from_start = 0, left;

	for (size_t i = 0; i < p->round_count; i++)
		selected += is_selected_round(p, &p->rounds[i]);
	for (size_t i = 0; i < p->round_count; i++) {
		if (!is_selected_round(p, &p->rounds[i]))
			continue;
		shown[i] = selected <= ROUNDS_ALL || from_start < ROUNDS_EACH ||
			   from_start >= selected - ROUNDS_EACH;
		from_start++;
	}
	if (selected <= ROUNDS_ALL)
		return 0;
	for (left = ROUNDS_SHOWN - 2 * ROUNDS_EACH; left; left--)
		shown[largest_hidden_round(p, shown)] = true;
	return selected - ROUNDS_SHOWN;
}

static void print_rounds(const struct flmem_heap_profile *p)
{
	bool *shown = calloc(p->round_count + 1, sizeof(*shown));
	size_t left_out;

	if (!shown || !p->round_count || (p->round_count == 1 && p->rounds[0].number.unknown)) {
		free(shown);
		return;
	}
	left_out = choose_rounds(p, shown);
	printf("\n%11s%11s%11s%11s\n", "round", "allocated", "freed", "peak");
	for (size_t i = 0; i < p->round_count; i++)
		if (shown[i])
			print_round(&p->rounds[i]);
	if (left_out)
		printf("rounds: %zu more between them, without a larger peak; --json has all\n",
		       left_out);
	free(shown);
}

/* Prints the largest lines. There is no heading without a line below it. */
static void print_largest(const struct flmem_heap_profile *p, enum flmem_heap_measure measure,
			  const struct flmem_heap_row *rows, size_t count)
{
	char bytes[FORMAT_MAX];

	if (count && rows[0].own.bytes[measure])
		printf("\nlargest by %s:\n", flmem_heap_measure_name(measure));
	else if (p->unknown[measure])
		printf("\nlargest by %s: unknown: %s\n", flmem_heap_measure_name(measure),
		       p->unknown[measure]);
	for (size_t i = 0; i < count && rows[i].own.bytes[measure]; i++) {
		printf("%11s  ", format_bytes(rows[i].own.bytes[measure], bytes));
		print_profile_frame(p, rows[i].frame);
		print_profile_own_frame(p, rows[i].frame, rows[i].own_frame, OWN_LINE_INDENT);
	}
}

static void print_stats(const struct flmem_heap_profile *p, enum flmem_heap_measure measure,
			const struct flmem_heap_row *rows, size_t count)
{
	print_facts(p);
	print_profile_counts(p);
	print_rounds(p);
	print_largest(p, measure, rows, count);
	print_profile_notes(p);
}

static int show_stats(const struct profile_options *o, const struct flmem_heap_profile *p,
		      struct flmem_error *err)
{
	struct flmem_heap_row *rows = NULL;
	enum flmem_heap_measure measure;
	size_t count, limit = o->limit ? o->limit : LINES_SHOWN;
	int rc = profile_measure_shown(o, p, &measure, err);

	if (!rc)
		rc = flmem_heap_rows(p, FLMEM_HEAP_BY_LINE, measure, &rows, &count, err);
	if (rc)
		return rc;
	count = count < limit ? count : limit;
	if (o->json)
		rc = print_json(flmem_report_heap_stats_json(p, measure, rows, count), err);
	else
		print_stats(p, measure, rows, count);
	free(rows);
	return rc;
}

static int run_profile_stats(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	return profile_show_one(cmd, options, rest, show_stats);
}

static const char *const profile_stats_examples[] = {
	"flmem profile stats server.prof",
	"how the profile was sampled, totals, and the largest lines of code",
	NULL,
};

const struct cmd cmd_profile_stats = {
	.name = "profile stats",
	.summary = "shows the totals of a heap profile and its largest lines of code",
	.arguments = "FILE",
	.description = "Bytes and counts are estimates from samples: the relative "
		       "standard error of N bytes in small allocations is about "
		       "sqrt(interval / N), with the default interval of 512 KiB 7 % for 100 MiB. "
		       "Allocations of two intervals and more are exact.",
	.examples = profile_stats_examples,
	.options = profile_stats_options_table,
	.options_size = sizeof(struct profile_options),
	.complete = OPT_COMPLETE_FILE,
	.run = run_profile_stats,
};
