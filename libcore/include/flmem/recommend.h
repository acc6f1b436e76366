/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RECOMMEND_H
#define FLMEM_RECOMMEND_H

/*
 * Findings about the memory settings of federated-learning configurations: the current value, its
 * effect on memory, and the proposed value. Files are only read, except by
 * flmem_correction_write().
 *
 * flmem_recommend_rule() returns the rules, from which docs/rules.md is generated. Results own
 * their strings, except for the rules: release with flmem_recommendations_clear(). Nothing is
 * shared between threads.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/detect.h>
#include <flmem/error.h>
#include <flmem/finding.h>
#include <flmem/plan.h>
#include <flmem/watch_result.h>

/* The i-th rule of the table; NULL after the last. */
FLMEM_API const struct flmem_rule *flmem_recommend_rule(size_t index);

struct flmem_recommend_options {
	const char *framework_version; /* "2.8"; NULL: unknown */
	/* For processes: results of the jobs checked with them; NULL: none. */
	const struct flmem_recommendations *beside;
	/*
	 * For processes: also search TMPDIR and /tmp for directories that killed processes of their
	 * frameworks left behind. Files are neither opened nor removed; within two seconds.
	 */
	bool search_leftovers;
	bool leftovers_of_host; /* also of frameworks of which no process was found */
	/*
	 * For files: a plan, and the framework that it is for. Memory limits in the files are
	 * compared with its peaks; if no limit could be compared, the result has a warning,
	 * FLMEM_EUNDECIDED. NULL: none.
	 */
	const struct flmem_plan *plan;
	enum flmem_framework plan_framework;
	/*
	 * Reads a recording for flmem_recommend(), as flmem_watch_replay() does. NULL: a recording
	 * among the paths is a problem in the result.
	 */
	int (*replay)(const char *path, struct flmem_watch_summary *ret_summary,
		      struct flmem_error *err);
};

/*
 * A comment "flmem: ignore RULE reason" on the line of a finding or on the line above suppresses
 * it, as does an entry of .flmem-recommend.yaml in a checked folder: a list `ignore` of maps with
 * `rule`, `reason` and optionally `path`, a pattern relative to that folder.
 *
 * Checks files and folders. Folders are searched for the kinds of files that have rules; other
 * files are ignored. Recordings of flmem watch, heap profiles, kernel logs with out-of-memory kills
 * and logs of jobs that ran out of GPU memory are checked if given as paths; the jobs checked with
 * a recording determine how often its processes clean up.
 * A bad input is a problem in the result, and the others are still checked. FLMEM_EUSAGE for an
 * invalid version.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_recommend(const char *const *paths, size_t count,
					       const struct flmem_recommend_options *options,
					       struct flmem_recommendations *ret_recommendations,
					       struct flmem_error *err);

/*
 * The same for live processes, from a report of flmem_detect(). The file is "process PID", the path
 * a setting or a figure of `detect --json`; nothing is fixable. A process with unreadable memory is
 * a problem in the result.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_recommend_processes(
	const struct flmem_detect_report *report, const struct flmem_recommend_options *options,
	struct flmem_recommendations *ret_recommendations, struct flmem_error *err);

/* Sets of rules for the processes of a watch. */
enum flmem_watch_rules {
	FLMEM_WATCH_RULES_NONE,
	FLMEM_WATCH_RULES_TRENDS, /* only rules about recordings, which read nothing else */
	/*
	 * Also rules about live processes, for processes that still run: reads them like
	 * flmem_detect(), within a few seconds in total. Not for replays.
	 */
	FLMEM_WATCH_RULES_LIVE,
};

/* Findings about one process of a watch: findings[first] and those after it. */
struct flmem_watch_span {
	size_t first, count;
};

/* Findings about the processes of a watch. */
struct flmem_watch_advice {
	enum flmem_watch_rules rules;	    /* rules that were checked; NONE: the rest is empty */
	struct flmem_recommendations found; /* findings in the order of the results */
	struct flmem_watch_span *spans;	    /* one for each result of the summary */
};

/*
 * Checks the processes of a watch that has ended. Release with flmem_watch_advice_clear().
 * FLMEM_EFAILED if memory is out.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_recommend_watch(const struct flmem_watch_summary *summary,
						     enum flmem_watch_rules rules,
						     struct flmem_watch_advice *ret_advice,
						     struct flmem_error *err);

/* Frees the contents and empties the struct. */
FLMEM_API void flmem_watch_advice_clear(struct flmem_watch_advice *advice);

/*
 * Appends the findings and problems of `from` (processes) to `into` (files) and empties `from`.
 * FLMEM_EFAILED if memory is out.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_recommendations_join(struct flmem_recommendations *into,
							  struct flmem_recommendations *from,
							  struct flmem_error *err);

/* Number of problems that are not warnings. */
FLMEM_API size_t
flmem_recommendations_failures(const struct flmem_recommendations *recommendations);

/* Number of findings of `severity` or worse. */
FLMEM_API size_t flmem_recommendations_count(const struct flmem_recommendations *recommendations,
					     enum flmem_severity severity);

/* Identity of a file, by stat(2). */
struct flmem_file_identity {
	uint64_t device, inode;
};

/* A file with all its corrections made. */
struct flmem_correction {
	char *file;
	char *before, *after;
	unsigned syntax; /* syntax of its text: enum flmem_syntax (internal) */
	size_t changes;	 /* number of corrections */
	/* The file as read, and its directory. */
	struct flmem_file_identity identity, folder;
};

struct flmem_corrections {
	struct flmem_correction *rows;
	size_t count;
};

/*
 * Makes all corrections that need no decision, in memory only. Files without corrections and bad
 * files are not in the result; flmem_recommend() reports them. Release with
 * flmem_corrections_clear(). Errors are those of flmem_recommend().
 */
FLMEM_API FLMEM_MUST_CHECK int
flmem_recommend_correct(const char *const *paths, size_t count,
			const struct flmem_recommend_options *options,
			struct flmem_corrections *ret_corrections, struct flmem_error *err);

/* Frees the corrections and empties the struct. */
FLMEM_API void flmem_corrections_clear(struct flmem_corrections *corrections);

/* Unified diff for patch(1); the caller frees it. NULL if memory is out. */
FLMEM_API FLMEM_MUST_CHECK char *flmem_correction_diff(const struct flmem_correction *correction);

/*
 * Replaces the file, so that readers see either the old or the new text, and keeps the old file as
 * `*ret_backup` (FILE.orig, or FILE.orig.N), which the caller frees. The new file has the owner,
 * the permissions, the ACL and the attributes of the old one, but no set-id bits; the backup is the
 * old file itself. Refused without changes: a file that was replaced, moved or changed since the
 * check, a symbolic link, and a file with several hard links (FLMEM_EUSAGE); a read-only file, and
 * an owner or attribute that cannot be set on the new file (FLMEM_EPERM).
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_correction_write(const struct flmem_correction *correction,
						      char **ret_backup, struct flmem_error *err);

#endif
