/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_HEAP_PROFILE_H
#define FLMEM_HEAP_PROFILE_H

/*
 * Sampled heap profiles, as `flmem profile run` writes them: which code allocated the memory, how
 * much is live, was live at the peak, and was allocated and freed in total. A file may be read
 * while its program still writes it, and after the program was killed. It is untrusted:
 * inconsistent records are skipped and counted. Amounts are unbiased estimates from the samples.
 *
 * A profile is constant once read and may be used by several threads.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>
#include <flmem/trend.h>
#include <flmem/value.h>
#include <flmem/visibility.h>

/* What an amount counts. X(NAME, text) */
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

/* Returns the name of a measure ("live", ...); static text. */
FLMEM_API const char *flmem_heap_measure_name(enum flmem_heap_measure measure);

/* Kinds of frames that a profile keeps. X(NAME, text) */
#define FLMEM_HEAP_STACKS(X) \
	X(MIXED, "mixed")    \
	X(PYTHON, "python")  \
	X(NATIVE, "native")

enum flmem_heap_stacks {
#define FLMEM_HEAP_STACKS_ENUM(name, text) FLMEM_HEAP_STACKS_##name,
	FLMEM_HEAP_STACKS(FLMEM_HEAP_STACKS_ENUM)
#undef FLMEM_HEAP_STACKS_ENUM
};

/* Returns the name of a kind of frames ("mixed", ...); static text. */
FLMEM_API const char *flmem_heap_stacks_name(enum flmem_heap_stacks stacks);

/* One frame of a stack. All texts are untrusted; they belong to the profile. */
struct flmem_heap_frame {
	const char *function; /* native code: the symbol; NULL: unknown */
	const char *file;     /* source file; NULL: unknown */
	const char *module;   /* native code: the file that contains it; NULL: unknown */
	uint32_t line;	      /* 0: unknown */
	bool python;
	/* Native code: offset in the module, or the address if the module is unknown. */
	uint64_t offset;
	const char *unresolved; /* native code: why the function is unknown; static */
};

/*
 * A node of the tree of all stacks. Node 0 is the root, which has no frame; parents come before
 * their children.
 */
struct flmem_heap_node {
	/* Index of the parent node. */
	uint32_t parent;
	uint32_t frame;
};

/* Estimated amounts, by measure (enum flmem_heap_measure). */
struct flmem_heap_amounts {
	uint64_t bytes[FLMEM_HEAP_MEASURE_COUNT];
	uint64_t count[FLMEM_HEAP_MEASURE_COUNT]; /* number of allocations */
};

struct flmem_string_pool;

/* One allocating stack. If it has arenas, they form a second site of the same stack. */
struct flmem_heap_site {
	uint32_t node; /* index of the node with the innermost frame */
	/*
	 * The allocations are Python's arenas for small objects; chance decides which line needs a
	 * new arena.
	 */
	bool arenas;
	struct flmem_heap_amounts amounts;
	struct flmem_u64 oldest_us; /* age of the oldest live allocation */
	double live_variance;	    /* variance of the live bytes; see flmem_heap_live_error() */
	/* Variance derived from the number of all samples, in squared intervals. */
	double count_variance;
	double twice; /* number of sampling points in blocks that already contained one */
};

/* The state of the process at one time, for the course of memory over time. */
struct flmem_heap_point {
	uint64_t at_us; /* time since the start of the profile */
	struct flmem_u64 rss_bytes, round;
	uint64_t live_bytes;
};

struct flmem_heap_round {
	struct flmem_u64 number; /* unknown: the time before the first round */
	uint64_t started_us;
	uint64_t allocated_bytes, freed_bytes, peak_bytes;
	bool has_sites; /* the file has amounts per site for this round */
};

/* What a site allocated and freed during a round. */
struct flmem_heap_change {
	uint32_t site, round; /* indices into the profile's arrays */
	uint64_t allocated_bytes, freed_bytes;
	uint64_t allocated_count, freed_count;
};

