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

/* Returns a rule of the table; NULL after the last. */
FLMEM_API const struct flmem_rule *flmem_recommend_rule(size_t index);

/* Options of the functions below. The caller owns everything that it refers to. */
struct flmem_recommend_options {
	const char *framework_version; /* version of the checked frameworks, "2.8"; NULL: unknown */
	/*
	 * For processes: findings about the jobs that were checked together with them; NULL: none.
	 */
	const struct flmem_recommendations *beside;
	/*
	 * For processes: also search TMPDIR and /tmp for directories that killed processes of their
	 * frameworks left behind. The search neither opens nor removes files, and takes two seconds
	 * at most.
	 */
	bool search_leftovers;
	/* search_leftovers covers all frameworks, also those without a process. */
	bool leftovers_of_host;
	/*
	 * For files: a plan, and the framework that it is for. Memory limits in the files are
	 * compared with the plan's peaks; if no limit could be compared, the result has a warning,
	 * FLMEM_EUNDECIDED. NULL: no plan.
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
 * Checks files and folders. Folders are searched for the kinds of files that have rules; other
 * files are ignored. Recordings of flmem watch, heap profiles, kernel logs with out-of-memory kills
 * and logs of jobs that ran out of GPU memory are checked if given as paths; the jobs checked with
 * a recording determine how often its processes clean up. A bad input is a problem in the result,
 * and the others are still checked. FLMEM_EUSAGE for an invalid version.
 *
 * A comment "flmem: ignore RULE reason" on the line of a finding or on the line above suppresses
 * the finding, as does an entry of .flmem-recommend.yaml in a checked folder: a list `ignore` of
 * maps with `rule`, `reason` and optionally `path`, a pattern relative to that folder.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_recommend(const char *const *paths, size_t count,
					       const struct flmem_recommend_options *options,
					       struct flmem_recommendations *ret_recommendations,
					       struct flmem_error *err);

/*
 * Checks live processes, from a report of flmem_detect(). In a finding, `file` is "process PID" and
 * `path` a setting or a figure of `detect --json`; nothing is fixable. A process with unreadable
 * memory is a problem in the result. FLMEM_EUSAGE for an invalid version, FLMEM_EFAILED if memory
 * is out.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_recommend_processes(
	const struct flmem_detect_report *report, const struct flmem_recommend_options *options,
	struct flmem_recommendations *ret_recommendations, struct flmem_error *err);

/* Sets of rules for the processes of a watch. */
enum flmem_watch_rules {
	FLMEM_WATCH_RULES_NONE,
	FLMEM_WATCH_RULES_TRENDS, /* only rules about trends, which use nothing but the watch */
	/*
	 * Also rules about live processes, for those that still run: they are read as by
	 * flmem_detect(), within a few seconds in total. Not for replays.
	 */
	FLMEM_WATCH_RULES_LIVE,
};

/* Findings about one process of a watch: `count` findings from index `first` on. */
struct flmem_watch_span {
	size_t first, count;
};

/* Findings about the processes of a watch. */
struct flmem_watch_advice {
	/* Rules that were checked; NONE: the other fields are empty. */
	enum flmem_watch_rules rules;
	struct flmem_recommendations found; /* all findings, in the order of the results */
	struct flmem_watch_span *spans;	    /* one element for each result of the summary */
};

/*
 * Checks the processes of a watch that has ended. Release with flmem_watch_advice_clear().
 * FLMEM_EFAILED if memory is out.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_recommend_watch(const struct flmem_watch_summary *summary,
						     enum flmem_watch_rules rules,
						     struct flmem_watch_advice *ret_advice,
						     struct flmem_error *err);

/* Frees the contents and zeroes the struct. */
FLMEM_API void flmem_watch_advice_clear(struct flmem_watch_advice *advice);

/*
 * Appends the findings and problems of `from` (processes) to `into` (files) and empties `from`.
 * FLMEM_EFAILED if memory is out.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_recommendations_join(struct flmem_recommendations *into,
							  struct flmem_recommendations *from,
							  struct flmem_error *err);

/* Returns the number of problems that are not warnings. */
FLMEM_API size_t
flmem_recommendations_failures(const struct flmem_recommendations *recommendations);

/* Returns the number of findings of `severity` or worse. */
FLMEM_API size_t flmem_recommendations_count(const struct flmem_recommendations *recommendations,
					     enum flmem_severity severity);

/* Identity of a file: st_dev and st_ino of stat(2). */
struct flmem_file_identity {
	uint64_t device, inode;
};

/* A file and its text with all corrections made. */
struct flmem_correction {
	char *file;
	/* Text as read, and text with the corrections. */
	char *before, *after;
	unsigned syntax; /* syntax of the text: enum flmem_syntax (internal) */
	size_t changes;	 /* number of corrections */
	/* The file that was read, and its directory. */
	struct flmem_file_identity identity, folder;
};

struct flmem_corrections {
	struct flmem_correction *rows;
	size_t count;
};

/*
 * Makes all corrections that need no decision by the user, in memory only. The result does not
 * contain files without corrections or bad files; flmem_recommend() reports them. Release with
 * flmem_corrections_clear(). Errors are those of flmem_recommend().
 */
FLMEM_API FLMEM_MUST_CHECK int
flmem_recommend_correct(const char *const *paths, size_t count,
			const struct flmem_recommend_options *options,
			struct flmem_corrections *ret_corrections, struct flmem_error *err);

/* Frees the corrections and zeroes the struct. */
FLMEM_API void flmem_corrections_clear(struct flmem_corrections *corrections);

/* Makes a unified diff for patch(1); the caller frees it with free(). NULL if memory is out. */
FLMEM_API FLMEM_MUST_CHECK char *flmem_correction_diff(const struct flmem_correction *correction);

/*
 * Writes the corrected text. Readers see either the old or the new text; the old file is kept as
 * `*ret_backup` (FILE.orig, or FILE.orig.N), which the caller frees. The new file has the owner,
 * the permissions, the ACL and the attributes of the old one, but no set-id bits; the backup is the
 * old file itself. Refused without changes: a file that was replaced, moved or changed since the
 * check, a symbolic link, and a file with several hard links (FLMEM_EUSAGE); a read-only file, and
 * an owner or attribute that cannot be set on the new file (FLMEM_EPERM).
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_correction_write(const struct flmem_correction *correction,
						      char **ret_backup, struct flmem_error *err);

#endif
