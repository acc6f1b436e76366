/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_PROFILE_FORMAT_H
#define FLMEM_PRELOAD_PROFILE_FORMAT_H

/*
 * The file of a sampled heap profile (docs/internals/heap-sampler.md), version 1. The sampler maps
 * it shared and changes it in place, so that it can be read while the process runs and after a
 * SIGKILL; its length never changes. All numbers are little-endian and aligned to their size.
 *
 * Layout: a header of FLMEM_PROFILE_HEADER_SIZE bytes, then one table per section, each of
 * `capacity` records of `record_size` bytes at `offset`. A record exists when its `state` is
 * FLMEM_PROFILE_READY; it is written last. Records of the strings, frames, nodes, sites, cells,
 * rounds, threads and modules never change their place or meaning once they exist (their totals
 * grow); those of `live` come and go. Several records may describe the same string, frame, node,
 * site, (round, site), round or module when threads added it at the same moment: merge by content.
 *
 * Everything is untrusted to a reader: check every offset and every number of a record against the
 * capacity of its section.
 *
 * Bytes and counts are unbiased estimates: a sampled allocation of `size` bytes stands for
 * size / p bytes and 1 / p allocations, where p is the chance of being sampled. Counts are in units
 * of 1 / FLMEM_PROFILE_COUNT_UNIT allocation. Times are milliseconds since `start_realtime_ms`.
 */

#include <stdint.h>

#define FLMEM_PROFILE_MAGIC	   "FLMEMHP" /* 8 bytes with its NUL */
#define FLMEM_PROFILE_VERSION	   1U
#define FLMEM_PROFILE_ORDER	   0x01020304U
#define FLMEM_PROFILE_HEADER_SIZE  4096U
#define FLMEM_PROFILE_LIMIT	   (UINT64_C(64) << 20)
#define FLMEM_PROFILE_LIMIT_MIN	   (UINT64_C(1) << 20)
#define FLMEM_PROFILE_LIMIT_MAX	   (UINT64_C(4) << 30)
#define FLMEM_PROFILE_INTERVAL	   (UINT64_C(512) << 10)
#define FLMEM_PROFILE_INTERVAL_MIN UINT64_C(1)
#define FLMEM_PROFILE_INTERVAL_MAX (UINT64_C(1) << 40)
#define FLMEM_PROFILE_COUNT_UNIT   1024U
#define FLMEM_PROFILE_READY	   1U
#define FLMEM_PROFILE_NONE	   UINT32_MAX /* stands for: no module, no thread, no string */
#define FLMEM_PROFILE_ROUND_NONE   UINT32_MAX /* the round before the first announced one */
#define FLMEM_PROFILE_ROOT	   0U /* root of the tree of nodes; its record is not used */

/* This environment variable of a sampled process names the file of the process that was started. */
#define FLMEM_PROFILE_VARIABLE "FLMEM_PROFILE_FILE"
/*
 * This variable has the seccomp state of the process that starts the sampled one, as MODE:NUMBER of
 * filters (see /proc/PID/status).
 */
#define FLMEM_PROFILE_FILTERS "FLMEM_PROFILE_FILTERS"

/* X(identifier, number, text): the life of the file. */
#define FLMEM_PROFILE_PHASES(X)       \
	X(PREPARED, 0, "not started") \
	X(RUNNING, 1, "running")      \
	X(ENDED, 2, "ended")          \
	X(REFUSED, 3, "refused")

/*
 * X(identifier, number, text): why there are no Python frames. `unknown-version` and
 * `free-threaded` are refusals; the profile then has native frames only.
 */
#define FLMEM_PROFILE_PYTHONS(X)                                                 \
	X(NONE, 0, "no CPython is loaded")                                       \
	X(READ, 1, "frames are read")                                            \
	X(FREE_THREADED, 2, "CPython is built without its lock (free-threaded)") \
	X(UNKNOWN_VERSION, 3, "the layout of this CPython is not known")         \
	X(INCONSISTENT, 4, "the structures of CPython are not at the expected addresses")

/*
 * X(identifier, number, name): what could not be recorded, and how often. `nested` to `live_full`,
 * `mappings_full` and `small_stack` are lost samples: their bytes are in `lost_bytes`. The others
 * lost a detail.
 */
