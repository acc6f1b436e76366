/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_HEAP_PROFILE_H
#define FLMEM_HEAP_PROFILE_H

/*
 * Sampled heap profiles, as `flmem profile run` writes them: which code allocated the memory, how
 * much of it is live, was live at the peak, was allocated and freed in total. A file may be read
 * while its program still writes it, and after the program was killed. It is not trusted: what is
 * inconsistent is left out and counted. Amounts are unbiased estimates from the samples.
 *
 * A profile is read once and then not changed: it may be used by several threads.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>
#include <flmem/trend.h>
#include <flmem/value.h>
#include <flmem/visibility.h>

/* X(NAME, text) */
#define FLMEM_HEAP_MEASURES(X)    \
	X(LIVE, "live")           \
	X(PEAK, "peak")           \
	X(ALLOCATED, "allocated") \
	X(FREED, "freed")

enum flmem_heap_measure {
#define FLMEM_HEAP_MEASURE_ENUM(name, text) FLMEM_HEAP_##name,
	FLMEM_HEAP_MEASURES(FLMEM_HEAP_MEASURE_ENUM)
#undef FLMEM_HEAP_MEASURE_ENUM
	FLMEM_HEAP_MEASURE_COUNT,
};

/* "live", ...; static. */
FLMEM_API const char *flmem_heap_measure_name(enum flmem_heap_measure measure);

/* Which frames of the stacks count. */
#define FLMEM_HEAP_STACKS(X) \
	X(MIXED, "mixed")    \
	X(PYTHON, "python")  \
	X(NATIVE, "native")

enum flmem_heap_stacks {
#define FLMEM_HEAP_STACKS_ENUM(name, text) FLMEM_HEAP_STACKS_##name,
	FLMEM_HEAP_STACKS(FLMEM_HEAP_STACKS_ENUM)
#undef FLMEM_HEAP_STACKS_ENUM
};

/* "mixed", ...; static. */
FLMEM_API const char *flmem_heap_stacks_name(enum flmem_heap_stacks stacks);

/* All texts of a frame are untrusted; they belong to the profile. */
struct flmem_heap_frame {
	const char *function; /* native: the symbol; NULL: unknown */
	const char *file;     /* source file; NULL: unknown */
	const char *module;   /* native: the file of the code; NULL: unknown */
	uint32_t line;	      /* 0: unknown */
	bool python;
	uint64_t offset; /* native: of the code in the module; the address without a module */
	const char *unresolved; /* native without function: why; static */
};

/* Nodes of the tree of all stacks. Node 0 is the root, without a frame; parents come first. */
struct flmem_heap_node {
	uint32_t parent;
	uint32_t frame;
};

struct flmem_heap_amounts {
	uint64_t bytes[FLMEM_HEAP_MEASURE_COUNT];
	uint64_t count[FLMEM_HEAP_MEASURE_COUNT]; /* of allocations */
};

struct flmem_string_pool;

/* One stack that allocated; its arenas are a site besides that of all else. */
struct flmem_heap_site {
	uint32_t node; /* the innermost frame */
	bool arenas;   /* of Python's small objects: it is chance which line needs a new one */
	struct flmem_heap_amounts amounts;
	struct flmem_u64 oldest_us; /* age of the oldest live allocation */
	double live_variance;	    /* of its live bytes; see flmem_heap_live_error() */
	double count_variance;	    /* of all samples, from their number; in intervals squared */
	double twice;		    /* how many points met a block that had one already */
};

/* The state of the process at one time. */
struct flmem_heap_point {
	uint64_t at_us; /* since the start of the profile */
	struct flmem_u64 rss_bytes, round;
	uint64_t live_bytes;
};

struct flmem_heap_round {
	struct flmem_u64 number; /* unknown: before the first round */
	uint64_t started_us;
	uint64_t allocated_bytes, freed_bytes, peak_bytes;
	bool has_sites; /* the file has what each site did during it */
};

/* What a site did during a round. */
struct flmem_heap_change {
	uint32_t site, round; /* in the lists of the profile */
	uint64_t allocated_bytes, freed_bytes;
	uint64_t allocated_count, freed_count;
};

#define FLMEM_HEAP_NO_ROUND UINT32_MAX

