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
	uint64_t offset;	/* native: offset in the module; without a module the address */
	const char *unresolved; /* native: why the function is unknown; static */
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

/* One allocating stack. If it has arenas, they form a second site of the same stack. */
struct flmem_heap_site {
	uint32_t node; /* the innermost frame */
	bool arenas;   /* Python's, for small objects: chance decides which line needs a new one */
	struct flmem_heap_amounts amounts;
	struct flmem_u64 oldest_us; /* age of the oldest live allocation */
	double live_variance;	    /* of its live bytes; see flmem_heap_live_error() */
	double count_variance;	    /* from the number of all samples; in squared intervals */
	double twice;		    /* number of sampling points in a block that already had one */
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
	bool has_sites; /* the file has amounts per site for this round */
};

/* Allocations and releases of a site during a round. */
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
	uint64_t bytes, count; /* estimated amounts that it represents */
	double variance;       /* of `bytes`; 0: `bytes` is exact */
};

/* X(NAME, text) */
#define FLMEM_HEAP_ENDINGS(X)                                              \
	X(ENDED, "ended")     /* closed by the program */                  \
	X(RUNNING, "running") /* its process is alive */                   \
	X(KILLED, "killed")   /* not closed, and the process has exited */ \
	X(DUMPED, "dumped")   /* a snapshot, written by the allocator */

enum flmem_heap_ending {
#define FLMEM_HEAP_ENDING_ENUM(name, text) FLMEM_HEAP_##name,
	FLMEM_HEAP_ENDINGS(FLMEM_HEAP_ENDING_ENUM)
#undef FLMEM_HEAP_ENDING_ENUM
};

/* "ended", ...; static. */
FLMEM_API const char *flmem_heap_ending_name(enum flmem_heap_ending ending);

/* Parts that a cut file may lack in full or in part, in file order. X(NAME, name, text) */
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

/* Whether a part is missing or incomplete because the file was cut. */
#define FLMEM_HEAP_LACKS(profile, part) ((profile)->lacks >> FLMEM_HEAP_PART_##part & 1U)

struct flmem_heap_profile {
	char *path;
	const char *program, *command, *allocator; /* untrusted; "" if not recorded */
	uint32_t pid;				   /* in its own PID namespace */
	uint64_t start_time; /* start of the process, clock ticks after boot */
	enum flmem_heap_ending ending;
	uint64_t started_us; /* since 1970-01-01 UTC */
	/*
	 * The program ran before sampling began (or its parent, before a fork): older blocks are
	 * unknown.
	 */
	bool began_late;
	bool restricted;      /* sampling ended because the program restricted its system calls */
	uint64_t duration_us; /* until its end, or until the latest sample if it has not ended */
	uint64_t interval_bytes; /* requested mean distance of samples */
	/* Final distance; larger than requested if the file was filling up. */
	uint64_t interval_full_bytes;
	/* Largest distance used; temporarily larger to limit the time spent on samples. */
	uint64_t interval_now_bytes;
	bool stratified;      /* one point in each interval; false: a Poisson process */
	uint64_t threads;     /* number with samples; 0: unknown */
	uint64_t whole_bytes; /* allocated in all rounds, selected or not */
	uint64_t samples;
	uint64_t peak_bytes, peak_at_us; /* of the process */
	enum flmem_heap_stacks stacks;
	bool has_python, has_native;
	const char *no_python; /* why there are no Python frames; static; NULL: there may be some */
	uint64_t arena_size;   /* size of Python's arenas for small objects; 0: none known */
	/*
	 * NULL, or why program, command, process ID, start times, duration, number of samples and
	 * peak of the process are unknown; static. They are then "" and 0.
	 */
	const char *unrecorded;
	bool changing;		  /* written while it was read: sums may be off by a few samples */
	bool cut;		  /* the file was truncated, or has lost records */
	bool has_zeros;		  /* if cut: full size, but zeros instead of records */
	uint32_t lacks;		  /* if cut: bits 1 << enum flmem_heap_part */
	uint64_t skipped;	  /* records that were inconsistent */
	uint64_t lost_samples;	  /* not stored: no room */
	uint64_t untaken_samples; /* not taken: in a signal handler, or too many threads at once */
	uint64_t lost_bytes;	  /* bytes that both represent */
	uint64_t cut_stacks;	  /* too deep: outer frames are missing */
	uint64_t full_stacks;	  /* no room: inner frames are missing and count as their callers */
	uint64_t lost_rounds;	  /* without a record: their amounts are only in the totals */
	/* How often the round number fell by two or more; rounds with equal numbers are summed. */
	uint64_t restarted_rounds;
	uint64_t unread_frames;	 /* unreadable Python frames; stacks lack them or end there */
	uint64_t lost_names;	 /* function and file names not stored: no room */
	uint64_t lost_modules;	 /* code ranges whose module has no record */
	uint64_t lost_threads;	 /* without a record */
	uint64_t unseen_calls;	 /* allocator calls of libraries loaded later, not sampled */
	uint64_t unmixed_stacks; /* some native frames between Python frames are missing */
	uint64_t lost_children;	 /* child processes whose file could not be created */
	const char *lost_children_reason; /* of the latest one; NULL: none */

