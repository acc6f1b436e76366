/* SPDX-License-Identifier: Apache-2.0 */
#include "print/print_profile.h"

#include <inttypes.h>
#include <stdio.h>

#include <flmem/text.h>

#include "print/print_format.h"

#define PATH_SHOWN 256

/* Prints the lost samples. The bytes are those of both kinds, which the profile does not divide. */
static void print_lost_samples(const struct flmem_heap_profile *p)
{
	uint64_t untaken =
		p->untaken_samples < p->lost_samples ? p->untaken_samples : p->lost_samples;
	uint64_t full = p->lost_samples - untaken;
	char number[FLMEM_TEXT_COUNTED_MAX], other[FLMEM_TEXT_COUNTED_MAX], bytes[FORMAT_MAX];

	flmem_text_counted(full, "sample", number, sizeof(number));
	flmem_text_counted(untaken, "sample", other, sizeof(other));
	format_bytes(p->lost_bytes, bytes);
	if (full)
		fprintf(stderr,
			"flmem: %s (%s%s) did not fit in the file: give it a larger --limit or "
			"--interval\n",
			number, bytes, untaken ? " with those that could not be taken" : "");
	if (untaken)
		fprintf(stderr,
			"flmem: %s%s%s%s could not be taken: in signal handlers, or in more "
			"threads "
			"at once than the sampler has buffers\n",
			other, full ? "" : " (", full ? "" : bytes, full ? "" : ")");
}

/* Prints which records lack a detail. */
static void print_lost_details(const struct flmem_heap_profile *p)
{
	char number[FLMEM_TEXT_COUNTED_MAX];

	if (p->unread_frames && p->stacks != FLMEM_HEAP_STACKS_NATIVE)
		fprintf(stderr, "flmem: %s could not be read: stacks lack them, or end there\n",
			flmem_text_counted(p->unread_frames, "Python frame", number,
					   sizeof(number)));
	if (p->lost_names)
		fprintf(stderr,
			"flmem: %s of functions and files did not fit in the file; give it a "
			"larger --limit\n",
			flmem_text_counted(p->lost_names, "name", number, sizeof(number)));
	if (p->lost_modules && p->stacks != FLMEM_HEAP_STACKS_PYTHON)
		fprintf(stderr,
			"flmem: modules of %s did not fit in the file: native stacks end there; "
			"give it a larger --limit\n",
			flmem_text_counted(p->lost_modules, "code range", number, sizeof(number)));
	if (p->lost_threads)
		fprintf(stderr,
			"flmem: %s did not fit in the file: what they allocated counts, without "
			"its thread\n",
			flmem_text_counted(p->lost_threads, "thread", number, sizeof(number)));
}

static void print_unseen_calls(const struct flmem_heap_profile *p)
{
	char number[FLMEM_TEXT_COUNTED_MAX];

	if (p->unseen_calls)
		fprintf(stderr,
			"flmem: %s of the allocator bypassed the sampler when attach ended, mostly "
			"in libraries that were loaded meanwhile: what they allocated is not in "
			"the profile\n",
			flmem_text_counted(p->unseen_calls, "call", number, sizeof(number)));
}

/*
 * Prints selected rounds that the profile lacks: they would look as if they had allocated nothing.
 */
static void print_absent_rounds(const struct flmem_heap_profile *p)
{
	uint64_t first, last;

	if (p->by_round && flmem_heap_rounds_span(p, &first, &last) &&
	    (first > p->first_round || last < p->last_round))
		fprintf(stderr, "flmem: the file has the rounds %" PRIu64 " to %" PRIu64 " only\n",
			first, last);
}

static void print_losses(const struct flmem_heap_profile *p)
{
	char number[FLMEM_TEXT_COUNTED_MAX];

	print_absent_rounds(p);
	print_lost_samples(p);
	print_unseen_calls(p);
	if (p->cut_stacks)
		fprintf(stderr, "flmem: %s without outer frames, deeper than a file can hold\n",
			flmem_text_counted(p->cut_stacks, "stack", number, sizeof(number)));
	if (p->full_stacks)
		fprintf(stderr,
			"flmem: %s without inner frames, which did not fit in the file: what they "
			"allocated is attributed to their callers; give it a larger --limit\n",
			flmem_text_counted(p->full_stacks, "stack", number, sizeof(number)));
	if (p->lost_rounds)
		fprintf(stderr,
			"flmem: %s did not fit in the file, the last ones: what they allocated is "
			"only in the totals; give it a larger --limit\n",
			flmem_text_counted(p->lost_rounds, "round", number, sizeof(number)));
	if (p->restarted_rounds)
		fprintf(stderr,
			"flmem: the round numbers restarted %s, as with a second job: rounds with "
			"the same number are added together; continue the numbers, or give each "
			"job a process and a profile\n",
			flmem_text_counted(p->restarted_rounds, "time", number, sizeof(number)));
	print_lost_details(p);
	if (p->unmixed_stacks && p->stacks != FLMEM_HEAP_STACKS_PYTHON)
		fprintf(stderr,
			"flmem: %s without some of the native frames between Python frames\n",
			flmem_text_counted(p->unmixed_stacks, "stack", number, sizeof(number)));
	if (p->lost_children)
		fprintf(stderr, "flmem: %s could not be recorded, the latest one since: %s\n",
			flmem_text_counted(p->lost_children, "child process", number,
					   sizeof(number)),
			p->lost_children_reason);
	if (p->skipped)
		fprintf(stderr, "flmem: %s of the file are inconsistent and were skipped\n",
			flmem_text_counted(p->skipped, "record", number, sizeof(number)));
}

/*
 * Returns whether some stacks have no native frames. They would mislead as one place in the
 * program.
 */
