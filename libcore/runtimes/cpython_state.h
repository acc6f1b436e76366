/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_STATE_H
#define FLMEM_RUNTIMES_CPYTHON_STATE_H

/*
 * Reads the state of a live CPython from its memory, without stopping it: whether it is finalising,
 * its interpreters and threads, and which thread holds the interpreter's lock (the GIL). The parts
 * are checked against each other, so that an unknown build gives an error, not a wrong result. The
 * results are of one instant; for a stopped thread its part stays valid while it is stopped.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "base/cleanup.h"
#include "elf/view.h"
#include "runtimes/cpython.h"
#include "runtimes/cpython_layout.h"

/* Location of the state; valid as long as the process lives. */
struct flmem_cpython_place {
	struct flmem_cpython_layout layout;
	uint64_t runtime; /* address of _PyRuntime */
};

struct flmem_cpython_thread {
	uint64_t state;	  /* address of the thread's PyThreadState */
	uint64_t pointer; /* pthread_self(): the thread pointer of glibc's threads on x86-64 */
	pid_t tid;	  /* thread ID as this process sees it; 0 if unknown */
	bool main_interpreter;
	bool raising; /* an exception is being raised in it; false when unknown */
};

/* The lock of the main interpreter; sub-interpreters of 3.12 and later may have their own. */
struct flmem_cpython_gil {
	bool locked;
	bool wanted;	     /* a thread has waited for the switch interval and then requested it */
	uint64_t holder;     /* PyThreadState of the holder; 0 unless locked */
	uint64_t switches;   /* counter of changes of its holder */
	uint64_t start, end; /* addresses of the lock, with its condition variable and mutexes */
};

/* Limits that no real interpreter exceeds. */
#define FLMEM_CPYTHON_INTERPRETERS_MAX 256U
#define FLMEM_CPYTHON_THREADS_MAX      4096U

struct flmem_cpython_state {
	bool finalizing; /* Py_FinalizeEx() has begun */
	size_t interpreters;
	uint64_t main_interpreter;
	uint64_t main_pointer; /* pointer of the main thread, as in flmem_cpython_thread */
	/* Threads of all interpreters; several entries may be one thread. */
	struct flmem_cpython_thread *threads;
	size_t thread_count;
	struct flmem_cpython_gil gil;
};

/*
 * True if the interpreter's table of offsets marks it as free-threaded; releases before 3.13 have
 * none.
 */
bool flmem_cpython_is_free_threaded(const struct flmem_view *view,
				    const struct flmem_cpython *python);

/*
 * Finds the state of the interpreter that flmem_cpython_find() found. FLMEM_EUNSUPPORTED: version
 * or build unknown, or its memory does not match the file.
 */
int flmem_cpython_locate(const struct flmem_view *view, const struct flmem_cpython *python,
			 struct flmem_cpython_place *ret_place, struct flmem_error *err);

/*
 * Reads the state. FLMEM_EUNSAFE: the interpreter is not initialised (not yet, or no longer), or it
 * changed too fast to be read; FLMEM_EUNSUPPORTED: the state is inconsistent.
 */
int flmem_cpython_state_read(const struct flmem_view *view, const struct flmem_cpython_place *place,
			     struct flmem_cpython_state *ret_state, struct flmem_error *err);
void flmem_cpython_state_clear(struct flmem_cpython_state *state);

#define FLMEM_AUTO_CPYTHON_STATE FLMEM_AUTO(flmem_cpython_state_clear)

/* Reads only the lock, to watch it. Errors as by flmem_cpython_state_read(). */
int flmem_cpython_gil_read(const struct flmem_view *view, const struct flmem_cpython_place *place,
			   uint64_t main_interpreter, struct flmem_cpython_gil *ret_gil,
			   struct flmem_error *err);

/*
 * Reads only the lock of the main interpreter, however fast its threads come and go. Errors as
 * above.
 */
int flmem_cpython_main_gil_read(const struct flmem_view *view,
				const struct flmem_cpython_place *place,
				struct flmem_cpython_gil *ret_gil, struct flmem_error *err);

/* Reads only whether the interpreter is finalising, or not initialised. Errors as above. */
int flmem_cpython_finalizing_read(const struct flmem_view *view,
				  const struct flmem_cpython_place *place, bool *ret_finalizing,
				  struct flmem_error *err);

struct flmem_task_wait;

/* True for a thread that waits for this lock. */
bool flmem_cpython_gil_is_waited_for(const struct flmem_cpython_gil *gil,
				     const struct flmem_task_wait *at);

/* Returns the main thread, or NULL. */
const struct flmem_cpython_thread *
flmem_cpython_state_main(const struct flmem_cpython_state *state);

/* Returns the thread whose PyThreadState this is, or NULL. */
const struct flmem_cpython_thread *flmem_cpython_state_find(const struct flmem_cpython_state *state,
							    uint64_t thread_state);

#endif
