/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/heap_rules.h"

#include <inttypes.h>
#include <stdio.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "rules/live_rules.h"

#define SOURCE "flmem's guide to heap profiles"

/* Limits, so that the line fits into the detail of a remark, after the figures. */
#define LINE_TEXT_MAX 192
#define OWN_TEXT_MAX  (LINE_TEXT_MAX + 32)

const struct flmem_heap_row_rule flmem_heap_rules[] = {
	{.rule = {.id = "PROFILE-GROWS",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .condition = "a line of code in a heap profile whose live bytes grow with the "
			       "rounds",
		  .message = "what this line allocates is still live rounds later; drop the "
			     "references to it when its round ends (lists and dictionaries that "
			     "are only added to, caches, callbacks); flmem profile leaks shows "
			     "the whole stack",
		  .source = SOURCE},
	 .kind = FLMEM_HEAP_FINDING_GROWS},
	{.rule = {.id = "PROFILE-MAY-GROW",
		  .severity = FLMEM_SEVERITY_INFO,
		  .condition =
			  "a line of code in a heap profile whose live bytes seem to grow: the "
			  "profile has no rounds, or RSS does not grow",
		  .message = "what this line allocates is still live from most parts of the time, "
			     "as of a leak or of data that is loaded bit by bit; announce rounds "
			     "with flmem profile round, or sample longer, to distinguish them; "
			     "flmem profile leaks shows the whole stack",
		  .source = SOURCE},
	 .kind = FLMEM_HEAP_FINDING_MAY_GROW},
	{.rule = {.id = "PROFILE-HOLDS",
		  .severity = FLMEM_SEVERITY_INFO,
		  .condition = "a line of code in a heap profile that has half of the peak or more",
		  .message = "the peak of the process is made here; where this line collects the "
			     "updates of all clients before it joins them, add each one to a "
			     "running sum as it arrives",
		  .source = SOURCE},
	 .kind = FLMEM_HEAP_FINDING_HOLDS},
	{.rule = {.id = "PROFILE-CHURNS",
		  .severity = FLMEM_SEVERITY_INFO,
		  .condition = "a line of code in a heap profile that allocates ten times the peak "
			       "in total",
		  .message = "this line allocates and frees again and again, which costs time and "
			     "divides the heap; reuse its buffer, or write into it (out=, "
			     "in-place operations)",
		  .source = SOURCE},
	 .kind = FLMEM_HEAP_FINDING_CHURNS},
};

const size_t flmem_heap_rule_count = FLMEM_ARRAY_SIZE(flmem_heap_rules);

static const char *heap_measure_of(enum flmem_heap_finding_kind kind)
{
	switch (kind) {
	case FLMEM_HEAP_FINDING_GROWS:
	case FLMEM_HEAP_FINDING_MAY_GROW:
		return "live";
	case FLMEM_HEAP_FINDING_HOLDS:
		return "peak";
	case FLMEM_HEAP_FINDING_CHURNS:
		return "allocated";
	}
	return "";
}

/* Describes the line of the program itself, if a line of a library allocated. */
static void describe_own_line(const struct flmem_heap_profile *profile,
			      const struct flmem_heap_finding *finding, char *out, size_t size)
{
	char line[LINE_TEXT_MAX];

	*out = '\0';
	if (finding->own_frame != FLMEM_HEAP_NO_FRAME && finding->own_frame != finding->frame)
		snprintf(out, size, "; own line: %s",
			 flmem_heap_frame_text(&profile->frames[finding->own_frame], line,
					       sizeof(line)));
}

static void describe_heap_finding(const struct flmem_heap_profile *profile,
				  const struct flmem_heap_finding *finding,
				  struct flmem_live_remark *remark)
{
	const struct flmem_heap_frame *frame =
		finding->frame == FLMEM_HEAP_NO_FRAME ? NULL : &profile->frames[finding->frame];
	char line[LINE_TEXT_MAX], bytes[FLMEM_TEXT_BYTES_MAX], more[64], own[OWN_TEXT_MAX];

	if (finding->kind == FLMEM_HEAP_FINDING_GROWS)
		snprintf(more, sizeof(more), "confidence %.1f %%", finding->confidence * 100);
	else if (finding->kind == FLMEM_HEAP_FINDING_MAY_GROW)
		snprintf(more, sizeof(more), "confidence %.1f %%, %s", finding->confidence * 100,
			 finding->unconfirmed ? "not confirmed by RSS" : "without rounds");
	else if (finding->kind == FLMEM_HEAP_FINDING_HOLDS)
		snprintf(more, sizeof(more), "%.0f %% of the peak", finding->share * 100);
	else
		snprintf(more, sizeof(more), "%.0f times the peak", finding->share);
	remark->path = heap_measure_of(finding->kind);
	flmem_live_put_bytes(remark, FLMEM_KNOWN(finding->bytes));
	describe_own_line(profile, finding, own, sizeof(own));
	snprintf(remark->detail, sizeof(remark->detail), "%s: %s, %s%s",
		 flmem_heap_frame_text(frame, line, sizeof(line)),
		 flmem_text_bytes(finding->bytes, bytes, sizeof(bytes)), more, own);
}

int flmem_heap_rules_run(const struct flmem_heap_profile *profile, const char *file,
			 struct flmem_recommendations *found, struct flmem_error *err)
{
	const struct flmem_finding_place place = {.file = file};
	struct flmem_heap_finding findings[FLMEM_HEAP_FINDINGS_MAX];
	size_t count = 0;
	int rc = flmem_heap_findings(profile, findings, &count, err);

	for (size_t i = 0; i < count && !rc; i++)
		for (size_t r = 0; r < flmem_heap_rule_count && !rc; r++) {
			struct flmem_live_remark remark = {0};

			if (flmem_heap_rules[r].kind != findings[i].kind)
				continue;
			describe_heap_finding(profile, &findings[i], &remark);
			rc = flmem_live_finding_add(&flmem_heap_rules[r].rule, &place, &remark,
						    found, err);
		}
	return rc;
}