#define FLMEM_HEAP_NO_ROUND UINT32_MAX

/* A sampled allocation that was not freed. Its round may be FLMEM_HEAP_NO_ROUND. */
struct flmem_heap_survivor {
	uint32_t site, round;  /* indices into the profile's arrays */
	uint64_t at_us;	       /* since the start of the profile */
	uint64_t bytes, count; /* estimated amounts that the sample stands for */
	double variance;       /* variance of `bytes`; 0: `bytes` is exact */
};

/* How a profile ended. X(NAME, text) */
#define FLMEM_HEAP_ENDINGS(X)                                                       \
	X(ENDED, "ended")     /* the program closed the file */                     \
	X(RUNNING, "running") /* the process is alive */                            \
	X(KILLED, "killed")   /* the process has exited without closing the file */ \
	X(DUMPED, "dumped")   /* a snapshot that the allocator wrote */

enum flmem_heap_ending {
#define FLMEM_HEAP_ENDING_ENUM(name, text) FLMEM_HEAP_##name,
	FLMEM_HEAP_ENDINGS(FLMEM_HEAP_ENDING_ENUM)
#undef FLMEM_HEAP_ENDING_ENUM
};

/* Returns the name of an ending ("ended", ...); static text. */
FLMEM_API const char *flmem_heap_ending_name(enum flmem_heap_ending ending);

/*
 * Parts that may be missing in a cut file, in full or in part, in the order of the file. X(NAME,
 * name, text)
 */
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

/* Returns the name of a part ("stacks", ...); static text. */
FLMEM_API const char *flmem_heap_part_name(enum flmem_heap_part part);

/* True if a part is missing or incomplete because the file was cut. */
#define FLMEM_HEAP_LACKS(profile, part) ((profile)->lacks >> FLMEM_HEAP_PART_##part & 1U)

/* A profile in memory; it owns all arrays and texts. See flmem_heap_profile_read(). */
struct flmem_heap_profile {
	char *path;
	const char *program, *command, *allocator; /* untrusted; "" if not recorded */
	uint32_t pid;				   /* PID in the process's own PID namespace */
	uint64_t start_time; /* start of the process, clock ticks after boot */
	enum flmem_heap_ending ending;
	uint64_t started_us; /* start of the sampling, since 1970-01-01 UTC */
	/*
	 * The program (or its parent, before a fork) ran before sampling began: blocks allocated
	 * before are unknown.
	 */
	bool began_late;
	bool restricted; /* sampling ended because the program restricted its system calls */
	/*
	 * Time from the start of sampling to its end, or to the latest sample if it has not ended.
	 */
	uint64_t duration_us;
	uint64_t interval_bytes; /* requested mean number of allocated bytes between two samples */
	/* Distance of samples at the end; larger than requested if the file was filling up. */
	uint64_t interval_full_bytes;
	/* Largest distance of samples; it grows temporarily to limit the time spent on samples. */
	uint64_t interval_now_bytes;
	bool stratified;      /* samples are one point in each interval; false: a Poisson process */
	uint64_t threads;     /* number of threads with samples; 0: unknown */
	uint64_t whole_bytes; /* bytes allocated in all rounds, whether selected or not */
	uint64_t samples;
	uint64_t peak_bytes, peak_at_us; /* peak of live bytes of the whole process */
	enum flmem_heap_stacks stacks;
	bool has_python, has_native;
	const char *no_python; /* why there are no Python frames; static; NULL: there may be some */
	/* Size of one of Python's arenas for small objects; 0: no arenas known. */
	uint64_t arena_size;
	/*
	 * Why program, command, process ID, start times, duration, number of samples and peak of
	 * the process are unknown; static. They are then "" and 0. NULL: they are known.
	 */
	const char *unrecorded;
	/* The program wrote to the file during the read: sums may be off by a few samples. */
	bool changing;
	bool cut;	  /* the file was truncated, or has lost records */
	bool has_zeros;	  /* if cut: the file has its full size, but zeros instead of records */
	uint32_t lacks;	  /* if cut: missing parts, as bits 1 << enum flmem_heap_part */
	uint64_t skipped; /* number of inconsistent records, which were skipped */
	uint64_t lost_samples; /* samples that were not stored, untaken ones included */
	/* Samples not taken: a signal handler, or too many threads at once. */
	uint64_t untaken_samples;
	uint64_t lost_bytes; /* allocated bytes that the lost samples stand for */
	uint64_t cut_stacks; /* stacks that were too deep: outer frames are missing */
	/* stacks that did not fit the file: inner frames are missing and count as their callers */
	uint64_t full_stacks;
	uint64_t lost_rounds; /* rounds without a record: their amounts are only in the totals */
	/* How often the round number fell by two or more; rounds with equal numbers are summed. */
	uint64_t restarted_rounds;
	/* Python frames that could not be read; stacks lack them or end there. */
	uint64_t unread_frames;
	uint64_t lost_names;   /* function and file names that did not fit the file */
	uint64_t lost_modules; /* code ranges whose module has no record */
	uint64_t lost_threads; /* threads without a record */
	uint64_t unseen_calls; /* allocator calls of libraries loaded later, not sampled */
	/* Stacks in which some native frames between Python frames are missing. */
	uint64_t unmixed_stacks;
	uint64_t lost_children;		  /* child processes whose profile could not be created */
	const char *lost_children_reason; /* why the latest of these failed; NULL: none failed */

