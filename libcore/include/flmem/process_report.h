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
 * Memory of the process after the read of its heaps. Lazily freed memory (MADV_FREE) is determined
 * only for allocators that may have some and do not count it themselves.
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
		/* Part of anon: freed; the kernel takes it back under memory pressure. */
		madv_free_bytes;
	struct flmem_u64 drift_bytes; /* change of RSS while the heap was read */
};

/* A figure under the allocator's own name, which is static text. */
struct flmem_figure {
	const char *name;
	struct flmem_u64 bytes;
};

#define FLMEM_OWN_FIGURES_MAX 12

/* One arena of an allocator; memory that is not trimmable stays. */
struct flmem_arena_report {
	/* Number that the allocator gives it; glibc: position in the list from main_arena. */
	uint64_t number;
	struct flmem_u64 threads; /* number of threads that allocate from the arena */
	uint64_t resident_bytes;
	uint64_t trimmable_bytes; /* part of resident_bytes that `flmem trim` returns */
};

#define FLMEM_ARENA_REPORTS_MAX 64

/*
 * The arenas of an allocator. Unused ones are omitted, and of more than FLMEM_ARENA_REPORTS_MAX
 * those with the highest numbers.
 */
struct flmem_arena_list {
	const char *unknown; /* static: why the list is empty, or NULL */
	size_t count;
	struct flmem_arena_report rows[FLMEM_ARENA_REPORTS_MAX];
};

/*
 * State of the heap. All sizes are of resident memory unless stated otherwise, so in_use + cached +
 * free_resident + metadata = resident, and trimmable + pinned = free_resident.
 *
 * jemalloc: trimmable are the dirty and muzzy pages, also before their decay is due, since a trim
 * purges them immediately; decaying are the dirty pages if jemalloc has a background thread; cached
 * are the contents of thread caches. jemalloc and tcmalloc count allocated but untouched pages as
 * resident. google/tcmalloc: cached includes its free pages; it decides how many of them it
 * releases.
 */
struct flmem_heap_report {
	struct flmem_u64 resident_bytes; /* all resident memory of the allocator */
	struct flmem_u64 in_use_bytes;	 /* allocated by the program; mmapped blocks included */
	struct flmem_u64 cached_bytes;	 /* freed, in thread caches */
	struct flmem_u64 free_resident_bytes; /* free according to the allocator */
	struct flmem_u64 trimmable_bytes;     /* part of free_resident that `flmem trim` returns */
	/* Part of trimmable that the allocator itself releases soon. */
	struct flmem_u64 decaying_bytes;
	/* Part of free_resident between live blocks or out of a trim's reach. */
	struct flmem_u64 pinned_bytes;
	/* The allocator's own structures; 0: counted within in_use. */
	struct flmem_u64 metadata_bytes;
	struct flmem_u64 mmapped_bytes; /* part of in_use: blocks with a separate mapping */
	struct flmem_u64 free_bytes;	/* free memory, resident or not */
	struct flmem_u64 arenas;	/* number of arenas */
	struct flmem_u64 error_bytes;	/* maximum error of the figures above; 0: exact */
	/* Static: "walked", "sampled", "queried" or "unused"; NULL: heap not read. */
	const char *method;
	/* Settings in force now; unknown for allocators that do not have them. */
	struct flmem_u64 trim_threshold_bytes;
	struct flmem_u64 mmap_threshold_bytes;
	struct flmem_u64 arena_max; /* 0: chosen by the allocator */
	/* 1: the program raised both thresholds by freeing an mmapped block. */
	struct flmem_u64 threshold_raised;
	/* Figures of queried allocators under the allocator's own names ("active", "dirty"). */
	struct flmem_figure own[FLMEM_OWN_FIGURES_MAX];
	size_t own_count;
	struct flmem_arena_list arena_list;
};

/* Default time limit for reading the heaps of one process, in microseconds. */
#define FLMEM_DETECT_BUDGET_US_DEFAULT 1000000U

/* A heap report whose fields are all unknown for one reason. */
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
	char *path;	      /* path of the file, as the process sees it */
	char *prefix;	      /* prefix of its symbols: "", "je_", "_rjem_"; NULL: unknown */
	bool serves_malloc;   /* plain malloc calls it */
	bool answers;	      /* flmem can query it (flmem_detect_options.ask) */
	const char *evidence; /* how flmem recognised it; static text */
	struct flmem_heap_report heap;
};

/* Kinds of backing of pages that are not anonymous. X(NAME, text) */
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

/* Returns the name of a kind ("file", ...); never NULL. */
FLMEM_API const char *flmem_backing_name(enum flmem_backing_kind kind);

/* A file or shared memory segment that the process maps. */
struct flmem_backing_report {
	enum flmem_backing_kind kind;
	char *name; /* name, as /proc/PID/maps shows it */
	uint64_t mapped_bytes;
	uint64_t resident_bytes; /* resident in this process, without private copies */
};

#define FLMEM_BACKINGS_MAX 16 /* most backings in a report; it has the largest */

/* Outcome of querying allocators on a borrowed thread. */
struct flmem_query_report {
	bool tried; /* false: not requested, or no allocator to query */
	int code;   /* 0, or the negative enum flmem_code that `reason` explains */
	/* A thread still makes the calls: flmem makes no more calls in this process. */
	bool unfinished;
	pid_t thread;	     /* the thread borrowed last */
	uint64_t stopped_us; /* time for which threads were borrowed */
	char reason[FLMEM_ERROR_MESSAGE_MAX];
};

