/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ATTACH_H
#define FLMEM_ATTACH_H

/*
 * Sampling the heap of a running Python process that was not prepared for it. A library is loaded
 * into it at a safe point, in a new thread; the calls of the allocator are redirected while
 * all threads run, and led back when sampling ends.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>
#include <flmem/profile.h>
#include <flmem/value.h>

/* What samples. X(NAME, text) */
#define FLMEM_ATTACH_ENGINES(X) \
	X(SAMPLER, "sampler")   \
	X(JEMALLOC,             \
	  "jemalloc") /* the profiling of a process's own jemalloc, where it was started so */

enum flmem_attach_engine {
#define FLMEM_ATTACH_ENGINE_ENUM(name, text) FLMEM_ATTACH_##name,
	FLMEM_ATTACH_ENGINES(FLMEM_ATTACH_ENGINE_ENUM)
#undef FLMEM_ATTACH_ENGINE_ENUM
};

/* "sampler", ...; static. */
FLMEM_API const char *flmem_attach_engine_name(enum flmem_attach_engine engine);

/* How the order comes into the process. X(NAME, text) */
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
	struct flmem_profile_request profile; /* not follow_children, not python_allocators */
	uint64_t timeout_us;		      /* for finding a safe moment; 0: the default */
	bool assume_seccomp;		      /* as for a trim */
	bool dry_run;			      /* check everything, change nothing */
};

#define FLMEM_ATTACH_TIMEOUT_US_DEFAULT 5000000U

#define FLMEM_ATTACH_PATH_MAX 4096

/* Entries of the tables of loaded objects that name an allocator function. */
struct flmem_attach_entries {
	uint64_t redirected;
	uint64_t fixed;		/* pointers in data, which stay as they are */
	uint64_t elsewhere;	/* lead to another function already */
	uint64_t unresolved;	/* are not bound yet, and it is not certain to what */
	uint64_t locked;	/* could not be made writable */
	uint64_t objects;	/* that have entries */
	uint64_t still_loading; /* objects that were just being loaded */
};

struct flmem_attach_result {
	pid_t pid;
	enum flmem_attach_engine engine;
	enum flmem_attach_way way;
	char no_socket[256]; /* why not through the socket that was asked for; or "" */
	int code;	     /* 0 or the negative enum flmem_code that `reason` explains */
	char reason[FLMEM_ERROR_MESSAGE_MAX];
	char profile[FLMEM_ATTACH_PATH_MAX]; /* as the process names it; untrusted text, or "" */
	const char *entry;		     /* static: how the code was injected, or NULL */
	pid_t thread;			     /* the borrowed thread, or 0 */
	char thread_state[64];		     /* what it was blocked in, or "" */
	struct flmem_u64 stopped_us;	  /* for how long it was borrowed, the sum of all holds */
	struct flmem_u64 longest_stop_us; /* the longest hold */
	unsigned stops;			  /* how often a thread was held, not always the same */
	/* Loading and redirecting, or writing the dump; all threads running. */
	struct flmem_u64 took_us;
	bool preloaded; /* the program calls the sampler without them */
	/*
	 * What has loaded the sampler that the process has: "profile-run", "profile-ready" (of
	 * flmem start) or "attach", also an earlier one; static. NULL: it has none, or that was not
	 * found out; with jemalloc.
	 */
	const char *loaded_by;
	bool deleted; /* at the detach the file no longer had this name, or was cut */
	struct flmem_attach_entries entries; /* with the sampler */
};

/*
 * Begins a profile. Refuses what a trim with Python code refuses, a process that is sampled
 * already, and one that does not see the file. *ret_result is filled on every return.
 *
 * With jemalloc, `profile` is empty: a call on a borrowed thread, as of a trim, sets prof.active.
 * FLMEM_EUNSUPPORTED: malloc is not jemalloc's, or it was built or started without profiling.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_profile_attach(pid_t pid,
						    const struct flmem_attach_options *options,
						    struct flmem_attach_result *ret_result,
						    struct flmem_error *err);

/*
 * Ends it, also one that another flmem began; the file stays, and the library stays loaded.
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
 * The process below `pid` that has the most resident memory, where that is more than `pid` has: a
 * wrapper, such as a shell or mpirun, is seldom the one to sample. 0: there is none.
 */
FLMEM_API pid_t flmem_profile_larger_child(pid_t pid, uint64_t *ret_bytes);

#endif
