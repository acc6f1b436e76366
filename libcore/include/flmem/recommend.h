/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RECOMMEND_H
#define FLMEM_RECOMMEND_H

/*
 * Findings about the memory settings of federated-learning configurations: what a file says, what
 * that does to memory, and what to write instead. Files are only read, except by
 * flmem_correction_write().
 *
 * Rules are one table, which flmem_recommend_rule() shows; docs/rules.md is made from it. Results
 * own their strings, except for the rules: release with flmem_recommendations_clear(). Nothing is
 * shared between threads.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/detect.h>
#include <flmem/error.h>
#include <flmem/finding.h>

/* The rules in the order of the table; NULL behind the last. */
FLMEM_API const struct flmem_rule *flmem_recommend_rule(size_t index);

struct flmem_recommend_options {
	const char *framework_version; /* "2.8"; NULL: unknown */
	/* Of processes: the jobs that were checked beside them; NULL: none. */
	const struct flmem_recommendations *beside;
};

/*
 * A comment "flmem: ignore RULE reason" on the line of a finding or the one above silences it, and
 * so does an entry of .flmem-recommend.yaml in a folder that is checked: a list `ignore` of maps
 * with `rule`, `reason` and optionally `path`, a pattern relative to that folder.
 *
 * Checks files and folders; a folder is searched for the kinds of files that there are rules for,
 * and other files in it are passed over. A recording of flmem watch is checked when it is named;
 * the jobs that are checked beside it tell how often its processes clean up; so is a kernel's log
 * that tells of processes killed for want of memory. An input that is bad
 * is a problem in the result and does not keep the others from being checked. FLMEM_EUSAGE for a
 * version that is none.
 */
FLMEM_API int flmem_recommend(const char *const *paths, size_t count,
			      const struct flmem_recommend_options *options,
			      struct flmem_recommendations *ret_recommendations,
			      struct flmem_error *err);

/*
 * The same about live processes, as flmem_detect() has read them: what their settings came to. File
 * is "process PID", and path a setting or a figure of `detect --json`; nothing is fixable. A
 * process whose memory may not be read is a problem in the result.
 */
FLMEM_API int flmem_recommend_processes(const struct flmem_detect_report *report,
					const struct flmem_recommend_options *options,
					struct flmem_recommendations *ret_recommendations,
					struct flmem_error *err);

/*
 * Moves the findings and problems of `from`, which is of processes, behind those of `into`, which
 * is of files, and empties it. FLMEM_EFAILED when memory is out.
 */
FLMEM_API int flmem_recommendations_join(struct flmem_recommendations *into,
					 struct flmem_recommendations *from,
					 struct flmem_error *err);

/* How many findings are as bad as `severity` or worse. */
FLMEM_API size_t flmem_recommendations_count(const struct flmem_recommendations *recommendations,
					     enum flmem_severity severity);

/* As stat(2) tells files apart. */
struct flmem_file_identity {
	uint64_t device, inode;
};

/* A file with all its corrections made. */
struct flmem_correction {
	char *file;
	char *before, *after;
	unsigned syntax; /* of its text: enum flmem_syntax, which is the library's own */
	size_t changes;	 /* corrections that were made */
	/* What was read, and the directory that it was in. */
	struct flmem_file_identity identity, folder;
};

struct flmem_corrections {
	struct flmem_correction *rows;
	size_t count;
};

/*
 * Makes all corrections that need no decision, in memory: nothing is written. Files that need none,
 * or are bad, are not in the result; flmem_recommend() tells about them. Release with
 * flmem_corrections_clear().
 */
FLMEM_API int flmem_recommend_correct(const char *const *paths, size_t count,
				      const struct flmem_recommend_options *options,
				      struct flmem_corrections *ret_corrections,
				      struct flmem_error *err);

FLMEM_API void flmem_corrections_clear(struct flmem_corrections *corrections);

/* The unified difference, which patch(1) takes; the caller frees it. NULL when memory is out. */
FLMEM_API char *flmem_correction_diff(const struct flmem_correction *correction);

/*
 * Replaces the file, so that readers see the old or the new text and never a part, and keeps the
 * old one as `*ret_backup` (FILE.orig, or FILE.orig.N), which the caller frees. The new file has
 * the owner, the permissions, the ACL and the attributes of the old one, but no set-id bits; the
 * backup is the old file itself. Refused, with nothing changed, for a file that is not the one that
 * was checked, in the directory where it was, with the text that it had (FLMEM_EUSAGE), for a
 * symbolic link and for one of several hard links (FLMEM_EUSAGE), for a read-only one, and where
 * the owner or an attribute cannot be given to the new file (FLMEM_EPERM).
 */
FLMEM_API int flmem_correction_write(const struct flmem_correction *correction, char **ret_backup,
				     struct flmem_error *err);

#endif