static bool has_stacks_without_native(const struct flmem_heap_profile *profile)
{
	if (profile->stacks != FLMEM_HEAP_STACKS_NATIVE || !profile->has_python)
		return false;
	for (size_t i = 0; i < profile->site_count; i++)
		if (!profile->sites[i].node)
			return true;
	return false;
}

void print_profile_more(size_t count)
{
	if (count)
		printf("and %zu more; --limit shows them\n", count);
}

void print_profile_notes(const struct flmem_heap_profile *profile)
{
	char shown[PATH_SHOWN], cut[FLMEM_HEAP_CUT_TEXT_MAX];

	flmem_text_escape(profile->path, shown, sizeof(shown));
	if (profile->ending == FLMEM_HEAP_RUNNING)
		fprintf(stderr, "flmem: '%s': the program is running%s\n", shown,
			profile->changing ? " and changed the file meanwhile: sums may differ by a "
					    "few samples"
					  : "");
	if (profile->restricted)
		fprintf(stderr,
			"flmem: '%s': the profile ends where the program restricted its system "
			"calls (seccomp): a sample could have killed it from then on\n",
			shown);
	if (profile->ending == FLMEM_HEAP_KILLED)
		fprintf(stderr,
			"flmem: '%s': the program was killed, ended by _exit() as shells and "
			"children of Python's multiprocessing do, executed another program without "
			"the sampler, or runs on another host\n",
			shown);
	if (profile->cut)
		fprintf(stderr, "flmem: '%s' %s: %s; copy it again, with all its bytes\n", shown,
			flmem_heap_cut_name(profile),
			flmem_heap_cut_text(profile, cut, sizeof(cut)));
	if (has_stacks_without_native(profile))
		fprintf(stderr,
			"flmem: '%s': stacks that have Python frames only are shown as one; "
			"--native of profile run and attach records native frames\n",
			shown);
	print_losses(profile);
}

void print_profile_columns(void)
{
	for (enum flmem_heap_measure m = 0; m < FLMEM_HEAP_MEASURE_COUNT; m++)
		printf("%11s", flmem_heap_measure_name(m));
}

void print_profile_amounts(const struct flmem_heap_profile *profile,
			   const struct flmem_heap_amounts *amounts)
{
	char bytes[FORMAT_MAX];

	for (enum flmem_heap_measure m = 0; m < FLMEM_HEAP_MEASURE_COUNT; m++)
		printf("%11s", format_bytes_or(flmem_heap_bytes(profile, amounts, m), "-", bytes));
}

void print_profile_frame(const struct flmem_heap_profile *profile, uint32_t frame)
{
	char text[FLMEM_HEAP_FRAME_TEXT_MAX];

	if (frame != FLMEM_HEAP_NO_FRAME)
		puts(flmem_heap_frame_text(&profile->frames[frame], text, sizeof(text)));
	else if (profile->stacks == FLMEM_HEAP_STACKS_MIXED)
		puts("(no stack)");
	else
		printf("(no %s frame)\n",
		       profile->stacks == FLMEM_HEAP_STACKS_PYTHON ? "Python" : "native");
}

void print_profile_own_frame(const struct flmem_heap_profile *profile, uint32_t frame, uint32_t own,
			     const char *indent)
{
	if (own == FLMEM_HEAP_NO_FRAME || own == frame)
		return;
	printf("%sown line: ", indent);
	print_profile_frame(profile, own);
}

void print_profile_stack(const struct flmem_heap_profile *profile, uint32_t node,
			 const char *indent)
{
	if (!node) {
		fputs(indent, stdout);
		print_profile_frame(profile, FLMEM_HEAP_NO_FRAME);
	}
	for (; node; node = profile->nodes[node].parent) {
		fputs(indent, stdout);
		print_profile_frame(profile, profile->nodes[node].frame);
	}
}

static const char *format_change(struct flmem_u64 before, struct flmem_u64 after,
				 char out[FORMAT_MAX + 1])
{
	if (before.unknown || after.unknown)
		return "-";
	out[0] = after.value < before.value ? '-' : '+';
	format_bytes(after.value < before.value ? before.value - after.value
						: after.value - before.value,
		     out + 1);
	return out;
}

void print_profile_compared(const struct flmem_heap_profile *const profiles[2],
			    enum flmem_heap_measure measure, const struct flmem_heap_amounts *first,
			    const struct flmem_heap_amounts *second)
{
	struct flmem_u64 before = flmem_heap_bytes(profiles[0], first, measure);
	struct flmem_u64 after = flmem_heap_bytes(profiles[1], second, measure);
	char a[FORMAT_MAX], b[FORMAT_MAX], change[FORMAT_MAX + 1];

	printf("%12s%11s%11s", format_change(before, after, change),
	       format_bytes_or(before, "-", a), format_bytes_or(after, "-", b));
}

void print_profile_difference(const struct flmem_heap_profile *const profiles[2],
			      enum flmem_heap_measure measure,
			      const struct flmem_heap_difference *row)
{
	uint64_t bytes = row->own[0].bytes[measure] / 2 + row->own[1].bytes[measure] / 2;
	char text[FLMEM_HEAP_FRAME_TEXT_MAX];

	print_profile_compared(profiles, measure, &row->own[0], &row->own[1]);
	printf("  %s\n",
	       flmem_heap_frame_text(row->no_frame ? NULL : &row->frame, text, sizeof(text)));
	if (row->has_own_frame && row->own_elsewhere)
		printf("%38sown line: %s\n", "",
		       flmem_heap_frame_text(&row->own_frame, text, sizeof(text)));
	if (row->arena_bytes[0] / 2 + row->arena_bytes[1] / 2 > bytes / 2)
		printf("%38smostly small objects of Python: --python-allocators shows them one by "
		       "one\n",
		       "");
}