/* A sampled allocation that was not freed. Its round may be FLMEM_HEAP_NO_ROUND. */
struct flmem_heap_survivor {
	uint32_t site, round;  /* in the lists of the profile */
	uint64_t at_us;	       /* since the start of the profile */
	uint64_t bytes, count; /* what it stands for */
	double variance;       /* of `bytes`, which are an estimate; 0: exact */
};

/* X(NAME, text) */
#define FLMEM_HEAP_ENDINGS(X)                                              \
	X(ENDED, "ended")     /* closed by the program */                  \
	X(RUNNING, "running") /* its process lives */                      \
	X(KILLED, "killed")   /* not closed, and the process has exited */ \
	X(DUMPED, "dumped")   /* a snapshot, written by the allocator */

enum flmem_heap_ending {
#define FLMEM_HEAP_ENDING_ENUM(name, text) FLMEM_HEAP_##name,
	FLMEM_HEAP_ENDINGS(FLMEM_HEAP_ENDING_ENUM)
#undef FLMEM_HEAP_ENDING_ENUM
};

/* "ended", ...; static. */
FLMEM_API const char *flmem_heap_ending_name(enum flmem_heap_ending ending);

/* What a file that was cut lacks all or some of; in its order. X(NAME, name, text) */
#define FLMEM_HEAP_PARTS(X)                                                            \
	X(STACKS, "stacks", "stacks")                                                  \
	X(AMOUNTS, "amounts", "amounts")                                               \
	X(ROUNDS, "rounds", "what was done in each round")                             \
	X(SURVIVORS, "survivors", "when and in which round live memory was allocated") \
	X(TIMELINE, "timeline", "memory over time")                                    \
	X(MODULES, "modules", "the files of native code")

enum flmem_heap_part {
#define FLMEM_HEAP_PART_ENUM(name, word, text) FLMEM_HEAP_PART_##name,
	FLMEM_HEAP_PARTS(FLMEM_HEAP_PART_ENUM)
#undef FLMEM_HEAP_PART_ENUM
	FLMEM_HEAP_PART_COUNT
};

/* "stacks", ...; static. */
FLMEM_API const char *flmem_heap_part_name(enum flmem_heap_part part);

/* Whether the profile lacks all or some of a part, since its file was cut. */
#define FLMEM_HEAP_LACKS(profile, part) ((profile)->lacks >> FLMEM_HEAP_PART_##part & 1U)

struct flmem_heap_profile {
	char *path;
	const char *program, *command, *allocator; /* untrusted; "" if not recorded */
	uint32_t pid;				   /* in its own PID namespace */
	uint64_t start_time;			   /* of the process: clock ticks after boot */
	enum flmem_heap_ending ending;
	uint64_t started_us; /* since 1970-01-01 UTC */
	/* The program, or its parent in its memory, ran before: older blocks are not known. */
	bool began_late;
	bool restricted;      /* it has ended because the program has restricted its system calls */
	uint64_t duration_us; /* to its end; of one that has not ended, to its latest sample */
	uint64_t interval_bytes; /* mean distance of samples, as chosen */
	/* From some time on; larger where the file filled. */
	uint64_t interval_full_bytes;
	/* At most; larger than that at times, where samples would have taken much time. */
	uint64_t interval_now_bytes;
	bool stratified;      /* one point in each interval; false: a Poisson process */
	uint64_t threads;     /* that have samples; 0: unknown */
	uint64_t whole_bytes; /* allocated, of all rounds, selected or not */
	uint64_t samples;
	uint64_t peak_bytes, peak_at_us; /* of the process */
	enum flmem_heap_stacks stacks;
	bool has_python, has_native;
	const char *no_python; /* why there are no Python frames; static; NULL: there may be */
	uint64_t arena_size;   /* of Python's arenas, which hold small objects; 0: none are known */
	/*
	 * NULL, or why program, command, process ID, start times, duration, number of samples and
	 * peak of the process are unknown; static. They are then "" and 0.
	 */
	const char *unrecorded;
	bool changing;	       /* was written while it was read: sums may be off by a few samples */
	bool cut;	       /* the file is shorter than it was, or has lost records */
	bool has_zeros;	       /* of a cut one: it has its size, and zeros for records */
	uint32_t lacks;	       /* of a cut one: bits 1 << enum flmem_heap_part */
	uint64_t skipped;      /* records that were inconsistent */
	uint64_t lost_samples; /* for which there was no room, and: */
	uint64_t untaken_samples; /* in signal handlers, or too many threads sampled at once */
	uint64_t lost_bytes;	  /* what they stand for */
	uint64_t cut_stacks;	  /* too deep: without their outer frames */
	uint64_t full_stacks;	  /* without inner frames, which count as their callers */
	uint64_t lost_rounds;	  /* without a record: what they did is only in the sums */
	/* How often the number of the round fell by two or more: equal numbers are added up. */
	uint64_t restarted_rounds;
	uint64_t unread_frames; /* of Python: their stacks lack them, or end there */
	uint64_t lost_names;	/* functions and files without a name, as there was no room */
	uint64_t lost_modules;	/* ranges of code whose module has no record */
	uint64_t lost_threads;	/* without a record */
	uint64_t
		unseen_calls; /* of the allocator, past the sampler: in libraries that came later */
	uint64_t unmixed_stacks; /* without some of the native frames between their Python frames */
	uint64_t lost_children;	 /* that were to have a file and could not have one */
	const char *lost_children_reason; /* of the latest one; NULL: there is none */