	struct flmem_heap_frame *frames;
	size_t frame_count;
	struct flmem_heap_node *nodes;
	size_t node_count;
	struct flmem_heap_site *sites;
	size_t site_count;
	struct flmem_heap_round *rounds; /* in order of start */
	size_t round_count;
	struct flmem_heap_change *changes; /* by site, then by round */
	size_t change_count;
	struct flmem_heap_survivor *survivors; /* by site, then oldest first */
	size_t survivor_count;
	struct flmem_heap_point *points; /* by time */
	size_t point_count;

	struct flmem_heap_amounts totals; /* of all sites */
	/* Why no amount of this measure is known, static; its numbers are then 0. NULL: known. */
	const char *unknown[FLMEM_HEAP_MEASURE_COUNT];
	bool by_round; /* amounts are of these rounds only: */
	uint64_t first_round, last_round;

	struct flmem_string_pool *texts; /* private: owns the strings */
};

/*
 * True if the file begins like a heap profile of flmem or a heap dump of jemalloc; false if it is
 * unreadable.
 */
FLMEM_API bool flmem_heap_profile_is_one(const char *path);

struct flmem_heap_request {
	const char *path;
	enum flmem_heap_stacks stacks;
	bool choose_stacks; /* ignore `stacks`: Python if the file has it, else native */
	bool by_round;
	/*
	 * If by_round: report only what these rounds allocated, what was freed during them, and
	 * what of their allocations is still live. Peaks are then unknown.
	 */
	uint64_t first_round, last_round;
	/* Keep frames of Python's import system (importlib) even if they have callers. */
	bool import_frames;
	bool no_symbols; /* leave native frames as module offsets; read no other file */
};

/*
 * Reads a profile, or a heap dump of jemalloc ("heap_v2"), recognised by its first line; native
 * frames are resolved from the modules' symbol tables. Release it with flmem_heap_profile_free().
 * FLMEM_EUSAGE: not a profile, another version, too damaged to use, or a requested round that the
 * file lacks. FLMEM_EFAILED: reading failed.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_profile_read(const struct flmem_heap_request *request,
						       struct flmem_heap_profile **ret_profile,
						       struct flmem_error *err);

/* The smallest and the largest round number in the file, selected or not; false: no rounds. */
FLMEM_API bool flmem_heap_rounds_span(const struct flmem_heap_profile *profile, uint64_t *ret_first,
				      uint64_t *ret_last);

/*
 * Why no amount of any measure is known (the file was cut before them), static; the other parts are
 * valid. NULL: amounts are known.
 */
FLMEM_API const char *flmem_heap_lacks_amounts(const struct flmem_heap_profile *profile);

/* Buffer size for flmem_heap_cut_text(). */
#define FLMEM_HEAP_CUT_TEXT_MAX 320

/* How a cut profile was damaged: "is truncated"; static. */
FLMEM_API const char *flmem_heap_cut_name(const struct flmem_heap_profile *profile);

/*
 * Which parts of a cut profile are complete and which are not: "its amounts are whole; it lacks all
 * or some of: memory over time". Returns `out`.
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
 * ("<string>", frozen modules) is skipped. FLMEM_HEAP_NO_FRAME: none, or a frame with an unknown
 * file comes first.
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
 * The standard error of live bytes, from the live samples. With ten samples or more, the true value
 * is within one standard error in about two thirds of cases and within two in 95 %. It does not
 * cover the chance that decides which line needs a new arena.
 */
FLMEM_API struct flmem_u64 flmem_heap_live_error(const struct flmem_heap_profile *profile,
						 double live_variance);

enum flmem_heap_key {
	FLMEM_HEAP_BY_LINE,	/* function, file and line */
	FLMEM_HEAP_BY_FUNCTION, /* function and file */
	/* The same, but native code counts as part of the Python function that called it. */
	FLMEM_HEAP_BY_PYTHON_FUNCTION,
};

#define FLMEM_HEAP_NO_FRAME UINT32_MAX

/* Sum of all stacks at one place of the program. */
struct flmem_heap_row {
	/*
	 * The frame with most of the total; FLMEM_HEAP_NO_FRAME: stacks without frames of this
	 * kind.
	 */
	uint32_t frame;
	struct flmem_heap_amounts own;	 /* allocated there */
	struct flmem_heap_amounts total; /* also in callees, recursion counted once */
	/* The program's own line (flmem_heap_own_frame()) with most of `own`. */
	uint32_t own_frame;
	uint64_t arena_bytes; /* part of `own` in arenas, for the measure */
	double live_variance; /* of the live bytes of `own` */
	double variance;      /* of `own`, for the measure */
};

/*
 * The rows, largest own amount of `measure` first, rows without own amounts last; freed by the
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
	size_t sites_max;    /* only stacks of the largest sites, at most this many; 0: all */
	size_t branches_max; /* limit; small branches are left out; 0: none */
};

