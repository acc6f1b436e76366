/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ATTACH_H
#define FLMEM_ATTACH_H

/*
 * Samples the heap of a running Python process that was not prepared for it. flmem loads a library
 * into the process at a safe point, in a new thread. The library redirects the process's allocator
 * calls to the sampler while all threads run, and restores them when sampling ends.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>
#include <flmem/profile.h>
#include <flmem/value.h>

/* Profiling engines. X(NAME, text) */
#define FLMEM_ATTACH_ENGINES(X) \
	X(SAMPLER, "sampler")   \
	X(JEMALLOC,             \
	  "jemalloc") /* jemalloc's own profiling, if the process was started with it enabled */

enum flmem_attach_engine {
#define FLMEM_ATTACH_ENGINE_ENUM(name, text) FLMEM_ATTACH_##name,
	FLMEM_ATTACH_ENGINES(FLMEM_ATTACH_ENGINE_ENUM)
#undef FLMEM_ATTACH_ENGINE_ENUM
};

/* Returns the name of an engine ("sampler", ...); static text. */
FLMEM_API const char *flmem_attach_engine_name(enum flmem_attach_engine engine);

/* How the request is delivered to the process. X(NAME, text) */
#define FLMEM_ATTACH_WAYS(X)                                         \
	X(TRACING, "traced") /* a borrowed thread makes the calls */ \
	X(SOCKET, "socket")  /* socket of flmem start --profile-socket; no thread is borrowed */

enum flmem_attach_way {
#define FLMEM_ATTACH_WAY_ENUM(name, text) FLMEM_ATTACH_BY_##name,
	FLMEM_ATTACH_WAYS(FLMEM_ATTACH_WAY_ENUM)
#undef FLMEM_ATTACH_WAY_ENUM
};

/* Returns the name of a way ("traced" or "socket"); static text. */
FLMEM_API const char *flmem_attach_way_name(enum flmem_attach_way way);

struct flmem_attach_options {
	enum flmem_attach_engine engine;
	/*
	 * The profile that is asked for. Its follow_children and python_allocators must be false.
	 */
	struct flmem_profile_request profile;
	uint64_t timeout_us; /* time limit for finding a safe moment; 0: the default */
	bool assume_seccomp; /* as in struct flmem_trim_options */
	bool dry_run;	     /* check everything, change nothing */
};

#define FLMEM_ATTACH_TIMEOUT_US_DEFAULT 5000000U

#define FLMEM_ATTACH_PATH_MAX 4096

/* Counts of the table entries of loaded objects that refer to an allocator function. */
struct flmem_attach_entries {
	uint64_t redirected;
	uint64_t fixed;		/* pointers in data; flmem does not change them */
	uint64_t elsewhere;	/* entries that already referred to another function */
	uint64_t unresolved;	/* entries not bound yet, whose target is uncertain */
	uint64_t locked;	/* entries that could not be made writable */
	uint64_t objects;	/* objects with entries */
	uint64_t still_loading; /* objects that were being loaded */
};

struct flmem_attach_result {
	pid_t pid;
	enum flmem_attach_engine engine;
	enum flmem_attach_way way;
	char no_socket[256]; /* why the requested socket was not used, or "" */
	int code;	     /* 0 or the negative enum flmem_code that `reason` explains */
	char reason[FLMEM_ERROR_MESSAGE_MAX];
	char profile[FLMEM_ATTACH_PATH_MAX]; /* path as the process sees it; untrusted, or "" */
	const char *entry;		     /* static: how flmem injected the code, or NULL */
	pid_t thread;			     /* the borrowed thread, or 0 */
	char thread_state[64];		     /* system call that blocked the thread, or "" */
	struct flmem_u64 stopped_us;	     /* total time for which threads were borrowed */
	struct flmem_u64 longest_stop_us;    /* the longest single borrow */
	unsigned stops;			     /* number of borrows, possibly of different threads */
	/* Time for loading and redirecting, or for writing the dump; all threads run meanwhile. */
	struct flmem_u64 took_us;
	/* The sampler was in LD_PRELOAD: calls reach it without redirected entries. */
	bool preloaded;
	/*
	 * What loaded the sampler into the process: "profile-run", "profile-ready" (flmem start) or
	 * "attach" (this call or an earlier one); static. NULL: no sampler is loaded, the loader is
	 * unknown, or the engine is jemalloc.
	 */
	const char *loaded_by;
	bool deleted; /* detach only: the profile file had been renamed, removed or truncated */
	struct flmem_attach_entries entries; /* engine FLMEM_ATTACH_SAMPLER only */
};

/*
 * Begins a profile. Refuses what a trim with Python code refuses, a process that is already
 * sampled, and a process that cannot see the file. *ret_result is filled on every return.
 *
 * With jemalloc, `profile` must be empty: a call on a borrowed thread, as in a trim, sets
 * jemalloc's prof.active. FLMEM_EUNSUPPORTED if malloc is not jemalloc's, or if jemalloc was built
 * or started without profiling.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_profile_attach(pid_t pid,
						    const struct flmem_attach_options *options,
						    struct flmem_attach_result *ret_result,
						    struct flmem_error *err);

/*
 * Ends a profile, also if another flmem began it. The file is kept and the library stays loaded.
 * *ret_result is filled on every return. FLMEM_EUNSUPPORTED if the process is not sampled.
 *
 * With jemalloc and `profile.output`, jemalloc first writes its dump to that file, in a new thread;
 * if that fails, sampling continues.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_profile_detach(pid_t pid,
						    const struct flmem_attach_options *options,
						    struct flmem_attach_result *ret_result,
						    struct flmem_error *err);

/*
 * Returns the descendant of `pid` with the most resident memory if it has more than `pid`, else 0.
 * A wrapper (a shell, mpirun) is rarely the process to sample. *ret_bytes: resident memory of the
 * returned process.
 */
FLMEM_API pid_t flmem_profile_larger_child(pid_t pid, uint64_t *ret_bytes);

#endif