	struct flmem_heap_frame *frames;
	size_t frame_count;
	struct flmem_heap_node *nodes;
	size_t node_count;
	struct flmem_heap_site *sites;
	size_t site_count;
	struct flmem_heap_round *rounds; /* sorted by start */
	size_t round_count;
	struct flmem_heap_change *changes; /* sorted by site, then by round */
	size_t change_count;
	struct flmem_heap_survivor *survivors; /* sorted by site, then oldest first */
	size_t survivor_count;
	struct flmem_heap_point *points; /* sorted by time */
	size_t point_count;

	struct flmem_heap_amounts totals; /* amounts of all sites together */
	/* By measure: why no amount of it is known; static. Its numbers are then 0. NULL: known. */
	const char *unknown[FLMEM_HEAP_MEASURE_COUNT];
	bool by_round; /* all amounts cover only the rounds from first_round to last_round */
	uint64_t first_round, last_round;

	struct flmem_string_pool *texts; /* private: owns the strings */
};

/*
 * Returns true if the file begins like a heap profile of flmem or a heap dump of jemalloc; false
 * also if it is unreadable.
 */
FLMEM_API bool flmem_heap_profile_is_one(const char *path);

/* Options of flmem_heap_profile_read(). The caller owns the path. */
struct flmem_heap_request {
	const char *path;
	enum flmem_heap_stacks stacks;
	/* Ignore `stacks`: take Python frames if the file has some, else native ones. */
	bool choose_stacks;
	bool by_round;
	/*
	 * If by_round: report only what these rounds allocated, what was freed during them, and
	 * what of their allocations is still live. Peaks are then unknown.
	 */
	uint64_t first_round, last_round;
	/* Keep frames of Python's import system (importlib) even if they have callers. */
	bool import_frames;
	bool no_symbols; /* show native frames as module offsets; no other file is read */
};

/*
 * Reads a profile, or a heap dump of jemalloc ("heap_v2"), recognised by its first line. Native
 * frames are resolved from the modules' symbol tables. Release with flmem_heap_profile_free().
 * FLMEM_EUSAGE if the file is not a profile, is of another version, is too damaged to use, or lacks
 * a requested round. FLMEM_EFAILED if it cannot be read.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_profile_read(const struct flmem_heap_request *request,
						       struct flmem_heap_profile **ret_profile,
						       struct flmem_error *err);

/*
 * Finds the smallest and the largest round number in the file, whether selected or not. Returns
 * false if the file has no rounds.
 */
