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

#define LEAKS_SHOWN 10U

struct leaks_options {
	struct profile_options profile; /* must be first: PROFILE_OPTIONS */
	const char *fail_on;
};

enum leaks_fail_on {
	LEAKS_GROWS,
	LEAKS_MAY_GROW,
};

static const char *const leaks_choices[] = {"grows", "may-grow", NULL};

static const struct opt profile_leaks_options_table[] = {
	{.name = "fail-on",
	 .kind = OPT_CHOICE,
	 .offset = offsetof(struct leaks_options, fail_on),
	 .choices = leaks_choices,
	 .help = "exit with status 1 where the live bytes of a stack grow with the rounds; with "
		 "may-grow also where that is less certain: without rounds, or where RSS does not "
		 "grow (default: what is found does not change the status)"},
	PROFILE_STACK_OPTION,
	PROFILE_IMPORTS_OPTION,
	PROFILE_LIMIT_OPTION("show at most this many (default 10)"),
	PROFILE_JSON_OPTION,
	{0},
};

/* Returns the unit of growth. Numbers without a sample may be rounds of the job, or none. */
static const char *leaks_period(const struct flmem_heap_leaks *leaks)
{
	if (!leaks->by_round)
		return "hour";
	return leaks->round_span > leaks->periods ? "round with samples" : "round";
}

static void print_growth_by_number(const struct flmem_heap_leaks *leaks,
				   const struct flmem_heap_leak *leak)
{
	char growth[FORMAT_MAX];

	if (!leaks->by_round || leaks->round_span <= leaks->periods)
		return;
	printf("  by their numbers %" PRIu32 " rounds have passed: %s per round\n",
	       leaks->round_span,
	       format_bytes((uint64_t)(leak->growth_bytes * (leaks->periods - 1) /
				       (leaks->round_span - 1)),
			    growth));
}

static void print_leak(const struct flmem_heap_profile *p, const struct flmem_heap_leaks *leaks,
		       const struct flmem_heap_leak *leak)
{
	char live[FORMAT_MAX], growth[FORMAT_MAX], age[FORMAT_MAX];
	uint32_t node = p->sites[leak->site].node;

	printf("\n%s live, grows by %s per %s, confidence %.1f %%\n",
	       format_bytes(leak->grown_bytes, live),
	       format_bytes((uint64_t)leak->growth_bytes, growth), leaks_period(leaks),
	       leak->confidence * 100);
	print_growth_by_number(leaks, leak);
	printf("  live from %" PRIu32 " of %" PRIu32 " %s", leak->survived_in, leak->periods,
	       leaks->by_round ? "rounds" : "parts of the time");
	if (!leak->oldest_us.unknown)
		printf(", the oldest %s old", format_us(leak->oldest_us.value, age));
	if (leak->live_bytes < leak->grown_bytes / 2)
		printf(" (freed at the end of the program)");
	putchar('\n');
	if (p->sites[leak->site].arenas)
		puts("  arenas of Python's small objects: --python-allocators shows these one by "
		     "one");
	if (leak->unconfirmed)
		puts("  not confirmed: RSS does not grow, so it may replace what is older than the "
		     "profile; sample longer");
	print_profile_own_frame(p, node ? p->nodes[node].frame : FLMEM_HEAP_NO_FRAME,
				flmem_heap_own_frame(p, node), "  ");
	print_profile_stack(p, node, "    ");
}

/*
 * Prints which growth is not found: without rounds a slow leak leaves nothing in most parts of the
 * time.
 */
static void print_unseen_growth(const struct flmem_heap_profile *p, uint32_t parts)
{
	char apart[FORMAT_MAX];

	printf("what grows less often than every %s is not found: sample longer, or announce "
	       "rounds with flmem profile round\n",
	       format_us(p->duration_us / parts, apart));
}

