/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_CALL_H
#define FLMEM_RUNTIMES_CPYTHON_CALL_H

/*
 * Runs Python code in an unprepared live CPython, in a separate thread that a blocked thread
 * starts, or through one of the interpreter's entry points. The ordinary rules of threads apply:
 * the code holds the interpreter's lock and waits for locks of other threads while the program
 * continues. Only side effects of the code itself remain. Unsafe requests are refused, never
 * forced; code that has not ended at the timeout continues, which is reported.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "elf/view.h"
#include "remote/borrow.h"
#include "remote/chain.h"
#include "remote/checks/candidates.h"
#include "remote/seccomp/syscalls.h"
#include "runtimes/cpython.h"
#include "runtimes/cpython_source.h"

/* True for versions in which code can be run. */
static inline bool flmem_cpython_runs_code(unsigned major, unsigned minor)
{
	return major == 3 && minor >= 8 && minor <= 15;
}

/* Entry points. X(NAME, text) */
#define FLMEM_CPYTHON_ENTRIES(X)    \
	X(NONE, "none")             \
	X(NEW_THREAD, "new thread") \
	X(DEBUGGER, "PEP 768")

enum flmem_cpython_entry {
#define FLMEM_CPYTHON_ENTRY_ENUM(name, text) FLMEM_CPYTHON_ENTRY_##name,
	FLMEM_CPYTHON_ENTRIES(FLMEM_CPYTHON_ENTRY_ENUM)
#undef FLMEM_CPYTHON_ENTRY_ENUM
};

/*
 * Memory that a process must be able to allocate before code enters it: PyGILState_Ensure ends the
 * process when an allocation fails. The size suffices for two arenas of the C library's heap and of
 * the interpreter.
 */
#define FLMEM_CPYTHON_HEADROOM (UINT64_C(16) << 20)

const char *flmem_cpython_entry_name(enum flmem_cpython_entry entry);

/*
 * A function of the process that is called instead of Python code: in the same kind of thread, but
 * without the interpreter's lock, since it may wait for what another thread holds while that one
 * waits for the interpreter. Its first argument is the address of a copy of `text`, the second
 * `number`, or with `answer` the address of zeros that it may fill, which are copied back.
 */
struct flmem_cpython_function {
	const char *name; /* static: name for messages */
	uint64_t address; /* address of the function; 0: Python code is run */
	const char *text;
	uint64_t number;
	char *answer;
	size_t answer_size;
	/* Static: name of a function that is called afterwards with the address of the text. */
	const char *then_name;
	uint64_t then; /* its address; 0: none is called */
	/* Chain of calls to make instead, without a text; or NULL. */
	const struct flmem_chain *chain;
	/*
	 * Called right before and after the calls, to keep the process from being changed
	 * meanwhile; or NULL. `is_over` is false where the calls may still be made.
	 */
	int (*begin)(void *context, struct flmem_error *err);
	void (*end)(void *context, bool is_over);
	void *context;
};

struct flmem_cpython_call {
	struct flmem_cpython_code code;
	struct flmem_cpython_function function;
	const struct flmem_syscall_table *syscalls; /* system calls of the function; or NULL */
	const struct flmem_guard *guard; /* guard of the allocators: the code allocates */
	flmem_borrow_recheck *recheck;	 /* as in struct flmem_borrow_options */
	void *rechecker;		 /* context of `recheck` */
	uint64_t *checked_us;		 /* time of the last such check */
	uint64_t timeout_us; /* time limit for finding a safe moment, and again for the code */
	bool assume_seccomp; /* as in struct flmem_borrow_options */
	bool dry_run;	     /* choose the entry point and touch nothing */
};

struct flmem_cpython_result {
	enum flmem_cpython_entry entry;
	pid_t tid;	       /* the thread that starts, or would start, the thread for the code */
	const char *waited_in; /* static: the system call that blocked it, or NULL */
	uint64_t late_us;      /* the call's timeout may be delayed by up to this much */
	bool unfinished; /* that thread still makes the calls that start the thread for the code */
	bool complete;	 /* the code ran to its end; the following fields are valid */
	uint64_t waited_us; /* time for which the code waited for the interpreter's lock */
	uint64_t took_us;   /* time that the code itself took */
	/* Time for which the borrowed thread did not run the program; 0: not stopped. */
	uint64_t stopped_us;
	struct flmem_cpython_answer answer;
};

/* FLMEM_EUSAGE if the code is too large to be run in a process. */
int flmem_cpython_code_check(const struct flmem_cpython_code *code, struct flmem_error *err);

/*
 * Runs the code. FLMEM_EUNSUPPORTED: no CPython from 3.8 to 3.15, or a build that cannot be read;
 * FLMEM_EUNSAFE: no entry point was safe until the timeout, nothing was changed; FLMEM_EFAILED: the
 * code was injected but did not end in time. An exception in the code is not a failure of the call.
 * *ret_result is filled as far as possible, also on failure; always clear it.
 */
int flmem_cpython_call(const struct flmem_view *view, const struct flmem_cpython_call *call,
		       struct flmem_cpython_result *ret_result, struct flmem_error *err);
void flmem_cpython_result_clear(struct flmem_cpython_result *result);

#define FLMEM_AUTO_CPYTHON_RESULT FLMEM_AUTO(flmem_cpython_result_clear)

#endif