#define FLMEM_PROFILE_DROPS(X)                                                                    \
	X(NESTED, 0, "nested")	 /* a signal handler allocated inside the sampler */              \
	X(SCRATCH, 1, "scratch") /* more threads in the sampler than it has buffers */            \
	X(SITES_FULL, 2, "sites_full")                                                            \
	X(LIVE_FULL, 3, "live_full")                                                              \
	X(STRINGS_FULL, 4, "strings_full")                                                        \
	X(FRAMES_FULL, 5, "frames_full")                                                          \
	X(NODES_FULL, 6, "nodes_full")	 /* the stack ends early, at its outer frames */          \
	X(CELLS_FULL, 7, "cells_full")	 /* see cells_full_round */                               \
	X(ROUNDS_FULL, 8, "rounds_full") /* further rounds count in the totals only */            \
	X(THREADS_FULL, 9, "threads_full")                                                        \
	X(MODULES_FULL, 10, "modules_full")                                                       \
	X(DEEP, 11, "deep")		      /* the stack was longer than FLMEM_PROFILE_DEPTH */ \
	X(PYTHON, 12, "python")		      /* a Python frame that could not be read */         \
	X(MAPPINGS_FULL, 13, "mappings_full") /* a mapping's end would be missed */               \
	X(UNMIXED, 14, "unmixed")	      /* native frames are missing between Python ones */ \
	X(CHILDREN, 15, "children") /* with FOLLOW: child without a file; see child_error */      \
	X(SMALL_STACK, 16,                                                                        \
	  "small_stack")	/* a signal handler allocated with little of its stack left */    \
	X(UNSEEN, 17, "unseen") /* calls at the end of `attach` that did not come to the sampler */

#define FLMEM_PROFILE_DEPTH 256U /* frames of a stack; the outermost are dropped */

/* X(identifier, index, name, struct). */
#define FLMEM_PROFILE_SECTIONS(X)                            \
	X(STRINGS, 0, "strings", flmem_profile_string_block) \
	X(FRAMES, 1, "frames", flmem_profile_frame)          \
	X(NODES, 2, "nodes", flmem_profile_node)             \
	X(SITES, 3, "sites", flmem_profile_site)             \
	X(CELLS, 4, "cells", flmem_profile_cell)             \
	X(LIVE, 5, "live", flmem_profile_live)               \
	X(ROUNDS, 6, "rounds", flmem_profile_round)          \
	X(TIMELINE, 7, "timeline", flmem_profile_moment)     \
	X(THREADS, 8, "threads", flmem_profile_thread)       \
	X(MODULES, 9, "modules", flmem_profile_module)

enum flmem_profile_phase {
#define FLMEM_PROFILE_ROW(identifier, number, text) FLMEM_PROFILE_##identifier = (number),
	FLMEM_PROFILE_PHASES(FLMEM_PROFILE_ROW)
#undef FLMEM_PROFILE_ROW
};

enum flmem_profile_python {
#define FLMEM_PROFILE_ROW(identifier, number, text) FLMEM_PROFILE_PYTHON_##identifier = (number),
	FLMEM_PROFILE_PYTHONS(FLMEM_PROFILE_ROW)
#undef FLMEM_PROFILE_ROW
};

enum flmem_profile_drop {
#define FLMEM_PROFILE_ROW(identifier, number, name) FLMEM_PROFILE_DROP_##identifier = (number),
	FLMEM_PROFILE_DROPS(FLMEM_PROFILE_ROW)
#undef FLMEM_PROFILE_ROW
	FLMEM_PROFILE_DROP_SLOTS = 32,
};

enum flmem_profile_section_index {
#define FLMEM_PROFILE_ROW(identifier, index, name, type) \
	FLMEM_PROFILE_SECTION_##identifier = (index),
	FLMEM_PROFILE_SECTIONS(FLMEM_PROFILE_ROW)
#undef FLMEM_PROFILE_ROW
	FLMEM_PROFILE_SECTION_SLOTS = 16,
};

/*
 * These are the bits of flmem_profile_header.flags. The starter of the process sets those of which
 * the comment does not say that the sampler sets them.
 */
enum {
	/* Native frames are also recorded inside and between Python frames. */
	FLMEM_PROFILE_NATIVE = 1,
	FLMEM_PROFILE_FOLLOW = 2,	     /* children have their own files, FILE.PID */
	FLMEM_PROFILE_PYTHON_ALLOCATORS = 4, /* PYTHONMALLOC=malloc: small objects are sampled */
	FLMEM_PROFILE_PACED = 8, /* the interval grows where samples would take too much time */
	/*
	 * The process ran before sampling began: flmem attached to it, or it is a child of fork().
	 * Times cannot show this: a process may execute the program long after its start. In a
	 * child, the sampler sets this.
	 */
	FLMEM_PROFILE_LATE = 16,
	/*
	 * The sampler sets this: one point lies in each interval. Files without it have samples of
	 * a Poisson process.
	 */
	FLMEM_PROFILE_STRATIFIED = 32,
	/*
	 * The sampler sets this: sampling has ended because the program has restricted its system
	 * calls.
	 */
	FLMEM_PROFILE_RESTRICTED = 64,
};

struct flmem_profile_section {
	uint64_t offset;
	uint32_t record_size;
	uint32_t capacity;
	/* Number of records that may exist, from 0; a number above `capacity` means full. */
	uint32_t used;
	uint32_t reserved;
};

