/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/heap_folder.h>

#include "base/cleanup.h"

#define LEAKS_MAX    5U
#define HOLDS_SHARE  0.5 /* share of the peak that one line must hold */
#define CHURNS_TIMES 10	 /* multiple of the peak that one line must have allocated */

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

/* Growth that only ages show, or that RSS does not confirm, is weaker evidence. */
static enum flmem_heap_finding_kind kind_of_growth(const struct flmem_heap_leaks *leaks,
						   const struct flmem_heap_leak *leak)
{
	return leaks->by_round && !leak->unconfirmed ? FLMEM_HEAP_FINDING_GROWS
						     : FLMEM_HEAP_FINDING_MAY_GROW;
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
	for (size_t i = 0; i < leaks.count && *count < LEAKS_MAX; i++)
		findings[(*count)++] = (struct flmem_heap_finding){
			.kind = kind_of_growth(&leaks, &leaks.rows[i]),
			.unconfirmed = leaks.rows[i].unconfirmed,
			.frame = innermost_frame(profile, leaks.rows[i].site),
			.own_frame = flmem_heap_own_frame(profile,
							  profile->sites[leaks.rows[i].site].node),
			.bytes = leaks.rows[i].grown_bytes,
			.confidence = leaks.rows[i].confidence,
		};
	flmem_heap_leaks_clear(&leaks);
	return 0;
}

/*
 * Finds the line that has most of a measure, if it is at least `least` times the peak of the
 * process.
 */
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
	finding->own_frame = rows[0].own_frame;
	finding->bytes = rows[0].own.bytes[measure];
	finding->share = (double)finding->bytes / peak;
	return 0;
}

/* True if the line holds the peak only because it grows, which is already a finding. */
static bool is_growth(const struct flmem_heap_finding *held,
		      const struct flmem_heap_finding *findings, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (findings[i].kind == FLMEM_HEAP_FINDING_GROWS &&
		    findings[i].frame == held->frame && findings[i].bytes >= held->bytes / 4 * 3)
			return true;
	return false;
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
		if (!rc && finding.share > 0 &&
		    !(finding.kind == FLMEM_HEAP_FINDING_HOLDS &&
		      is_growth(&finding, ret_findings, count)))
			ret_findings[count++] = finding;
	}
	*ret_count = count;
	return rc;
}
