/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/detect/verdict.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "ops/detect/memory_classes.h"

#define CONFIDENCE_HIGH	  90U
#define CONFIDENCE_MEDIUM 60U
#define CONFIDENCE_SPLIT  50U /* most, if the error could change the verdict */

static const char nothing_resident[] = "the process has no resident memory";
static const char no_heap[] = "its heap could not be read";

#define CLASS_TEXT(name, text, what) {text, what},
#define VERDICT_TEXT(name, text)     [FLMEM_VERDICT_##name] = (text),

static const struct {
	const char *name, *meaning;
} class_texts[] = {FLMEM_MEMORY_CLASSES(CLASS_TEXT)};

static const char *const verdict_names[] = {FLMEM_VERDICTS(VERDICT_TEXT)};

/* The classes that count towards each verdict. */
static const struct {
	enum flmem_verdict_kind kind;
	enum flmem_memory_class classes[2];
} candidates[] = {
	{FLMEM_VERDICT_LIVE, {FLMEM_MEMORY_LIVE, FLMEM_MEMORY_LIVE}},
	{FLMEM_VERDICT_RETAINED, {FLMEM_MEMORY_RETAINED, FLMEM_MEMORY_RETAINED}},
	{FLMEM_VERDICT_FRAGMENTED, {FLMEM_MEMORY_FRAGMENTED, FLMEM_MEMORY_FRAGMENTED}},
	{FLMEM_VERDICT_CACHED, {FLMEM_MEMORY_CACHED, FLMEM_MEMORY_CACHED}},
	{FLMEM_VERDICT_RUNTIME, {FLMEM_MEMORY_RUNTIME, FLMEM_MEMORY_RUNTIME}},
	{FLMEM_VERDICT_SHARED_OR_FILE, {FLMEM_MEMORY_SHARED, FLMEM_MEMORY_FILE}},
};

const char *flmem_memory_class_name(enum flmem_memory_class which)
{
	return class_texts[which < FLMEM_MEMORY_CLASS_COUNT ? which : FLMEM_MEMORY_UNKNOWN].name;
}

const char *flmem_memory_class_meaning(enum flmem_memory_class which)
{
	return class_texts[which < FLMEM_MEMORY_CLASS_COUNT ? which : FLMEM_MEMORY_UNKNOWN].meaning;
}

const char *flmem_verdict_name(enum flmem_verdict_kind kind)
{
	return kind < FLMEM_ARRAY_SIZE(verdict_names) ? verdict_names[kind] : NULL;
}

const char *flmem_confidence_word(unsigned percent)
{
	return percent >= CONFIDENCE_HIGH     ? "high"
	       : percent >= CONFIDENCE_MEDIUM ? "medium"
					      : "low";
}

static double percent_of(uint64_t bytes, uint64_t of)
{
	return of ? (double)bytes / (double)of * 100 : 0;
}

/* Returns the candidate with the most bytes. */
static enum flmem_verdict_kind largest_candidate(const struct flmem_memory_classes *classes,
						 uint64_t *ret_bytes)
{
	enum flmem_verdict_kind kind = FLMEM_VERDICT_LIVE;
	uint64_t most = 0;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(candidates); i++) {
		enum flmem_memory_class first = candidates[i].classes[0];
		enum flmem_memory_class second = candidates[i].classes[1];
		uint64_t bytes = classes->bytes[first];

		if (second != first)
			bytes += classes->bytes[second];
		if (bytes > most) {
			most = bytes;
			kind = candidates[i].kind;
		}
	}
	*ret_bytes = most;
	return kind;
}

static bool is_dominant(uint64_t bytes, uint64_t rss)
{
	return percent_of(bytes, rss) >= FLMEM_VERDICT_DOMINANT_PERCENT;
}

static unsigned compute_confidence(const struct flmem_memory_classes *classes, uint64_t rss,
				   uint64_t most)
{
	double unknown = percent_of(classes->bytes[FLMEM_MEMORY_UNKNOWN], rss);
	double error = percent_of(classes->error_bytes, rss);
	double percent = unknown + error < 100 ? 100 - unknown - error : 0;
	bool turns;

	/* Unknown bytes can only enlarge the largest class; an error can also reduce it. */
	if (is_dominant(most, rss))
		turns = error > 0 && percent_of(most, rss) - error < FLMEM_VERDICT_DOMINANT_PERCENT;
	else
		turns = percent_of(most, rss) + unknown + error >= FLMEM_VERDICT_DOMINANT_PERCENT;
	if (turns && percent > CONFIDENCE_SPLIT)
		percent = CONFIDENCE_SPLIT;
	return (unsigned)(percent + 0.5);
}

const char *flmem_verdict_reason(const struct flmem_process_report *report)
{
	if (report->memory.anon_bytes.unknown)
		return report->memory.anon_bytes.unknown;
	if (report->allocators_unknown)
		return report->allocators_unknown;
	for (size_t i = 0; i < report->allocator_count; i++) {
		const struct flmem_heap_report *heap = &report->allocators[i].heap;

		if (heap->resident_bytes.unknown)
			return heap->resident_bytes.unknown;
		if (heap->trimmable_bytes.unknown)
			return heap->trimmable_bytes.unknown;
	}
	return no_heap;
}

static void choose_verdict(const struct flmem_process_report *report, struct flmem_verdict *verdict)
{
	const struct flmem_memory_classes *classes = &verdict->classes;
	uint64_t most, rss = report->memory.rss_bytes.value;
	enum flmem_verdict_kind kind = largest_candidate(classes, &most);

	if (!is_dominant(most, rss) &&
	    percent_of(classes->bytes[FLMEM_MEMORY_UNKNOWN], rss) > FLMEM_VERDICT_UNKNOWN_PERCENT) {
		verdict->unknown = flmem_verdict_reason(report);
		return;
	}
	verdict->kind = is_dominant(most, rss) ? kind : FLMEM_VERDICT_MIXED;
	verdict->confidence_percent = compute_confidence(classes, rss, most);
}

void flmem_verdict_judge(const struct flmem_process_report *report,
			 struct flmem_verdict *ret_verdict)
{
	struct flmem_verdict verdict = {0};

	flmem_memory_classify(report, &verdict.classes);
	verdict.unknown = verdict.classes.unknown;
	if (!verdict.unknown && !report->memory.rss_bytes.value)
		verdict.unknown = nothing_resident;
	if (!verdict.unknown)
		choose_verdict(report, &verdict);
	*ret_verdict = verdict;
}

void flmem_verdict_withhold(struct flmem_verdict *verdict, const char *why)
{
	verdict->kind = (enum flmem_verdict_kind)0;
	verdict->confidence_percent = 0;
	verdict->unknown = why;
}

uint64_t flmem_verdict_worth(const struct flmem_process_report *report)
{
	uint64_t rss = flmem_u64_or(report->memory.rss_bytes, 0);
	uint64_t worth = rss / 100 * FLMEM_VERDICT_WORTH_PERCENT;

	return worth > FLMEM_VERDICT_WORTH_BYTES ? worth : FLMEM_VERDICT_WORTH_BYTES;
}

void flmem_verdict_clear(struct flmem_verdict *verdict)
{
	for (size_t i = 0; i < verdict->reason_count; i++)
		free(verdict->reasons[i]);
	for (size_t i = 0; i < verdict->next_count; i++) {
		free(verdict->next[i].command);
		free(verdict->next[i].purpose);
	}
	free(verdict->reasons);
	free(verdict->next);
	*verdict = (struct flmem_verdict){0};
}
