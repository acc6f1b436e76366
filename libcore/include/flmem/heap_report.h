/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_HEAP_REPORT_H
#define FLMEM_HEAP_REPORT_H

/*
 * Heap profiles as JSON (docs/json-schema/profile-*.json), in the formats of other tools, and as an
 * HTML page. Texts are heap-allocated and freed by the caller with free(); NULL if memory is out.
 */

#include <flmem/heap_folder.h>
#include <flmem/heap_profile.h>

/* Of `profile stats`: the largest lines of code by `measure`. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_heap_stats_json(const struct flmem_heap_profile *profile,
			     enum flmem_heap_measure measure, const struct flmem_heap_row *rows,
			     size_t count);

/* Of `profile summary`: functions. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_heap_summary_json(const struct flmem_heap_profile *profile,
			       enum flmem_heap_measure measure, const struct flmem_heap_row *rows,
			       size_t count);

struct flmem_heap_table {
	const struct flmem_heap_row *rows;
	size_t row_count;
	const uint32_t *sites; /* of the profile, largest first */
	size_t site_count;
};

/* Of `profile table`: lines of code, and sites with complete stacks. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_heap_table_json(const struct flmem_heap_profile *profile,
			     enum flmem_heap_measure measure, const struct flmem_heap_table *table);

/* Of `profile tree`. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_heap_tree_json(const struct flmem_heap_profile *profile,
			    enum flmem_heap_measure measure, const struct flmem_heap_tree *tree);

/* Of `profile leaks`. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_heap_leaks_json(const struct flmem_heap_profile *profile,
			     const struct flmem_heap_leaks *leaks, size_t limit);

/* Of `profile diff`. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_heap_diff_json(const struct flmem_heap_profile *const profiles[2],
			    enum flmem_heap_measure measure,
			    const struct flmem_heap_comparison *comparison, size_t limit);

/* The results of `profile analyze` for one profile of a folder. */
struct flmem_heap_analysis {
	struct flmem_heap_finding findings[FLMEM_HEAP_FINDINGS_MAX];
	size_t finding_count;
	struct flmem_heap_comparison comparison; /* against the baseline; empty for it */
};

/* Of `profile analyze`; one of `analyses` per profile, each with at most `limit` changes. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_heap_analyze_json(const struct flmem_heap_folder *folder,
			       enum flmem_heap_measure measure,
			       const struct flmem_heap_analysis *analyses, size_t limit);

/* X(NAME, text) */
#define FLMEM_HEAP_FORMATS(X)       \
	X(PPROF, "pprof")           \
	X(COLLAPSED, "collapsed")   \
	X(SPEEDSCOPE, "speedscope") \
	X(JSON, "json")

enum flmem_heap_format {
#define FLMEM_HEAP_FORMAT_ENUM(name, text) FLMEM_HEAP_FORMAT_##name,
	FLMEM_HEAP_FORMATS(FLMEM_HEAP_FORMAT_ENUM)
#undef FLMEM_HEAP_FORMAT_ENUM
};

/*
 * A profile in the format of another tool; the caller frees it. `measure` is what the tool shows
 * first; collapsed stacks contain this measure only. FLMEM_EFAILED: memory is out.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_export(const struct flmem_heap_profile *profile,
						 enum flmem_heap_format format,
						 enum flmem_heap_measure measure, char **ret_bytes,
						 size_t *ret_length, struct flmem_error *err);

/*
 * A profile as one self-contained HTML page with a flame graph; with `second` (may be NULL) also
 * the differences. The page loads nothing from the network. NULL: memory is out.
 */
FLMEM_API FLMEM_MUST_CHECK char *flmem_heap_page_html(const struct flmem_heap_profile *profile,
						      const struct flmem_heap_profile *second,
						      enum flmem_heap_measure measure);

/*
 * Writes the page. An existing page of flmem is replaced atomically; another file is FLMEM_EUSAGE.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_page_write(const struct flmem_heap_profile *profile,
						     const struct flmem_heap_profile *second,
						     enum flmem_heap_measure measure,
						     const char *path, struct flmem_error *err);

#endif
