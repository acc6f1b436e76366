/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROCESS_REPORT_H
#define FLMEM_PROCESS_REPORT_H

/*
 * What flmem/detect.h reports about a process: its allocators, the state of their heaps, its kinds
 * of memory, settings and limits. Sizes are in bytes; what could not be read is unknown, with the
 * reason, and never 0.
 *
 * Strings belong to the report unless they are said to be static. Everything in it comes from the
 * target and is untrusted text: escape before printing. Secrets are redacted already.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>
#include <flmem/roles.h>
#include <flmem/value.h>
#include <flmem/verdict.h>
#include <flmem/visibility.h>

/* How an allocator came into the process. */
enum flmem_linkage {
	FLMEM_LINKAGE_SHARED = 1,
	FLMEM_LINKAGE_STATIC,
};

/*
 * As it was when the heap had been read. Memory given back lazily (MADV_FREE) is looked for only
 * where an allocator may have left some that it does not count itself.
 */
struct flmem_memory_report {
	struct flmem_u64 rss_bytes;   /* VmRSS */
	struct flmem_u64 anon_bytes;  /* RssAnon */
	struct flmem_u64 file_bytes;  /* RssFile */
	struct flmem_u64 shmem_bytes; /* RssShmem */
	struct flmem_u64 swap_bytes;  /* VmSwap */
	struct flmem_u64 thp_bytes;   /* anonymous memory in transparent huge pages */
	struct flmem_u64 lazy_bytes;  /* of anon: free, the kernel takes it when memory is short */
	struct flmem_u64 drift_bytes; /* RSS changed by so much while the heap was read */
};

/* A figure under the name that an allocator itself has for it; static text. */
struct flmem_figure {
	const char *name;
	struct flmem_u64 bytes;
};

#define FLMEM_OWN_FIGURES_MAX 12

/* One of the arenas that an allocator shares its memory out to; what is not trimmable stays. */
struct flmem_arena_report {
	uint64_t number; /* the allocator's own; glibc: by the ring that main_arena begins */
	struct flmem_u64 threads; /* that take their memory from it */
	uint64_t resident_bytes;
	uint64_t trimmable_bytes; /* of that: `flmem trim` returns it */
};

#define FLMEM_ARENA_REPORTS_MAX 64

/* Arenas that were never used are left out; of many, those with high numbers. */
struct flmem_arena_list {
	const char *unknown; /* static: why there is none, or NULL */
	size_t count;
	struct flmem_arena_report rows[FLMEM_ARENA_REPORTS_MAX];
};

/*
 * State of the heap. All sizes are of resident memory unless said otherwise, so
 * in_use + cached + free_resident + metadata = resident, and trimmable + pinned = free_resident.
 *
 * jemalloc: trimmable is its dirty and muzzy pages, also those whose decay is not due yet, since a
 * trim purges them at once; decaying are the dirty ones where a background thread of its own sees
 * to that; cached is what its thread caches hold. It and tcmalloc count pages that the program
 * allocated and never touched as resident. google/tcmalloc: cached are its free pages too, of which
 * it returns what it chooses to.
 */