	struct flmem_heap_frame *frames;
	size_t frame_count;
	struct flmem_heap_node *nodes;
	size_t node_count;
	struct flmem_heap_site *sites;
	size_t site_count;
	struct flmem_heap_round *rounds; /* in the order of their start */
	size_t round_count;
	struct flmem_heap_change *changes; /* by site, then by round */
	size_t change_count;
	struct flmem_heap_survivor *survivors; /* by site, then oldest first */
	size_t survivor_count;
	struct flmem_heap_point *points; /* by time */
	size_t point_count;

	struct flmem_heap_amounts totals; /* of all sites */
	/* NULL, or why no amount of this measure is known; static. Its numbers are then 0. */
	const char *unknown[FLMEM_HEAP_MEASURE_COUNT];
	bool by_round; /* only these rounds: */
	uint64_t first_round, last_round;

	struct flmem_string_pool *texts; /* private: memory of the texts */
};

/*
 * Whether the file begins as a heap profile of flmem or a heap dump of jemalloc; false if it cannot
 * be read.
 */
FLMEM_API bool flmem_heap_profile_is_one(const char *path);

struct flmem_heap_request {
	const char *path;
	enum flmem_heap_stacks stacks;
	bool choose_stacks; /* ignore `stacks`: Python if the file has it, else native */
	bool by_round;
	/*
	 * Only these rounds: what they allocated, what was freed during them, and what they
	 * allocated and is still live. Peaks are unknown then.
	 */
	uint64_t first_round, last_round;
	/* Keep frames of Python's import system (importlib) also where they have callers. */
	bool import_frames;
	bool no_symbols; /* native frames stay addresses in modules; no file besides is read */
};

/*
 * Reads a profile, or a heap dump of jemalloc ("heap_v2"), which is known by its first line; native
 * frames get the names of the modules' symbol tables. Release it with flmem_heap_profile_free().
 * FLMEM_EUSAGE: not a profile, of another version, cut or garbled beyond use; a round that the file
 * does not have. FLMEM_EFAILED: reading failed.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_profile_read(const struct flmem_heap_request *request,
						       struct flmem_heap_profile **ret_profile,
						       struct flmem_error *err);

/* The smallest and the largest number of a round in it, selected or not; false: it has none. */
FLMEM_API bool flmem_heap_rounds_span(const struct flmem_heap_profile *profile, uint64_t *ret_first,
				      uint64_t *ret_last);

/*
 * NULL, or why no amount of any measure is known: the file was cut before them. What else it has is
 * there. Static.
 */
FLMEM_API const char *flmem_heap_lacks_amounts(const struct flmem_heap_profile *profile);

/* Buffer size for flmem_heap_cut_text(). */
#define FLMEM_HEAP_CUT_TEXT_MAX 320

/* Of a profile that is cut, how: "is truncated"; static. */
FLMEM_API const char *flmem_heap_cut_name(const struct flmem_heap_profile *profile);

/*
 * Of a profile that is cut: what is known nevertheless, and what it lacks: "its amounts are whole;
 * it lacks all or some of: memory over time". Returns `out`.
 */
FLMEM_API char *flmem_heap_cut_text(const struct flmem_heap_profile *profile, char *out,
				    size_t size);

/* NULL is allowed. */
FLMEM_API void flmem_heap_profile_free(struct flmem_heap_profile *profile);

/* Buffer size for flmem_heap_frame_text(); longer texts are cut. */
#define FLMEM_HEAP_FRAME_TEXT_MAX 1024