static void print_leaks(const struct profile_options *o, const struct flmem_heap_profile *p,
			const struct flmem_heap_leaks *leaks)
{
	size_t limit = o->limit ? o->limit : LEAKS_SHOWN;
	char number[FLMEM_TEXT_COUNTED_MAX];

	if (leaks->too_few)
		printf("not enough to conclude: %s\n", leaks->too_few);
	else if (leaks->by_round)
		printf("%s whose live bytes grow with the rounds (%" PRIu32 " rounds)\n",
		       flmem_text_counted(leaks->count, "stack", number, sizeof(number)),
		       leaks->periods);
	else
		printf("%s with live allocations from most parts of the time (the file has no "
		       "rounds)\n",
		       flmem_text_counted(leaks->count, "stack", number, sizeof(number)));
	if (!leaks->too_few && !leaks->by_round && !leaks->count)
		print_unseen_growth(p, leaks->periods);
	for (size_t i = 0; i < leaks->count && i < limit; i++)
		print_leak(p, leaks, &leaks->rows[i]);
	if (leaks->count > limit) {
		putchar('\n');
		print_profile_more(leaks->count - limit);
	}
	print_profile_notes(p);
}

static bool has_passed_limit(const struct leaks_options *o, const struct flmem_heap_leaks *leaks)
{
	if (!o->fail_on)
		return false;
	if (opt_choice_index(leaks_choices, o->fail_on, LEAKS_GROWS) == LEAKS_MAY_GROW)
		return leaks->count;
	for (size_t i = 0; i < leaks->count; i++)
		if (leaks->by_round && !leaks->rows[i].unconfirmed)
			return true;
	return false;
}

static int show_leaks(const struct profile_options *o, const struct flmem_heap_profile *p,
		      struct flmem_error *err)
{
	struct flmem_heap_leaks leaks;
	int rc = flmem_heap_leaks_find(p, &leaks, err);

	if (rc)
		return rc;
	if (o->json)
		rc = print_json(
			flmem_report_heap_leaks_json(p, &leaks, o->limit ? o->limit : SIZE_MAX),
			err);
	else
		print_leaks(o, p, &leaks);
	if (!rc && leaks.too_few)
		rc = FLMEM_EUNDECIDED;
	else if (!rc && has_passed_limit((const struct leaks_options *)o, &leaks))
		rc = FLMEM_EFINDINGS;
	flmem_heap_leaks_clear(&leaks);
	return rc;
}

static int run_profile_leaks(const struct cmd *cmd, void *options, const struct opt_rest *rest)
{
	return profile_show_one(cmd, options, rest, show_leaks);
}

static const char *const profile_leaks_examples[] = {
	"flmem profile leaks server.prof",
	"the stacks whose live bytes grow with the rounds",
	"flmem profile leaks --fail-on grows server.prof",
	"the same in a test: exit status 1 where one grows",
	NULL,
};

const struct cmd cmd_profile_leaks = {
	.name = "profile leaks",
	.summary = "finds the stacks whose live bytes keep growing",
	.arguments = "FILE",
	.description =
		"With rounds in the file, the command tests the live bytes of each stack at "
		"the ends of the rounds for a trend; the test is robust against outliers. "
		"Without rounds it lists a stack if allocations from most parts of the "
		"sampled time are still live, which needs about 12 allocations and is less "
		"certain. Stacks with the oldest live allocations are first. The first figure "
		"of a stack is its live bytes at the end of the profile or, if the program "
		"freed them when it ended, before that. The confidence is the confidence that "
		"the growth is a trend and not a fluctuation. If the profile began after its "
		"process, growth that RSS does not show is not confirmed. The exit status is "
		"9 if the profile is truncated, or has too little time or too few rounds for "
		"a conclusion.",
	.examples = profile_leaks_examples,
	.options = profile_leaks_options_table,
	.options_size = sizeof(struct leaks_options),
	.complete = OPT_COMPLETE_FILE,
	.run = run_profile_leaks,
};