/* These are the totals of the process, or of a site. live = allocated - freed. */
struct flmem_profile_totals {
	uint64_t allocated_bytes;
	uint64_t allocated_count; /* the counts are in units of 1 / FLMEM_PROFILE_COUNT_UNIT */
	uint64_t freed_bytes;
	uint64_t freed_count;
	uint64_t samples;    /* number of sampled allocations */
	uint64_t peak_bytes; /* largest live bytes of the site itself */
};

struct flmem_profile_header {
	char magic[8];
	uint32_t version;
	uint32_t header_size;
	uint32_t order; /* FLMEM_PROFILE_ORDER */
	uint32_t flags;
	uint32_t phase;	   /* enum flmem_profile_phase; RUNNING without a process: it was killed */
	uint32_t sections; /* number of rows of `section` in use */
	uint64_t file_size;
	uint64_t interval_bytes; /* mean bytes between samples, as chosen */
	/* The current interval, doubled where `live` fills; weights are per sample. */
	uint64_t interval_now_bytes;
	uint32_t pid, parent_pid;   /* in the PID namespace of the process */
	uint64_t start_time_ticks;  /* start of the process, from /proc/PID/stat */
	uint64_t start_realtime_ms; /* start of the sampling, since 1970 */
	uint64_t start_boottime_ms;
	uint64_t end_ms;	   /* end of the sampling; 0: it has not ended */
	uint64_t last_ms;	   /* time of the latest sample */
	uint64_t update_begin;	   /* counts of updates that began and ended: equal and unchanged */
	uint64_t update_end;	   /* before and after a copy means that the copy is consistent */
	uint32_t exec_count;	   /* number of executed programs; each one begins the file again */
	uint32_t python_state;	   /* enum flmem_profile_python */
	uint32_t python_version;   /* PY_VERSION_HEX, such as 0x030c01f0; 0: none */
	uint32_t cells_full_round; /* index in `rounds` from which on cells are missing */
	struct flmem_profile_totals totals;
	uint64_t peak_ms;
	uint64_t peak_epoch; /* see flmem_profile_site.peak_epoch */
	uint64_t lost_bytes; /* estimated bytes of samples that belong to no site */
	/* Milliseconds between points; doubles each time a full timeline is thinned. */
	uint64_t timeline_period_ms;
	/*
	 * The current round of the process. It is stored here, 4 bytes at offset
	 * FLMEM_PROFILE_ROUND_OFFSET, by flmem profile round or by flmem_sampler_round_set() of the
	 * sampler.
	 */
	uint32_t round;
	uint32_t paced; /* maximum number of temporary doublings of `interval_now_bytes` */
	uint64_t dropped[FLMEM_PROFILE_DROP_SLOTS];
	struct flmem_profile_section section[FLMEM_PROFILE_SECTION_SLOTS];
	char program[256];	/* path of the executable, cut where it is longer */
	char command[1024];	/* command line, redacted and escaped; may be empty (children) */
	char allocator[256];	/* path of the file whose malloc() the sampler calls */
	char build[64];		/* version of the sampler */
	char refusal[256];	/* the reason where phase is REFUSED */
	uint32_t child_error;	/* errno: why the latest child counted in `dropped` has no file */
	uint32_t pid_namespace; /* inode of the PID namespace of `pid`; 0: not known */
};

#define FLMEM_PROFILE_ROUND_OFFSET 216U

/*
 * Strings are referred to by the index of their first block: `length` bytes (UTF-8 where it was
 * Unicode; paths are bytes) from `bytes` on, across the following blocks. Only the first block has
 * a state; `blocks` is the number of them all. Cut at FLMEM_PROFILE_STRING_MAX bytes.
 */
struct flmem_profile_string_block {
	uint32_t state;
	uint16_t length;
	uint16_t blocks;
	char bytes[24];
};

#define FLMEM_PROFILE_STRING_MAX 1000U

enum flmem_profile_frame_kind {
	FLMEM_PROFILE_FRAME_PYTHON = 1,
	FLMEM_PROFILE_FRAME_NATIVE = 2,
};

struct flmem_profile_frame {
	uint32_t state;
	uint32_t kind;
	/*
	 * Python only: the strings of the qualified name (3.11 and later, else the name) and of the
	 * file.
	 */
	uint32_t function;
	uint32_t file;
	uint32_t line;	     /* line of the call; 0: not known */
	uint32_t first_line; /* first line of the function */
	/* Native only: the return address (the call is before it), and its module or NONE. */
	uint64_t address;
	uint32_t module;
	uint32_t reserved;
};

/*
 * A node stands for a stack: `frame` is its innermost frame, and `parent` is the node of its
 * caller. The outermost frames have the parent ROOT.
 */