/*
 * CUDA memory, of all devices together. The driver reports used_bytes; the other values come from
 * libraries in the process, and only if it is queried. 0 if the process uses no GPU.
 */
struct flmem_cuda_report {
	struct flmem_u64 used_bytes;	  /* memory of the GPUs that the process uses */
	struct flmem_u64 reserved_bytes;  /* part of used: held by PyTorch's caching allocator */
	struct flmem_u64 allocated_bytes; /* part of reserved: allocated to tensors */
	struct flmem_u64 inactive_split_bytes; /* part of reserved: free, but not releasable */
	struct flmem_u64 pinned_bytes;	       /* page-locked host memory that PyTorch keeps */
	struct flmem_u64 pinned_active_bytes;  /* part of pinned: in use */
	struct flmem_u64 cupy_bytes;	       /* kept by CuPy's default memory pool */
	struct flmem_u64 cupy_used_bytes;      /* part of cupy: allocated to arrays */
	struct flmem_u64 rmm_bytes;	       /* kept by those RMM pools that are in use */
	struct flmem_u64 pool_bytes;	       /* kept by CUDA's default stream-ordered pools */
	struct flmem_u64 pool_used_bytes;      /* part of pool: allocated */
};

/* X(FIELD): fields that a query fills, in the order of its answer. */
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
	char *value;	    /* value; secrets are redacted */
	const char *source; /* static: where the value is set: "environment", ... */
	const char *note;   /* static: why the value does not have the intended effect, or NULL */
};

/* The CPython interpreter of a process. */
struct flmem_python_report {
	char *version;	     /* "3.11", "3.11.2", "" if unknown; NULL: no interpreter found */
	const char *unknown; /* static: why the search failed, or NULL */
	/* pymalloc's arenas for small objects; used_bytes + free_bytes = arenas_bytes. */
	struct flmem_u64 arenas;       /* number of arenas */
	struct flmem_u64 arenas_bytes; /* resident memory of the arenas */
	struct flmem_u64 used_bytes;   /* blocks in use, with headers and rounding */
	struct flmem_u64 free_bytes;   /* free blocks, available for small objects only */
	struct flmem_u64 error_bytes;  /* maximum error of used_bytes and free_bytes; 0: exact */
	/* State of the interpreter at the time of the read. */
	struct flmem_u64 threads;    /* number of threads with a Python thread state */
	struct flmem_u64 gil_held;   /* 1: a thread holds the interpreter's lock */
	pid_t gil_holder;	     /* thread that holds it; 0: none or unknown */
	struct flmem_u64 finalizing; /* 1: the interpreter is ending */
};

struct flmem_limit_report {
	/* Lowest memory limit of the control groups from the process up to the root. */
	struct flmem_u64 cgroup_max_bytes;
	/* The limit in cgroup_max_bytes minus the memory that its control group uses. */
	struct flmem_u64 headroom_bytes;
	/* The process's own limits (ulimit), and the memory left below them. */
	struct flmem_u64 address_space_max_bytes; /* RLIMIT_AS, ulimit -v */
	struct flmem_u64 address_space_left_bytes;
	struct flmem_u64 data_max_bytes; /* RLIMIT_DATA, ulimit -d */
	struct flmem_u64 data_left_bytes;
};

struct flmem_process_report {
	pid_t pid;
	uint64_t start_time; /* clock ticks after boot */
	char *command;	     /* command line joined by spaces, redacted */
	enum flmem_framework framework;
	enum flmem_role role;
	const char *part; /* static: the framework's own name for this kind of process, or NULL */
	char *site;	  /* site or client name in the framework, or NULL */
	struct flmem_allocator_report *allocators;
	size_t allocator_count;
	struct flmem_memory_report memory;
	struct flmem_heap_report heap; /* sum over all allocators of the process */
	struct flmem_query_report query;
	struct flmem_python_report python;
	struct flmem_backing_report *backings; /* sorted by resident size, largest first */
	size_t backing_count;
	const char *backings_unknown; /* static: why the list could not be read, or NULL */
	struct flmem_cuda_report cuda;
	struct flmem_setting_report *settings;
	size_t setting_count;
	struct flmem_limit_report limit;
	/* 1: TMPDIR, or else /tmp, is in memory (tmpfs). Determined for NVFlare servers only. */
	struct flmem_u64 temporary_in_memory;
	struct flmem_verdict verdict;
	const char *allocators_unknown; /* static: why `allocators` is empty, or NULL */
	const char *settings_unknown;	/* static: why `settings` could not be read, or NULL */
	/* Static: why the caller cannot read the process's memory, or NULL. */
	const char *denied_why;
	const char *denied_how; /* static: how to permit the read */
	/*
	 * Why a trim would refuse the process now, from what is visible without a borrowed thread;
	 * NULL: no reason seen.
	 */
	char *trim_refused;
	int trim_refused_code; /* negative enum flmem_code of that refusal; 0: none */
	/*
	 * The flmem profile that the process is writing; "FILE": its name cannot be shown; NULL:
	 * none seen.
	 */
	char *sampled_into;
	/* The process has seccomp filters, which only a trim or its dry run evaluates. */
	bool trim_is_filtered;
};

#endif