struct flmem_heap_report {
	struct flmem_u64 resident_bytes;      /* all that the allocator keeps resident */
	struct flmem_u64 in_use_bytes;	      /* the program holds it; mmapped blocks included */
	struct flmem_u64 cached_bytes;	      /* freed, kept for the next malloc of one thread */
	struct flmem_u64 free_resident_bytes; /* free in the allocator's own books */
	struct flmem_u64 trimmable_bytes;     /* of that: `flmem trim` returns it */
	struct flmem_u64 decaying_bytes;      /* of that: goes back by itself before long */
	struct flmem_u64 pinned_bytes;	      /* of free: held by live neighbours or unreachable */
	struct flmem_u64 metadata_bytes;      /* the allocator's own structures, 0: within in_use */
	struct flmem_u64 mmapped_bytes;	      /* of in_use: blocks with a mapping of their own */
	struct flmem_u64 free_bytes;	      /* free, resident or not */
	struct flmem_u64 arenas;	      /* count */
	struct flmem_u64 error_bytes; /* no figure above is further off than this; 0: exact */
	const char *how; /* static: "walked", "sampled", "asked", "unused"; NULL: not read */
	/* In force now, of the allocators that have such a thing. */
	struct flmem_u64 trim_threshold_bytes;
	struct flmem_u64 mmap_threshold_bytes;
	struct flmem_u64 arena_max;	   /* 0: chosen by the allocator */
	struct flmem_u64 threshold_raised; /* 1: freeing a mmapped block has raised them */
	/* Of allocators that were asked: what they call their own figures ("active", "dirty"). */
	struct flmem_figure own[FLMEM_OWN_FIGURES_MAX];
	size_t own_count;
	struct flmem_arena_list arena_list;
};

/* Every field unknown for one reason. */
/* For reading the heaps of one process, in microseconds, unless the caller says otherwise. */
#define FLMEM_DETECT_BUDGET_US_DEFAULT 1000000U

#define FLMEM_HEAP_UNKNOWN(reason)                             \
	((struct flmem_heap_report){                           \
		.resident_bytes = {.unknown = (reason)},       \
		.in_use_bytes = {.unknown = (reason)},         \
		.cached_bytes = {.unknown = (reason)},         \
		.free_resident_bytes = {.unknown = (reason)},  \
		.trimmable_bytes = {.unknown = (reason)},      \
		.decaying_bytes = {.unknown = (reason)},       \
		.pinned_bytes = {.unknown = (reason)},         \
		.metadata_bytes = {.unknown = (reason)},       \
		.mmapped_bytes = {.unknown = (reason)},        \
		.free_bytes = {.unknown = (reason)},           \
		.arenas = {.unknown = (reason)},               \
		.error_bytes = {.unknown = (reason)},          \
		.trim_threshold_bytes = {.unknown = (reason)}, \
		.mmap_threshold_bytes = {.unknown = (reason)}, \
		.arena_max = {.unknown = (reason)},            \
		.threshold_raised = {.unknown = (reason)},     \
		.arena_list = {.unknown = (reason)},           \
	})

struct flmem_allocator_report {
	enum flmem_allocator_kind kind;
	char *version; /* "2.36", "5.3.0-0-g54eaed1"; NULL: could not be told */
	enum flmem_linkage linkage;
	char *path;	      /* file it lives in, as the process sees it */
	char *prefix;	      /* of its symbols: "", "je_", "_rjem_"; NULL: could not be told */
	bool serves_malloc;   /* the one that plain malloc reaches */
	bool answers;	      /* flmem_detect_options.ask can make it tell its state */
	const char *evidence; /* static text: how it was recognised */
	struct flmem_heap_report heap;
};

/* What pages that are not anonymous belong to. X(NAME, text) */
#define FLMEM_BACKINGS(X) \
	X(FILE, "file")   \
	X(TMPFS, "tmpfs") \
	X(MEMFD, "memfd") \
	X(SYSV, "sysv")   \
	X(SHARED_ANONYMOUS, "shared-anonymous")

enum flmem_backing_kind {
#define FLMEM_BACKING_ENUM(name, text) FLMEM_BACKING_##name,
	FLMEM_BACKINGS(FLMEM_BACKING_ENUM)
#undef FLMEM_BACKING_ENUM
};

/* "file", ...; never NULL. */
FLMEM_API const char *flmem_backing_name(enum flmem_backing_kind kind);

/* A file or a piece of shared memory that the process maps. */
struct flmem_backing_report {
	enum flmem_backing_kind kind;
	char *name; /* as /proc/PID/maps shows it */
	uint64_t mapped_bytes;
	uint64_t resident_bytes; /* in this process; pages it has copied for itself not counted */
};

#define FLMEM_BACKINGS_MAX 16 /* the largest ones are reported */