FLMEM_API bool flmem_heap_rounds_span(const struct flmem_heap_profile *profile, uint64_t *ret_first,
				      uint64_t *ret_last);

/*
 * Returns why no amount of any measure is known (the file was cut before them); static text. The
 * other parts are valid. NULL: amounts are known.
 */
FLMEM_API const char *flmem_heap_lacks_amounts(const struct flmem_heap_profile *profile);

/* Buffer size for flmem_heap_cut_text(). */
#define FLMEM_HEAP_CUT_TEXT_MAX 320

/* Returns how a cut profile was damaged ("is truncated"); static text. */
FLMEM_API const char *flmem_heap_cut_name(const struct flmem_heap_profile *profile);

/*
 * Describes which parts of a cut profile are complete and which are not: "its amounts are whole; it
 * lacks all or some of: memory over time". Returns `out`.
 */
FLMEM_API char *flmem_heap_cut_text(const struct flmem_heap_profile *profile, char *out,
				    size_t size);

/* Frees a profile; NULL is allowed. */
FLMEM_API void flmem_heap_profile_free(struct flmem_heap_profile *profile);

/* Buffer size for flmem_heap_frame_text(); longer texts are cut. */
#define FLMEM_HEAP_FRAME_TEXT_MAX 1024

/*
 * Describes a frame: "train (/app/server.py:12)", "malloc [libc.so.6]", "libc.so.6+0x1234"; NULL is
 * "(no frame)". The text is escaped for printing. Returns `out`.
 */
FLMEM_API char *flmem_heap_frame_text(const struct flmem_heap_frame *frame, char *out, size_t size);

/*
 * Returns the innermost frame at or above a node that is Python code of the program itself: its
 * file is neither in site-packages or dist-packages nor in the standard library. Code without a
 * file ("<string>", frozen modules) is skipped. FLMEM_HEAP_NO_FRAME if there is none, or if a frame
 * with an unknown file comes first.
 */
FLMEM_API uint32_t flmem_heap_own_frame(const struct flmem_heap_profile *profile, uint32_t node);

/*
 * Returns an array with an element for each node: the amounts of the node and of all nodes below
 * it. The caller frees it with free(). NULL if memory is out.
 */
FLMEM_API FLMEM_MUST_CHECK struct flmem_heap_amounts *
flmem_heap_totals(const struct flmem_heap_profile *profile);

/* Returns the bytes of a measure, unknown with the reason if the profile has none. */
FLMEM_API struct flmem_u64 flmem_heap_bytes(const struct flmem_heap_profile *profile,
					    const struct flmem_heap_amounts *amounts,
					    enum flmem_heap_measure measure);

/*
 * Returns the number of allocations of a measure, unknown with the reason if the profile has none.
 */
FLMEM_API struct flmem_u64 flmem_heap_count(const struct flmem_heap_profile *profile,
					    const struct flmem_heap_amounts *amounts,
					    enum flmem_heap_measure measure);

/*
 * Returns the standard error of live bytes, in bytes, from the variance that the live samples give.
 * With ten samples or more, the true value is within one standard error in about two thirds of
 * cases and within two in 95 %. It does not cover the chance that decides which line needs a new
 * arena.
 */
FLMEM_API struct flmem_u64 flmem_heap_live_error(const struct flmem_heap_profile *profile,
						 double live_variance);

/* Frames that flmem_heap_rows() adds up in one row. */
enum flmem_heap_key {
	FLMEM_HEAP_BY_LINE,	/* frames with the same function, file and line */
	FLMEM_HEAP_BY_FUNCTION, /* frames with the same function and file */
	/*
	 * The key is the function and file, but native code counts as part of the Python function
	 * that called it.
	 */
	FLMEM_HEAP_BY_PYTHON_FUNCTION,
};