/*
 * "train (/app/server.py:12)", "malloc [libc.so.6]", "libc.so.6+0x1234", escaped for printing; for
 * NULL "(no frame)". Returns `out`.
 */
FLMEM_API char *flmem_heap_frame_text(const struct flmem_heap_frame *frame, char *out, size_t size);

/*
 * The innermost frame at or above a node that is Python code of the program itself: in a file that
 * is neither in site-packages or dist-packages nor of the standard library. Code without a file
 * ("<string>", frozen modules) is passed over. FLMEM_HEAP_NO_FRAME: there is none, or a file is
 * unknown before it.
 */
FLMEM_API uint32_t flmem_heap_own_frame(const struct flmem_heap_profile *profile, uint32_t node);

/* Amounts of each node and all nodes below it; freed by the caller. NULL: memory is out. */
FLMEM_API FLMEM_MUST_CHECK struct flmem_heap_amounts *
flmem_heap_totals(const struct flmem_heap_profile *profile);

/* The amount of a measure, or why the profile has none. */
FLMEM_API struct flmem_u64 flmem_heap_bytes(const struct flmem_heap_profile *profile,
					    const struct flmem_heap_amounts *amounts,
					    enum flmem_heap_measure measure);
FLMEM_API struct flmem_u64 flmem_heap_count(const struct flmem_heap_profile *profile,
					    const struct flmem_heap_amounts *amounts,
					    enum flmem_heap_measure measure);

/*
 * The standard error of live bytes, from the samples that are live: about two thirds of estimates
 * are nearer than that to what is live, and 95 % are nearer than twice that, where it is of ten
 * samples or more. It has no part for arenas, of which it is chance which line needs a new one.
 */
FLMEM_API struct flmem_u64 flmem_heap_live_error(const struct flmem_heap_profile *profile,
						 double live_variance);

enum flmem_heap_key {
	FLMEM_HEAP_BY_LINE,	/* function, file and line */
	FLMEM_HEAP_BY_FUNCTION, /* function and file */
	/* The same, where native code counts as part of the Python function that called it. */
	FLMEM_HEAP_BY_PYTHON_FUNCTION,
};

#define FLMEM_HEAP_NO_FRAME UINT32_MAX

/* All stacks in one place of the program. */
struct flmem_heap_row {
	/* That with most of the total; FLMEM_HEAP_NO_FRAME: stacks without frames of this kind. */
	uint32_t frame;
	struct flmem_heap_amounts own;	 /* allocated there */
	struct flmem_heap_amounts total; /* and in what it calls, recursion counted once */
	/* The program's own line (flmem_heap_own_frame()) that has most of `own`. */
	uint32_t own_frame;
	uint64_t arena_bytes; /* what of `own` is arenas, of the measure */
	double live_variance; /* of the live bytes of `own` */
	double variance;      /* of `own`, of the measure */
};

/*
 * The rows, largest own amount of `measure` first, those without any own amount last; freed by the
 * caller with free(). FLMEM_EFAILED without memory.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_rows(const struct flmem_heap_profile *profile,
					       enum flmem_heap_key key,
					       enum flmem_heap_measure measure,
					       struct flmem_heap_row **ret_rows, size_t *ret_count,
					       struct flmem_error *err);

/* The sites, largest amount of `measure` first; freed by the caller. NULL: memory is out. */
FLMEM_API FLMEM_MUST_CHECK uint32_t *
flmem_heap_largest_sites(const struct flmem_heap_profile *profile, enum flmem_heap_measure measure);

struct flmem_heap_tree_request {
	enum flmem_heap_measure measure; /* siblings are sorted by it, largest first */
	size_t sites_max;		 /* only the stacks of this many largest sites; 0: of all */
	size_t branches_max;		 /* small branches are left out; 0: any number */
};

struct flmem_heap_branch {
	uint32_t node;
	uint32_t depth; /* of the root: 0 */
	struct flmem_heap_amounts own, total;
};

struct flmem_heap_tree {
	struct flmem_heap_branch *branches; /* the root, then depth first */
	size_t count;
	size_t left_out; /* nodes of the profile that are not in the list */
	double least;	 /* smaller shares of every measure are left out */
};

/* Release with flmem_heap_tree_clear(). FLMEM_EFAILED without memory. */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_tree_make(const struct flmem_heap_profile *profile,
						    const struct flmem_heap_tree_request *request,
						    struct flmem_heap_tree *ret_tree,
						    struct flmem_error *err);
