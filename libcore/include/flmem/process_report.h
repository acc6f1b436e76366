/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROCESS_REPORT_H
#define FLMEM_PROCESS_REPORT_H

/*
 * Report of flmem/detect.h about a process: its allocators, the state of their heaps, its kinds of
 * memory, settings and limits. Sizes are in bytes; unreadable values are unknown with a reason,
 * never 0.
 *
 * The report owns its strings unless they are marked static. All texts come from the target and are
 * untrusted: escape before printing. Secrets are already redacted.
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

/* How an allocator is linked. */
enum flmem_linkage {
	FLMEM_LINKAGE_SHARED = 1,
	FLMEM_LINKAGE_STATIC,
};

/*
 * State after the heap was read. Lazily freed memory (MADV_FREE) is determined only for allocators
 * that may have some and do not count it themselves.
 */
struct flmem_memory_report {
	struct flmem_u64 rss_bytes;	/* VmRSS */
	struct flmem_u64 anon_bytes;	/* RssAnon */
	struct flmem_u64 file_bytes;	/* RssFile */
	struct flmem_u64 shmem_bytes;	/* RssShmem */
	struct flmem_u64 swap_bytes;	/* VmSwap */
	struct flmem_u64 hugetlb_bytes; /* HugetlbPages; not in RSS */
	struct flmem_u64 thp_bytes;	/* anonymous memory in transparent huge pages */
	struct flmem_u64
		madv_free_bytes; /* of anon: free; the kernel reclaims it under memory pressure */
	struct flmem_u64 drift_bytes; /* change of RSS while the heap was read */
};

/* A figure under the allocator's own name; static text. */
struct flmem_figure {
	const char *name;
	struct flmem_u64 bytes;
};

#define FLMEM_OWN_FIGURES_MAX 12

/* One arena of an allocator; memory that is not trimmable stays. */
struct flmem_arena_report {
	uint64_t number; /* the allocator's numbering; glibc: order of the list from main_arena */
	struct flmem_u64 threads; /* threads that allocate from it */
	uint64_t resident_bytes;
	uint64_t trimmable_bytes; /* of that: `flmem trim` returns it */
};

#define FLMEM_ARENA_REPORTS_MAX 64

/* Unused arenas are omitted; of too many arenas, those with high numbers. */
struct flmem_arena_list {
	const char *unknown; /* static: reason of absence, or NULL */
	size_t count;
	struct flmem_arena_report rows[FLMEM_ARENA_REPORTS_MAX];
};

/*
 * State of the heap. All sizes are of resident memory unless said otherwise, so in_use + cached +
 * free_resident + metadata = resident, and trimmable + pinned = free_resident.
 *
 * jemalloc: trimmable are its dirty and muzzy pages, also before their decay is due, since a trim
 * purges them immediately; decaying are the dirty ones if jemalloc has a background thread; cached
 * are the contents of thread caches. jemalloc and tcmalloc count allocated but untouched pages as
 * resident. google/tcmalloc: cached includes its free pages; it decides how many of them it
 * releases.
 */
struct flmem_heap_report {
	struct flmem_u64 resident_bytes; /* all resident memory of the allocator */
	struct flmem_u64 in_use_bytes;	 /* allocated by the program; mmapped blocks included */
	struct flmem_u64 cached_bytes;	 /* freed, in thread caches */
	struct flmem_u64 free_resident_bytes; /* free according to the allocator */
	struct flmem_u64 trimmable_bytes;     /* of that: `flmem trim` returns it */
	struct flmem_u64 decaying_bytes;      /* of that: released by the allocator itself soon */
	struct flmem_u64 pinned_bytes;	      /* of free: between live blocks or unreachable */
	struct flmem_u64 metadata_bytes;      /* the allocator's own structures, 0: within in_use */
	struct flmem_u64 mmapped_bytes;	      /* of in_use: blocks with a separate mapping */
	struct flmem_u64 free_bytes;	      /* free, resident or not */
	struct flmem_u64 arenas;	      /* count */
	struct flmem_u64 error_bytes;	      /* maximum error of the figures above; 0: exact */
	const char *method; /* static: "walked", "sampled", "queried", "unused"; NULL: not read */
	/* Settings in force now; unknown for allocators without them. */
	struct flmem_u64 trim_threshold_bytes;
	struct flmem_u64 mmap_threshold_bytes;
	struct flmem_u64 arena_max;	   /* 0: chosen by the allocator */
	struct flmem_u64 threshold_raised; /* 1: raised by freeing an mmapped block */
	/* Of queried allocators: figures under their own names ("active", "dirty"). */
	struct flmem_figure own[FLMEM_OWN_FIGURES_MAX];
	size_t own_count;
	struct flmem_arena_list arena_list;
};

/* Default time limit for reading the heaps of one process, in microseconds. */
#define FLMEM_DETECT_BUDGET_US_DEFAULT 1000000U

/* Every field unknown for one reason. */
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
	char *version; /* "2.36", "5.3.0-0-g54eaed1"; NULL: unknown */
	enum flmem_linkage linkage;
	char *path;	      /* its file, as the process sees it */
	char *prefix;	      /* of its symbols: "", "je_", "_rjem_"; NULL: unknown */
	bool serves_malloc;   /* plain malloc calls it */
	bool answers;	      /* can be queried with flmem_detect_options.ask */
	const char *evidence; /* static text: how it was recognised */
	struct flmem_heap_report heap;
};

/* Backing of pages that are not anonymous. X(NAME, text) */
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

/* A file or shared memory segment that the process maps. */
struct flmem_backing_report {
	enum flmem_backing_kind kind;
	char *name; /* as /proc/PID/maps shows it */
	uint64_t mapped_bytes;
	uint64_t resident_bytes; /* in this process, without private copies */
};