struct flmem_heap_branch {
	uint32_t node;
	uint32_t depth; /* 0: the root */
	struct flmem_heap_amounts own, total;
};

struct flmem_heap_tree {
	struct flmem_heap_branch *branches; /* the root, then depth first */
	size_t count;
	size_t left_out; /* nodes of the profile that are not in the list */
	double least;	 /* branches with a smaller share of every measure are left out */
};

/* Release with flmem_heap_tree_clear(). FLMEM_EFAILED without memory. */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_tree_make(const struct flmem_heap_profile *profile,
						    const struct flmem_heap_tree_request *request,
						    struct flmem_heap_tree *ret_tree,
						    struct flmem_error *err);
FLMEM_API void flmem_heap_tree_clear(struct flmem_heap_tree *tree);

/*
 * A stack whose live bytes keep growing. With rounds, `confidence` is that of the trend of live
 * bytes at the ends of rounds; without rounds it is lower and derived from the ages of survivors.
 */
struct flmem_heap_leak {
	uint32_t site;
	double confidence;
	double growth_bytes;	      /* per round, or per hour */
	double low_bytes, high_bytes; /* its 95 % interval; without rounds both equal the growth */
	uint64_t live_bytes;	      /* at the end of the profile */
	uint64_t grown_bytes;	      /* the same, but before the program freed memory at exit */
	struct flmem_u64 oldest_us;
	uint32_t periods, survived_in; /* rounds or time spans; number with survivors */
	/*
	 * The profile began late and RSS has not grown: the blocks may replace older ones, whose
	 * release is unknown.
	 */
	bool unconfirmed;
};

struct flmem_heap_leaks {
	struct flmem_heap_leak *rows; /* confirmed ones first, then the oldest survivors */
	size_t count;
	bool by_round;
	uint32_t periods; /* complete rounds, or time spans */
	/*
	 * Last minus first number of the complete rounds, plus 1. Exceeds `periods` if the job
	 * skipped numbers or a round has no sample. 0: no rounds.
	 */
	uint32_t round_span;
	const char *too_few; /* why nothing can be concluded, static; else NULL */
};

/*
 * Release with flmem_heap_leaks_clear(). The profile must cover all rounds. FLMEM_EUSAGE for a
 * snapshot, which cannot show growth.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_leaks_find(const struct flmem_heap_profile *profile,
						     struct flmem_heap_leaks *ret_leaks,
						     struct flmem_error *err);
/* Why nothing can be concluded about growth; static. NULL: it can. */
FLMEM_API const char *flmem_heap_leaks_too_few(const struct flmem_heap_profile *profile);
FLMEM_API void flmem_heap_leaks_clear(struct flmem_heap_leaks *leaks);

/* One place of the program in two profiles. */
struct flmem_heap_difference {
	struct flmem_heap_frame frame; /* of the second profile, else of the first */
	bool no_frame;
	/* The program's own line with most of it, from the second profile if it has one. */
	struct flmem_heap_frame own_frame;
	bool has_own_frame;
	bool own_elsewhere; /* own_frame is in another function */
	struct flmem_heap_amounts own[2];
	uint64_t arena_bytes[2]; /* part of `own` in arenas, for the measure */
	double variance[2];	 /* from the samples, for the measure */
};

struct flmem_heap_comparison {
	struct flmem_heap_difference *rows; /* the largest change of the measure first */
	size_t count;
};

/*
 * The file of the Python program: the file of the outermost frame '<module>' with the largest
 * total. NULL: none.
 */
FLMEM_API const char *flmem_heap_program_file(const struct flmem_heap_profile *profile);

/*
 * Compares functions of two profiles by name and file; the main files of the two programs count as
 * the same file. The rows refer to strings of the profiles. FLMEM_EFAILED without memory.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_heap_compare(const struct flmem_heap_profile *first,
						  const struct flmem_heap_profile *second,
						  enum flmem_heap_measure measure,
						  struct flmem_heap_comparison *ret_comparison,
						  struct flmem_error *err);
FLMEM_API void flmem_heap_comparison_clear(struct flmem_heap_comparison *comparison);

/*
 * True if a row of the comparison differs by more than two standard deviations in this measure.
 * They cover the samples and which lines need a new Python arena (docs/internals/heap-sampler.md).
 */
FLMEM_API bool flmem_heap_is_change(const struct flmem_heap_profile *const profiles[2],
				    const struct flmem_heap_difference *row,
				    enum flmem_heap_measure measure);

/* That standard deviation of the change, in bytes. */
FLMEM_API struct flmem_u64
flmem_heap_change_error(const struct flmem_heap_profile *const profiles[2],
			const struct flmem_heap_difference *row, enum flmem_heap_measure measure);
/* The same for the change of the totals, or of all Python arenas together; samples only. */
FLMEM_API struct flmem_u64
flmem_heap_total_error(const struct flmem_heap_profile *const profiles[2],
		       enum flmem_heap_measure measure, bool arenas_only);

#endif