/* What became of asking allocators for their state on a borrowed thread. */
struct flmem_asked {
	bool tried;	     /* false: not asked for, or there is none to ask */
	int code;	     /* 0, or the negative enum flmem_code that `reason` explains */
	pid_t thread;	     /* the last one that was borrowed */
	uint64_t stopped_us; /* it did not run the program for so long */
	char reason[FLMEM_ERROR_MESSAGE_MAX];
};

/*
 * Memory for CUDA. The driver tells the first; the rest is PyTorch's own account, of all devices
 * together, which it gives only when it is asked. 0 where the process uses no GPU.
 */
struct flmem_cuda_report {
	struct flmem_u64 used_bytes;	       /* of the GPUs */
	struct flmem_u64 reserved_bytes;       /* of that: by PyTorch's caching allocator */
	struct flmem_u64 allocated_bytes;      /* of reserved: by tensors */
	struct flmem_u64 inactive_split_bytes; /* of reserved: free, but not to be given back */
	struct flmem_u64 pinned_bytes;	       /* page-locked host memory that PyTorch keeps */
	struct flmem_u64 pinned_active_bytes;  /* of pinned: handed out */
};

struct flmem_setting_report {
	char *name;
	char *value;	    /* redacted where secret */
	const char *source; /* static: "environment", ... */
};

/* The CPython interpreter of a process. */
struct flmem_python_report {
	char *version;	     /* "3.11", "3.11.2", "" when it could not be told; NULL: none found */
	const char *unknown; /* static: why none could be looked for, or NULL */
	/* Its own arenas for small objects (pymalloc); used + free = arenas_bytes. */
	struct flmem_u64 arenas;       /* count */
	struct flmem_u64 arenas_bytes; /* resident */
	struct flmem_u64 used_bytes;   /* blocks in use, and what headers and rounding take */
	struct flmem_u64 free_bytes;   /* for more small objects, of no use to others */
	struct flmem_u64 error_bytes;  /* used and free are no further off; 0: exact */
	/* At the instant it was read. */
	struct flmem_u64 threads;    /* that have run Python code and may again */
	struct flmem_u64 gil_held;   /* 1: a thread holds the interpreter's lock */
	pid_t gil_holder;	     /* that thread; 0: none, or it could not be told */
	struct flmem_u64 finalizing; /* 1: the interpreter is ending */
};

struct flmem_limit_report {
	struct flmem_u64 cgroup_max_bytes; /* lowest memory limit on the way up to the root */
	struct flmem_u64 headroom_bytes;   /* that limit less its cgroup's use */
};

struct flmem_process_report {
	pid_t pid;
	uint64_t start_time; /* clock ticks after boot */
	char *command;	     /* command line joined by spaces, redacted */
	enum flmem_framework framework;
	enum flmem_role role;
	const char *part; /* static: what the framework itself calls such a process, or NULL */
	char *site;	  /* site or client name that the framework gives it, or NULL */
	struct flmem_allocator_report *allocators;
	size_t allocator_count;
	struct flmem_memory_report memory;
	struct flmem_heap_report heap; /* of all its allocators together */
	struct flmem_asked asked;
	struct flmem_python_report python;
	struct flmem_backing_report *backings; /* the most resident first */
	size_t backing_count;
	const char *backings_unknown; /* static: why there are none, or NULL */
	struct flmem_cuda_report cuda;
	struct flmem_setting_report *settings;
	size_t setting_count;
	struct flmem_limit_report limit;
	/* 1: what it puts into TMPDIR, or /tmp, is kept in memory. Of NVFlare's servers only. */
	struct flmem_u64 temporary_in_memory;
	struct flmem_verdict verdict;
	const char *allocators_unknown; /* static: why `allocators` is empty, or NULL */
	const char *settings_unknown;	/* static: why `settings` could not be read, or NULL */
	const char *denied_why; /* static: what keeps the caller from reading its memory, or NULL */
	const char *denied_how; /* static: how to open it */
};

#endif
