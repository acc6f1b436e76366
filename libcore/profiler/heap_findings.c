/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/heap_folder.h>

#include "base/cleanup.h"
#include "profiler/frames.h"

#define LEAKS_MAX    5U
#define HOLDS_SHARE  0.5 /* of the peak, in one line */
#define CHURNS_TIMES 10	 /* the peak, allocated by one line */

#define NAME_ROW(name, text) [FLMEM_HEAP_FINDING_##name] = (text),
static const char *const finding_names[] = {FLMEM_HEAP_FINDINGS(NAME_ROW)};
#undef NAME_ROW

const char *flmem_heap_finding_name(enum flmem_heap_finding_kind kind)
{
	return finding_names[kind];
}

static uint32_t innermost_frame(const struct flmem_heap_profile *profile, uint32_t site)
{
	uint32_t node = profile->sites[site].node;

	return node ? profile->nodes[node].frame : FLMEM_HEAP_NO_FRAME;
}

static int find_growth(const struct flmem_heap_profile *profile,
		       struct flmem_heap_finding *findings, size_t *count, struct flmem_error *err)
{
	struct flmem_heap_leaks leaks;
	int rc;

	if (profile->ending == FLMEM_HEAP_DUMPED)
		return 0;
	rc = flmem_heap_leaks_find(profile, &leaks, err);
	if (rc)
		return rc;
	/* Ages alone, and growth that RSS does not show, say too little for a finding. */
	for (size_t i = 0;
	     leaks.by_round && i < leaks.count && !leaks.rows[i].unconfirmed && *count < LEAKS_MAX;
	     i++)
		findings[(*count)++] = (struct flmem_heap_finding){
			.kind = FLMEM_HEAP_FINDING_GROWS,
			.frame = innermost_frame(profile, leaks.rows[i].site),
			.own_frame = flmem_heap_own_frame(profile,
							  profile->sites[leaks.rows[i].site].node),
			.bytes = leaks.rows[i].grown_bytes,
			.confidence = leaks.rows[i].confidence,
		};
	flmem_heap_leaks_clear(&leaks);
	return 0;
}

/* The program's own line behind most of what a line allocated. */
static uint32_t own_frame_of_line(const struct flmem_heap_profile *profile, uint32_t frame,
				  enum flmem_heap_measure measure)
{
	uint32_t own = FLMEM_HEAP_NO_FRAME;
	uint64_t most = 0;

	for (uint32_t i = 0; i < profile->site_count; i++) {
		uint64_t bytes = profile->sites[i].amounts.bytes[measure];
		uint32_t at = innermost_frame(profile, i);

		if (bytes <= most || at == FLMEM_HEAP_NO_FRAME || frame == FLMEM_HEAP_NO_FRAME ||
		    !flmem_heap_frame_equal(&profile->frames[at], &profile->frames[frame],
					    FLMEM_FRAME_LINE))
			continue;
		most = bytes;
		own = flmem_heap_own_frame(profile, profile->sites[i].node);
	}
	return own;
}

/* The line that has most of a measure, if that is so many times the peak of the process. */
static int find_largest(const struct flmem_heap_profile *profile, enum flmem_heap_measure measure,
			double least, struct flmem_heap_finding *finding, struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct flmem_heap_row *rows = NULL;
	double peak = (double)profile->peak_bytes;
	size_t count;
	int rc = flmem_heap_rows(profile, FLMEM_HEAP_BY_LINE, measure, &rows, &count, err);

	finding->share = 0;
	if (rc || !count || !profile->peak_bytes)
		return rc;
	if ((double)rows[0].own.bytes[measure] < least * peak)
		return 0;
	finding->frame = rows[0].frame;
	finding->own_frame = own_frame_of_line(profile, rows[0].frame, measure);
	finding->bytes = rows[0].own.bytes[measure];
	finding->share = (double)finding->bytes / peak;
	return 0;
}

int flmem_heap_findings(const struct flmem_heap_profile *profile,
			struct flmem_heap_finding ret_findings[FLMEM_HEAP_FINDINGS_MAX],
			size_t *ret_count, struct flmem_error *err)
{
	static const struct {
		enum flmem_heap_finding_kind kind;
		enum flmem_heap_measure measure;
		double least;
	} tests[] = {
		{FLMEM_HEAP_FINDING_HOLDS, FLMEM_HEAP_PEAK, HOLDS_SHARE},
		{FLMEM_HEAP_FINDING_CHURNS, FLMEM_HEAP_ALLOCATED, CHURNS_TIMES},
	};
	size_t count = 0;
	int rc = find_growth(profile, ret_findings, &count, err);

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(tests) && !rc; i++) {
		struct flmem_heap_finding finding = {.kind = tests[i].kind};

		rc = find_largest(profile, tests[i].measure, tests[i].least, &finding, err);
		if (!rc && finding.share > 0)
			ret_findings[count++] = finding;
	}
	*ret_count = count;
	return rc;
}