#define FLMEM_HEAP_NO_FRAME UINT32_MAX

/* Sum of the amounts of all stacks at one place of the program. */
struct flmem_heap_row {
	/*
	 * The frame with the largest total in the row; FLMEM_HEAP_NO_FRAME: the row is of stacks
	 * without frames of the profile's kind.
	 */
	uint32_t frame;
	struct flmem_heap_amounts own; /* allocated at this place itself */
	/* Allocated at this place and in its callees; recursion is counted once. */
	struct flmem_heap_amounts total;
	/* The program's own line (flmem_heap_own_frame()) with most of `own`. */
	uint32_t own_frame;
	uint64_t arena_bytes; /* part of `own` in Python arenas, in the measure of the call */
	double live_variance; /* variance of the live bytes of `own` */
	double variance;      /* variance of `own`, in the measure of the call */
};

/*
 * Makes the rows, sorted by their own amount of `measure`, largest first; rows without own amounts
 * come last. The caller frees them with free(). FLMEM_EFAILED if memory is out.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_rows(const struct flmem_heap_profile *profile,
					       enum flmem_heap_key key,
					       enum flmem_heap_measure measure,
					       struct flmem_heap_row **ret_rows, size_t *ret_count,
					       struct flmem_error *err);

/*
 * Returns the indices of the sites, sorted by their amount of `measure`, largest first. The caller
 * frees them with free(). NULL if memory is out.
 */
FLMEM_API FLMEM_MUST_CHECK uint32_t *
flmem_heap_largest_sites(const struct flmem_heap_profile *profile, enum flmem_heap_measure measure);

struct flmem_heap_tree_request {
	enum flmem_heap_measure measure; /* siblings are sorted by this measure, largest first */
	size_t sites_max;    /* keep only the stacks of this many largest sites; 0: all */
	size_t branches_max; /* most branches, small ones are left out; 0: no limit */
};

struct flmem_heap_branch {
	/* Index of the node in the profile. */
	uint32_t node;
	uint32_t depth; /* distance from the root, which has 0 */
	struct flmem_heap_amounts own, total;
};

struct flmem_heap_tree {
	struct flmem_heap_branch *branches; /* the root first, then depth first */
	size_t count;
	size_t left_out; /* number of nodes of the profile that are not in the list */
	double least; /* a branch is left out if its share of every measure is smaller than this */
};

/*
 * Makes the tree of stacks. Release with flmem_heap_tree_clear(). FLMEM_EFAILED if memory is out.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_tree_make(const struct flmem_heap_profile *profile,
						    const struct flmem_heap_tree_request *request,
						    struct flmem_heap_tree *ret_tree,
						    struct flmem_error *err);

/* Frees the branches and zeroes the struct. */
FLMEM_API void flmem_heap_tree_clear(struct flmem_heap_tree *tree);

/*
 * A stack whose live bytes keep growing. With rounds, `confidence` is that of the trend of live
 * bytes at the ends of rounds; without rounds it is lower and derived from the ages of survivors.
 */
struct flmem_heap_leak {
	uint32_t site; /* index of the site in the profile */
	double confidence;
	double growth_bytes; /* growth per round, or per hour without rounds */
	/* 95 % interval of growth_bytes; without rounds both equal it. */
	double low_bytes, high_bytes;
	uint64_t live_bytes;  /* live bytes at the end of the profile */
	uint64_t grown_bytes; /* live bytes before the program freed memory at its exit */
	struct flmem_u64 oldest_us;
	/* Rounds or time spans, and how many of them have survivors. */
	uint32_t periods, survived_in;
	/*
	 * The profile began late and RSS has not grown: the blocks may replace older ones, whose
	 * release is not recorded.
	 */
	bool unconfirmed;
};