struct flmem_profile_node {
	uint32_t state;
	uint32_t parent;
	uint32_t frame;
	uint32_t depth; /* number of frames; 1: a child of ROOT */
};

/* X(identifier, number, name): what allocated. */
#define FLMEM_PROFILE_KINDS(X) \
	X(HEAP, 0, "heap")     \
	X(MAPPING, 1, "mapping")

enum flmem_profile_kind {
#define FLMEM_PROFILE_ROW(identifier, number, name) FLMEM_PROFILE_##identifier = (number),
	FLMEM_PROFILE_KINDS(FLMEM_PROFILE_ROW)
#undef FLMEM_PROFILE_ROW
};

/*
 * A stack that allocated, with one kind of allocation.
 *
 * Live bytes at the peak of the process: `live_at_peak_bytes` where peak_epoch equals that of the
 * header, else allocated - freed (the site has not changed since the peak).
 */
struct flmem_profile_site {
	uint32_t state;
	uint32_t node;
	uint32_t kind;
	uint32_t reserved;
	struct flmem_profile_totals totals;
	uint64_t peak_epoch;
	uint64_t live_at_peak_bytes;
	uint64_t first_ms, last_ms; /* times of the first and the latest sample of the site */
};

/*
 * A cell has what a site did during a round; without a cell, it did nothing. What was live at the
 * end of round r is the sum of allocated - freed over the rounds that began up to r, in the order
 * of `rounds` (by start_ms). The peak of a site within a round is the larger of peak_bytes and what
 * was live when the round began. The peak of the whole process within a round is in `rounds`; how
 * that divides into sites is not recorded.
 */
struct flmem_profile_cell {
	uint32_t state;
	uint32_t site;
	uint32_t round;
	uint32_t reserved;
	uint64_t allocated_bytes, allocated_count;
	/* What was freed during the round, whenever it was allocated. */
	uint64_t freed_bytes, freed_count;
	uint64_t peak_bytes; /* largest live bytes of the site after an update */
};

/* The first sample of a round makes its record; ROUND_NONE has one, too. */
struct flmem_profile_round {
	uint32_t state;
	uint32_t round;
	uint64_t start_ms;
	uint64_t allocated_bytes, allocated_count;
	uint64_t freed_bytes, freed_count;
	uint64_t peak_bytes; /* largest live bytes of the process during the round */
	uint64_t peak_ms;
};

/*
 * A record of this kind is a sampled allocation that has not been freed. `state` is 0 once it is
 * freed.
 */
struct flmem_profile_live {
	uint32_t state;
	uint32_t site;
	uint64_t address_hash; /* hash; within a process, equal addresses have equal hashes */
	uint64_t size;	       /* bytes, as requested */
	uint64_t weight_bytes; /* bytes that the sample stands for */
	uint64_t weight_count;
	uint64_t time_ms;
	uint32_t thread; /* index in `threads`, or NONE */
	uint32_t round;
};

/*
 * This is one point of the timeline. Points are unordered while the timeline is thinned: sort by
 * time_ms.
 */
struct flmem_profile_moment {
	uint32_t state;
	uint32_t round;
	uint64_t time_ms;
	uint64_t rss_bytes; /* RSS of the process; 0: not known */
	uint64_t live_bytes;
	uint64_t allocated_bytes;
};

struct flmem_profile_thread {
	uint32_t state;
	uint32_t tid;
	uint64_t first_ms; /* time of the first sample of the thread */
	char name[16];
};

struct flmem_profile_module {
	uint32_t state;
	uint32_t path;	     /* string of the path, or NONE */
	uint64_t start, end; /* addresses at which the file is mapped */
	uint64_t bias;	     /* address in memory minus address in the file */
	uint64_t first_ms;
	uint32_t build_id_size;
	unsigned char build_id[36];
};

_Static_assert(sizeof(struct flmem_profile_header) <= FLMEM_PROFILE_HEADER_SIZE, "header");
_Static_assert(__builtin_offsetof(struct flmem_profile_header, round) == FLMEM_PROFILE_ROUND_OFFSET,
	       "round");
_Static_assert(sizeof(struct flmem_profile_string_block) == 32, "string block");
_Static_assert(sizeof(struct flmem_profile_frame) == 40, "frame");
_Static_assert(sizeof(struct flmem_profile_node) == 16, "node");
_Static_assert(sizeof(struct flmem_profile_site) == 96, "site");
_Static_assert(sizeof(struct flmem_profile_cell) == 56, "cell");
_Static_assert(sizeof(struct flmem_profile_round) == 64, "round");
_Static_assert(sizeof(struct flmem_profile_live) == 56, "live");
_Static_assert(sizeof(struct flmem_profile_moment) == 40, "moment");
_Static_assert(sizeof(struct flmem_profile_thread) == 32, "thread");
_Static_assert(sizeof(struct flmem_profile_module) == 80, "module");

#endif