#define FLMEM_BACKINGS_MAX 16 /* the largest ones are reported */

/* Outcome of querying allocators on a borrowed thread. */
struct flmem_query_report {
	bool tried;	     /* false: not requested, or no allocator to query */
	int code;	     /* 0, or the negative enum flmem_code that `reason` explains */
	bool unfinished;     /* a thread still makes the calls: flmem makes no further ones */
	pid_t thread;	     /* the thread borrowed last */
	uint64_t stopped_us; /* time for which it was borrowed */
	char reason[FLMEM_ERROR_MESSAGE_MAX];
};

/*
 * CUDA memory. The driver reports the first value; the others come from the libraries of the
 * process, for all devices together, and only if queried. 0 if the process uses no GPU.
 */
struct flmem_cuda_report {
	struct flmem_u64 used_bytes;	       /* of the GPUs */
	struct flmem_u64 reserved_bytes;       /* of that: by PyTorch's caching allocator */
	struct flmem_u64 allocated_bytes;      /* of reserved: by tensors */
	struct flmem_u64 inactive_split_bytes; /* of reserved: free, but not releasable */
	struct flmem_u64 pinned_bytes;	       /* page-locked host memory that PyTorch keeps */
	struct flmem_u64 pinned_active_bytes;  /* of pinned: handed out */
	struct flmem_u64 cupy_bytes;	       /* kept by CuPy's default memory pool */
	struct flmem_u64 cupy_used_bytes;      /* of that: by arrays */
	struct flmem_u64 rmm_bytes;	       /* kept by pools of RMM that are in use */
	struct flmem_u64 pool_bytes;	       /* kept by CUDA's default stream-ordered pools */
	struct flmem_u64 pool_used_bytes;      /* of that: allocated */
};

/* X(FIELD): what a query fills, in the order of its answer. */
#define FLMEM_CUDA_QUERIED(X)   \
	X(reserved_bytes)       \
	X(allocated_bytes)      \
	X(inactive_split_bytes) \
	X(pinned_bytes)         \
	X(pinned_active_bytes)  \
	X(cupy_bytes)           \
	X(cupy_used_bytes)      \
	X(rmm_bytes)            \
	X(pool_bytes)           \
	X(pool_used_bytes)

struct flmem_setting_report {
	char *name;
	char *value;	    /* redacted where secret */
	const char *source; /* static: "environment", ... */
	const char *note;   /* static: why the value does not do what is meant, or NULL */
};

/* The CPython interpreter of a process. */
struct flmem_python_report {
	char *version;	     /* "3.11", "3.11.2", "" if unknown; NULL: none found */
	const char *unknown; /* static: why the search failed, or NULL */
	/* Its own arenas for small objects (pymalloc); used + free = arenas_bytes. */
	struct flmem_u64 arenas;       /* count */
	struct flmem_u64 arenas_bytes; /* resident */
	struct flmem_u64 used_bytes;   /* blocks in use, with headers and rounding */
	struct flmem_u64 free_bytes;   /* available for small objects only */
	struct flmem_u64 error_bytes;  /* maximum error of used and free; 0: exact */
	/* At the time of the read: */
	struct flmem_u64 threads;    /* with a Python thread state */
	struct flmem_u64 gil_held;   /* 1: a thread holds the interpreter's lock */
	pid_t gil_holder;	     /* that thread; 0: none or unknown */
	struct flmem_u64 finalizing; /* 1: the interpreter is ending */
};

struct flmem_limit_report {
	struct flmem_u64 cgroup_max_bytes; /* lowest memory limit on the way up to the root */
	struct flmem_u64 headroom_bytes;   /* that limit less its cgroup's use */
	/* The process's own limits (ulimit), and what is left below them. */
	struct flmem_u64 address_space_max_bytes; /* RLIMIT_AS, -v */
	struct flmem_u64 address_space_left_bytes;
	struct flmem_u64 data_max_bytes; /* RLIMIT_DATA, -d */
	struct flmem_u64 data_left_bytes;
};

struct flmem_process_report {
	pid_t pid;
	uint64_t start_time; /* clock ticks after boot */
	char *command;	     /* command line joined by spaces, redacted */
	enum flmem_framework framework;
	enum flmem_role role;
	const char *part; /* static: the framework's own name of such a process, or NULL */
	char *site;	  /* site or client name of the framework, or NULL */
	struct flmem_allocator_report *allocators;
	size_t allocator_count;
	struct flmem_memory_report memory;
	struct flmem_heap_report heap; /* of all its allocators together */
	struct flmem_query_report query;
	struct flmem_python_report python;
	struct flmem_backing_report *backings; /* the most resident first */
	size_t backing_count;
	const char *backings_unknown; /* static: why there are none, or NULL */
	struct flmem_cuda_report cuda;
	struct flmem_setting_report *settings;
	size_t setting_count;
	struct flmem_limit_report limit;
	/* 1: TMPDIR, or /tmp, is in memory. For NVFlare servers only. */
	struct flmem_u64 temporary_in_memory;
	struct flmem_verdict verdict;
	const char *allocators_unknown; /* static: why `allocators` is empty, or NULL */
	const char *settings_unknown;	/* static: why `settings` could not be read, or NULL */
	const char *denied_why;		/* static: why the caller cannot read its memory, or NULL */
	const char *denied_how;		/* static: how to permit it */
	/* Why a trim would refuse the process now, as seen from outside; NULL: no reason seen. */
	char *trim_refused;
	int trim_refused_code; /* the code of that refusal, 0: none */
	/* The flmem profile that it is writing; "FILE": its name is odd; NULL: none seen. */
	char *sampled_into;
	bool trim_is_filtered; /* seccomp filters, which only a trim or its dry run evaluates */
};

#endif