FLMEM_API void flmem_heap_tree_clear(struct flmem_heap_tree *tree);

/*
 * A stack whose live bytes keep growing. With rounds in the file, `confidence` is that of a trend
 * over the live bytes at the ends of rounds; without them it is derived from the ages of what
 * survived, and is lower.
 */
struct flmem_heap_leak {
	uint32_t site;
	double confidence;
	double growth_bytes;	      /* per round, or per hour */
	double low_bytes, high_bytes; /* 95 % interval of it; without rounds both are the growth */
	uint64_t live_bytes;	      /* at the end of the profile */
	uint64_t grown_bytes;	      /* the same, or before the program freed it at its end */
	struct flmem_u64 oldest_us;
	uint32_t periods, survived_in; /* rounds, or parts of the time; those with survivors */
	/*
	 * The profile began late, and RSS has not grown: blocks from before, whose release is not
	 * known, may be replaced.
	 */
	bool unconfirmed;
};

struct flmem_heap_leaks {
	struct flmem_heap_leak *rows; /* confirmed ones first, then the oldest survivors */
	size_t count;
	bool by_round;
	uint32_t periods; /* complete rounds, or parts of the time */
	/*
	 * By the numbers of the complete rounds, the first and the last included: more than there
	 * are where the job had no round of a number, or the file no sample of it. 0: no rounds.
	 */
	uint32_t round_span;
	const char *too_few; /* why nothing can be concluded; static; NULL */
};

/*
 * Release with flmem_heap_leaks_clear(). The profile is one of all rounds. FLMEM_EUSAGE: it is a
 * snapshot, in which nothing grows.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_leaks_find(const struct flmem_heap_profile *profile,
						     struct flmem_heap_leaks *ret_leaks,
						     struct flmem_error *err);
/* Why nothing can be concluded about growth; static. NULL: it can. */
FLMEM_API const char *flmem_heap_leaks_too_few(const struct flmem_heap_profile *profile);
FLMEM_API void flmem_heap_leaks_clear(struct flmem_heap_leaks *leaks);

/* One place of the program in two profiles. */
struct flmem_heap_difference {
	struct flmem_heap_frame frame; /* of the second profile where it has it, else the first's */
	bool no_frame;
	/* The program's own line that has most of it, of the second profile where it has one. */
	struct flmem_heap_frame own_frame;
	bool has_own_frame;
	bool own_elsewhere; /* that is another function */
	struct flmem_heap_amounts own[2];
	uint64_t arena_bytes[2]; /* what of them is arenas, of the measure */
	double variance[2];	 /* of their samples, of the measure */
};

struct flmem_heap_comparison {
	struct flmem_heap_difference *rows; /* the largest change of the measure first */
	size_t count;
};

/*
 * The file of the Python program: that of the outermost frame '<module>' with the largest total.
 * NULL: there is none.
 */
FLMEM_API const char *flmem_heap_program_file(const struct flmem_heap_profile *profile);

/*
 * Functions of two profiles by name and file, where the two programs' own files are taken for the
 * same. The rows keep texts of the profiles. FLMEM_EFAILED without memory.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_compare(const struct flmem_heap_profile *first,
						  const struct flmem_heap_profile *second,
						  enum flmem_heap_measure measure,
						  struct flmem_heap_comparison *ret_comparison,
						  struct flmem_error *err);
FLMEM_API void flmem_heap_comparison_clear(struct flmem_heap_comparison *comparison);

/*
 * Whether a row of their comparison by this measure differs by more than two standard deviations,
 * of the samples and of the lines that need a new arena of Python
 * (docs/internals/heap-sampler.md).
 */
FLMEM_API bool flmem_heap_is_change(const struct flmem_heap_profile *const profiles[2],
				    const struct flmem_heap_difference *row,
				    enum flmem_heap_measure measure);

/* That standard deviation of the change, in bytes. */
FLMEM_API struct flmem_u64
flmem_heap_change_error(const struct flmem_heap_profile *const profiles[2],
			const struct flmem_heap_difference *row, enum flmem_heap_measure measure);
/* The same of the change of the totals, or of all arenas of Python together: of the samples. */
FLMEM_API struct flmem_u64
flmem_heap_total_error(const struct flmem_heap_profile *const profiles[2],
		       enum flmem_heap_measure measure, bool arenas_only);

#endif
