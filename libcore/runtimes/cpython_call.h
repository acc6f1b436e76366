/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_CALL_H
#define FLMEM_RUNTIMES_CPYTHON_CALL_H

/*
 * Runs Python code in a live CPython that nobody prepared, in a thread of its own, started by a
 * blocked thread or through one of the interpreter's own entry points. It runs under the ordinary
 * rules of threads: with the interpreter's lock held; it waits for what another thread holds, while
 * the program goes on. Nothing stays behind but what the code itself leaves. What is not safe is
 * refused and never forced; code that has not ended at the timeout runs on, and that is reported.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "elf/view.h"
#include "remote/candidates.h"
#include "runtimes/cpython.h"
#include "runtimes/cpython_source.h"

/* X(NAME, text) */
#define FLMEM_CPYTHON_ENTRIES(X)    \
	X(NONE, "none")             \
	X(NEW_THREAD, "new thread") \
	X(DEBUGGER, "PEP 768")      \
	X(PENDING_CALL, "pending call")

enum flmem_cpython_entry {
#define FLMEM_CPYTHON_ENTRY_ENUM(name, text) FLMEM_CPYTHON_ENTRY_##name,
	FLMEM_CPYTHON_ENTRIES(FLMEM_CPYTHON_ENTRY_ENUM)
#undef FLMEM_CPYTHON_ENTRY_ENUM
};

const char *flmem_cpython_entry_name(enum flmem_cpython_entry entry);

struct flmem_cpython_call {
	struct flmem_cpython_code code;
	const struct flmem_guard *guard; /* of the allocators: the code allocates */
	uint64_t timeout_us;		 /* for a safe moment, and again for the code */
	bool assume_seccomp;		 /* as in struct flmem_borrow_options */
	bool dry_run;			 /* choose the entry point and touch nothing */
};

struct flmem_cpython_result {
	enum flmem_cpython_entry entry;
	pid_t tid;	       /* the thread that starts or would start the one for the code */
	const char *waited_in; /* static: what it was blocked in, or NULL */
	uint64_t late_us;      /* its timeout may end up to this much later */
	bool complete;	       /* the code ran to its end; the following hold */
	uint64_t waited_us;    /* for the interpreter's lock */
	uint64_t took_us;      /* the code itself */
	uint64_t stopped_us; /* the thread did not run the program for this long; 0: not stopped */
	struct flmem_cpython_answer answer;
};

/*
 * FLMEM_EUNSUPPORTED: no CPython from 3.8 to 3.14, or a build that cannot be read; FLMEM_EUNSAFE:
 * no entry point was safe until the timeout, nothing was touched; FLMEM_EFAILED: the code was
 * injected but did not end in time. An exception in the code is no failure of the call.
 * *ret_result is filled as far as it got, also on failure; clear it in any case.
 */
int flmem_cpython_call(const struct flmem_view *view, const struct flmem_cpython_call *call,
		       struct flmem_cpython_result *ret_result, struct flmem_error *err);
void flmem_cpython_result_clear(struct flmem_cpython_result *result);

#define FLMEM_AUTO_CPYTHON_RESULT FLMEM_AUTO(flmem_cpython_result_clear)

#endif
