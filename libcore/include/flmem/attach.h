/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ATTACH_H
#define FLMEM_ATTACH_H

/*
 * Samples the heap of a running Python process that was not prepared for it. A library is loaded
 * into it at a safe point, in a new thread. Its allocator calls are redirected to the sampler while
 * all threads run, and restored when sampling ends.
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

/* "sampler", ...; static. */
FLMEM_API const char *flmem_attach_engine_name(enum flmem_attach_engine engine);

/* How the request is delivered to the process. X(NAME, text) */
#define FLMEM_ATTACH_WAYS(X)                            \
	X(TRACING, "traced") /* on a borrowed thread */ \
	X(SOCKET, "socket")  /* of flmem start --profile-socket; no thread is borrowed */

enum flmem_attach_way {
#define FLMEM_ATTACH_WAY_ENUM(name, text) FLMEM_ATTACH_BY_##name,
	FLMEM_ATTACH_WAYS(FLMEM_ATTACH_WAY_ENUM)
#undef FLMEM_ATTACH_WAY_ENUM
};

/* "traced" or "socket"; static. */
FLMEM_API const char *flmem_attach_way_name(enum flmem_attach_way way);

struct flmem_attach_options {
	enum flmem_attach_engine engine;
	struct flmem_profile_request profile; /* without follow_children and python_allocators */
	uint64_t timeout_us;		      /* for finding a safe moment; 0: the default */
	bool assume_seccomp;		      /* as for a trim */
	bool dry_run;			      /* check everything, change nothing */
};

#define FLMEM_ATTACH_TIMEOUT_US_DEFAULT 5000000U

#define FLMEM_ATTACH_PATH_MAX 4096

/* Entries in the tables of loaded objects that refer to an allocator function. */
struct flmem_attach_entries {
	uint64_t redirected;
	uint64_t fixed;		/* pointers in data; not changed */
	uint64_t elsewhere;	/* already refer to another function */
	uint64_t unresolved;	/* not bound yet; the target is uncertain */
	uint64_t locked;	/* could not be made writable */
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
	const char *entry;		     /* static: how the code was injected, or NULL */
	pid_t thread;			     /* the borrowed thread, or 0 */
	char thread_state[64];		     /* what it was blocked in, or "" */
	struct flmem_u64 stopped_us;	     /* total time of all holds */
	struct flmem_u64 longest_stop_us;    /* the longest hold */
	unsigned stops;			     /* number of holds; threads may differ */
	/* Time for loading and redirecting, or for writing the dump; all threads run meanwhile. */
	struct flmem_u64 took_us;
	bool preloaded; /* calls reach the sampler without redirected entries */
	/*
	 * What loaded the sampler into the process: "profile-run", "profile-ready" (by flmem start)
	 * or "attach", this call or an earlier one; static. NULL: no sampler, unknown, or jemalloc.
	 */
	const char *loaded_by;
	bool deleted; /* at detach the file had been renamed, removed or truncated */
	struct flmem_attach_entries entries; /* with the sampler */
};

/*
 * Begins a profile. Refuses what a trim with Python code refuses, a process that is already
 * sampled, and a process that cannot see the file. *ret_result is filled on every return.
 *
 * With jemalloc, `profile` is empty: a call on a borrowed thread, as in a trim, sets prof.active.
 * FLMEM_EUNSUPPORTED: malloc is not jemalloc's, or it was built or started without profiling.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_profile_attach(pid_t pid,
						    const struct flmem_attach_options *options,
						    struct flmem_attach_result *ret_result,
						    struct flmem_error *err);

/*
 * Ends a profile, also if another flmem began it; the file stays, and the library stays loaded.
 * FLMEM_EUNSUPPORTED: the process is not sampled.
 *
 * With jemalloc and `profile.output`, jemalloc first writes its dump there, in a new thread;
 * if that fails, sampling continues.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_profile_detach(pid_t pid,
						    const struct flmem_attach_options *options,
						    struct flmem_attach_result *ret_result,
						    struct flmem_error *err);

/*
 * The descendant of `pid` with the most resident memory, if that is more than `pid` has; else 0. A
 * wrapper (a shell, mpirun) is rarely the process to sample. *ret_bytes: its resident memory.
 */
FLMEM_API pid_t flmem_profile_larger_child(pid_t pid, uint64_t *ret_bytes);

#endif