struct flmem_heap_leaks {
	/* Sorted: confirmed ones first, then by their oldest survivor. */
	struct flmem_heap_leak *rows;
	size_t count;
	bool by_round;
	uint32_t periods; /* number of complete rounds, or of time spans */
	/*
	 * Highest minus lowest number of the complete rounds, plus 1. Exceeds `periods` if the job
	 * skipped numbers or a round has no sample. 0: no rounds.
	 */
	uint32_t round_span;
	const char *too_few; /* why nothing can be concluded; static. NULL: it can */
};

/*
 * Finds the stacks whose live bytes keep growing. The profile must cover all rounds. FLMEM_EUSAGE
 * for a snapshot, which cannot show growth; FLMEM_EFAILED if memory is out. Release with
 * flmem_heap_leaks_clear().
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_leaks_find(const struct flmem_heap_profile *profile,
						     struct flmem_heap_leaks *ret_leaks,
						     struct flmem_error *err);
/* Returns why nothing can be concluded about growth; static text. NULL: something can. */
FLMEM_API const char *flmem_heap_leaks_too_few(const struct flmem_heap_profile *profile);

/* Frees the rows and zeroes the struct. */
FLMEM_API void flmem_heap_leaks_clear(struct flmem_heap_leaks *leaks);

/* One function of the program in two profiles; element 0 of arrays is of the first profile. */
struct flmem_heap_difference {
	/* Frame of the second profile, or of the first if the second has none. */
	struct flmem_heap_frame frame;
	bool no_frame;
	/* The program's own line with the largest amount, from the second profile if it has one. */
	struct flmem_heap_frame own_frame;
	bool has_own_frame;
	bool own_elsewhere; /* own_frame belongs to another function than `frame` */
	struct flmem_heap_amounts own[2];
	/* Part of `own` in Python arenas, in the measure of the comparison. */
	uint64_t arena_bytes[2];
	double variance[2]; /* variance of `own` from the samples, in that measure */
};

struct flmem_heap_comparison {
	struct flmem_heap_difference *rows; /* sorted by the size of the change, largest first */
	size_t count;
};

/*
 * Returns the file of the Python program: that of the outermost frame '<module>' with the largest
 * total. NULL if there is none.
 */
FLMEM_API const char *flmem_heap_program_file(const struct flmem_heap_profile *profile);

/*
 * Compares the functions of two profiles by name and file; the main files of the two programs count
 * as the same file. The rows refer to strings of the profiles, which must outlive them. Release
 * with flmem_heap_comparison_clear(). FLMEM_EFAILED if memory is out.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_compare(const struct flmem_heap_profile *first,
						  const struct flmem_heap_profile *second,
						  enum flmem_heap_measure measure,
						  struct flmem_heap_comparison *ret_comparison,
						  struct flmem_error *err);

/* Frees the rows and zeroes the struct. */
FLMEM_API void flmem_heap_comparison_clear(struct flmem_heap_comparison *comparison);

/*
 * Returns true if a row of the comparison differs by more than two standard deviations in this
 * measure. The deviation covers chance in the samples and in which lines need a new Python arena
 * (docs/internals/heap-sampler.md).
 */
FLMEM_API bool flmem_heap_is_change(const struct flmem_heap_profile *const profiles[2],
				    const struct flmem_heap_difference *row,
				    enum flmem_heap_measure measure);

/* Returns the standard deviation of the change in a row, in bytes. */
FLMEM_API struct flmem_u64
flmem_heap_change_error(const struct flmem_heap_profile *const profiles[2],
			const struct flmem_heap_difference *row, enum flmem_heap_measure measure);
/*
 * Returns the standard deviation of the change of the totals, or of all Python arenas together, in
 * bytes. It covers chance in the samples only.
 */
FLMEM_API struct flmem_u64
flmem_heap_total_error(const struct flmem_heap_profile *const profiles[2],
		       enum flmem_heap_measure measure, bool arenas_only);

#endif
