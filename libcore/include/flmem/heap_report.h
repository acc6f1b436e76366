/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_HEAP_REPORT_H
#define FLMEM_HEAP_REPORT_H

/*
 * Heap profiles as JSON (docs/json-schema/profile-*.json), in the formats of other tools, and as an
 * HTML page. The functions return heap strings that the caller frees with free(); NULL if memory is
 * out.
 */

#include <flmem/heap_folder.h>
#include <flmem/heap_profile.h>

/* Writes the report of `profile stats` as JSON: the largest lines of code by `measure`. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_heap_stats_json(const struct flmem_heap_profile *profile,
			     enum flmem_heap_measure measure, const struct flmem_heap_row *rows,
			     size_t count);

/* Writes the report of `profile summary` as JSON: functions. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_heap_summary_json(const struct flmem_heap_profile *profile,
			       enum flmem_heap_measure measure, const struct flmem_heap_row *rows,
			       size_t count);

/* What `profile table` lists. The caller owns the arrays. */
struct flmem_heap_table {
	const struct flmem_heap_row *rows;
	size_t row_count;
	const uint32_t *sites; /* indices of the sites of the profile, largest first */
	size_t site_count;
};

/* Writes the report of `profile table` as JSON: lines of code, and sites with complete stacks. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_heap_table_json(const struct flmem_heap_profile *profile,
			     enum flmem_heap_measure measure, const struct flmem_heap_table *table);

/* Writes the report of `profile tree` as JSON. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_heap_tree_json(const struct flmem_heap_profile *profile,
			    enum flmem_heap_measure measure, const struct flmem_heap_tree *tree);

/* Writes the report of `profile leaks` as JSON, with at most `limit` stacks. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_heap_leaks_json(const struct flmem_heap_profile *profile,
			     const struct flmem_heap_leaks *leaks, size_t limit);

/* Writes the report of `profile diff` as JSON, with at most `limit` rows. */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_heap_diff_json(const struct flmem_heap_profile *const profiles[2],
			    enum flmem_heap_measure measure,
			    const struct flmem_heap_comparison *comparison, size_t limit);

/* The results of `profile analyze` for one profile of a folder. */
struct flmem_heap_analysis {
	struct flmem_heap_finding findings[FLMEM_HEAP_FINDINGS_MAX];
	size_t finding_count;
	/* Comparison with the baseline; empty for the baseline itself. */
	struct flmem_heap_comparison comparison;
};

/*
 * Writes the report of `profile analyze` as JSON. `analyses` has an element for each profile of the
 * folder; at most `limit` changes of each are written.
 */
FLMEM_API FLMEM_MUST_CHECK char *
flmem_report_heap_analyze_json(const struct flmem_heap_folder *folder,
			       enum flmem_heap_measure measure,
			       const struct flmem_heap_analysis *analyses, size_t limit);

/* Formats of other tools. X(NAME, text) */
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
 * Writes a profile in the format of another tool; the caller frees it with free(). `measure` is
 * what the tool shows first; collapsed stacks contain this measure only. FLMEM_EFAILED if memory is
 * out.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_export(const struct flmem_heap_profile *profile,
						 enum flmem_heap_format format,
						 enum flmem_heap_measure measure, char **ret_bytes,
						 size_t *ret_length, struct flmem_error *err);

/*
 * Makes one self-contained HTML page with a flame graph of a profile; with `second` (may be NULL)
 * also with the differences between the two. The page loads nothing from the network.
 */
FLMEM_API FLMEM_MUST_CHECK char *flmem_heap_page_html(const struct flmem_heap_profile *profile,
						      const struct flmem_heap_profile *second,
						      enum flmem_heap_measure measure);

/*
 * Writes the page to a file. An existing page of flmem is replaced atomically; FLMEM_EUSAGE for
 * another existing file.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_page_write(const struct flmem_heap_profile *profile,
						     const struct flmem_heap_profile *second,
						     enum flmem_heap_measure measure,
						     const char *path, struct flmem_error *err);

#endif
