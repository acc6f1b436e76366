/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TRIM_H
#define FLMEM_TRIM_H

/*
 * Returns retained memory of a live process to the kernel by calling the release function of its
 * allocator on one borrowed idle thread, while all other threads keep running. Nothing is loaded
 * into the target, no code is written, and the target stays intact if the caller is killed at any
 * time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>
#include <flmem/value.h>

/* Python code to run in a process; the bytes and the name must outlive the call. */
struct flmem_trim_code {
	const char *name; /* name of the file, for messages */
	const char *text;
	size_t length;
};

struct flmem_trim_options {
	bool dry_run; /* report the steps and the thread, change nothing */
	bool predict; /* read the heap first to fill predicted_bytes; takes up to 250 ms */
	/* Time limit for finding a safe moment and for the call; 0: the default. */
	uint64_t timeout_us;
	uint64_t settle_us;		      /* time to wait before RSS is measured again */
	const struct flmem_trim_code *python; /* code to run first, or NULL */
	bool collect; /* run Python's garbage collector before the allocator's release */
	bool cuda;    /* then release caches of device and pinned memory: PyTorch, CuPy, CUDA */
	bool lenient; /* without a Python interpreter, skip these steps instead of refusing */
	/*
	 * Assume that seccomp filters that cannot be read allow the calls, also those of Python
	 * code and finalisers.
	 */
	bool assume_seccomp;
	/* Start time of the intended process, clock ticks after boot; 0: any. */
	uint64_t start_time;
};

/*
 * Makes the kernel kill the calling process if it holds a thread of another process for more than
 * three seconds (a borrow takes about ten microseconds), because the caller was stopped or frozen
 * meanwhile; the thread then continues. For command-line tools; other programs leave it off (the
 * default).
 */
FLMEM_API void flmem_trim_limit_hold(bool limited);

#define FLMEM_TRIM_TIMEOUT_US_DEFAULT 5000000U

/*
 * Outcomes of a trim and of its steps. X(NAME, text)
 *
 * UNMEASURED: the calls were made, but the program took more memory meanwhile than they returned,
 * so that RSS does not show how much they returned.
 */
#define FLMEM_TRIM_OUTCOMES(X)           \
	X(RELEASED, "released")          \
	X(NOTHING, "nothing-to-release") \
	X(REFUSED, "refused")            \
	X(FAILED, "failed")              \
	X(PLANNED, "planned")            \
	X(SKIPPED, "skipped")            \
	X(UNMEASURED, "unmeasured")

enum flmem_trim_outcome {
#define FLMEM_TRIM_OUTCOME_ENUM(name, text) FLMEM_TRIM_##name,
	FLMEM_TRIM_OUTCOMES(FLMEM_TRIM_OUTCOME_ENUM)
#undef FLMEM_TRIM_OUTCOME_ENUM
};

/* Returns the name of an outcome ("released", ...); never NULL. */
FLMEM_API const char *flmem_trim_outcome_name(enum flmem_trim_outcome outcome);

struct flmem_trim_step {
	const char *name; /* static: "malloc_trim", "thread.tcache.flush", "arenas.purge", ... */
	enum flmem_trim_outcome outcome;
	struct flmem_u64 took_us; /* time inside the call, by the target's own clock */
	struct flmem_u64
		released_bytes; /* RSS before the step minus the lowest RSS during and after it */
	uint64_t device_bytes;	/* GPU memory that the step released */
	/* Time for which the borrowed thread did not run the program. */
	struct flmem_u64 stopped_us;
	const char *entry; /* static: how flmem injected Python code; NULL for other steps */
	/*
	 * The thread that made the call or started the thread of the code; in a dry run, that
	 * would; 0: none.
	 */
	pid_t thread;
	char thread_state[32]; /* system call that blocked that thread, or "" */
	char detail[256];      /* result of the step, or why it failed; untrusted text, or "" */
};

#define FLMEM_TRIM_STEPS_MAX 12

/* Maximum output of flmem_trim_options.python; more is cut. */
#define FLMEM_TRIM_OUTPUT_MAX 8192

struct flmem_trim_result {
	pid_t pid;
	uint64_t start_time;
	int code; /* 0 or the negative enum flmem_code that `reason` explains */
	enum flmem_trim_outcome outcome;
	char reason[FLMEM_ERROR_MESSAGE_MAX]; /* why it was refused or failed; else "" */
	char note[FLMEM_ERROR_MESSAGE_MAX];   /* note about the outcome, or "" */
	struct flmem_u64 rss_before_bytes;
	struct flmem_u64 rss_after_bytes;
	struct flmem_u64 released_bytes; /* before - after; 0 if RSS grew */
	/*
	 * `returned_bytes`: by how much RSS fell during the calls, to its lowest value: a lower
	 * bound of what they returned, unless the program itself frees memory meanwhile.
	 * `taken_bytes`: growth of RSS in addition: after - before + `returned_bytes`.
	 */
	struct flmem_u64 returned_bytes, taken_bytes;
	uint64_t device_bytes; /* GPU memory that the steps released */
	/* Predicted release, from the heap read before the trim. */
	struct flmem_u64 predicted_bytes;
	struct flmem_trim_step steps[FLMEM_TRIM_STEPS_MAX];
	size_t step_count;
	struct flmem_u64 stopped_us;  /* time for which threads were borrowed */
	struct flmem_u64 overhead_us; /* part of stopped_us outside of the calls */
	pid_t thread;		      /* the thread borrowed last; 0: none was chosen */
	/* System call that blocked that thread: "futex", "epoll_wait", ... */
	char thread_state[64];
	char output[FLMEM_TRIM_OUTPUT_MAX + 1]; /* what the Python code printed; untrusted text */
	bool output_cut; /* the Python code printed more than `output` holds */
};

/*
 * Trims one process with the requested steps, in this order: the Python code, the garbage
 * collector, the allocator, CUDA. Returns the code that is also in ret_result->code; the result is
 * filled on every return, so a refusal is a result and an error at once. FLMEM_EPERM names the gate
 * that refused, FLMEM_EUNSUPPORTED the allocator, FLMEM_EUNSAFE what made the process unsafe to
 * touch until the timeout. FLMEM_EPARTLY: some steps were refused or failed, as the steps explain;
 * the others are done.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_trim_process(pid_t pid,
						  const struct flmem_trim_options *options,
						  struct flmem_trim_result *ret_result,
						  struct flmem_error *err);

#endif
