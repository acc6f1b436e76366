/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_LAYOUT_H
#define FLMEM_RUNTIMES_CPYTHON_LAYOUT_H

/*
 * The layout of CPython's state, as byte offsets on a 64-bit machine. A table here has those of 3.8
 * to 3.12; 3.13 and later have a table at the start of _PyRuntime ("xdebugpy").
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An offset that this version does not have or does not report. */
#define FLMEM_CPYTHON_NONE UINT32_MAX

struct flmem_cpython_layout {
	bool free_threaded;
	/* Offsets in _PyRuntime. */
	uint32_t initialized;	    /* int, 1 from its initialisation to its end; 0: not read */
	uint32_t finalizing;	    /* pointer, NULL until the interpreter begins to end */
	uint32_t interpreters_head; /* the newest interpreter */
	uint32_t interpreters_main;
	uint32_t runtime_gil; /* struct _gil_runtime_state; NONE: it belongs to interpreters */
	uint32_t main_thread; /* pthread_self() of the thread that handles signals */
	/* Offsets in PyInterpreterState. */
	uint32_t interpreter_next;
	uint32_t interpreter_id; /* int64_t */
	uint32_t threads_head;
	uint32_t interpreter_gil;  /* pointer to the lock, if runtime_gil is NONE */
	uint32_t drop_request;	   /* int; NONE: see eval_breaker */
	bool drop_request_runtime; /* drop_request is in _PyRuntime */
	/* Offsets in PyThreadState. */
	uint32_t thread_prev, thread_next;
	uint32_t thread_interpreter;
	uint32_t thread_pointer;   /* thread_id: pthread_self() */
	uint32_t thread_native_id; /* gettid() */
	uint32_t thread_exception; /* pointer: the exception that is being raised, if any */
	uint32_t eval_breaker;	   /* word of each thread, since 3.13; bit 0: release the lock */
	/* PyThreadState_New() creates a state, since 3.14: cpython_new_thread.c. */
	bool creates_state;
	/* Offsets for PEP 768, since 3.14. */
	uint32_t debugger_enabled; /* int in PyInterpreterState */
	uint32_t threads_main;	   /* pointer in PyInterpreterState */
	uint32_t debugger_support; /* in PyThreadState; the following two are in this structure */
	uint32_t debugger_pending; /* int */
	uint32_t debugger_path;
	uint32_t debugger_path_size;
};

/* Offsets in struct _gil_runtime_state, the same in 3.8 to 3.15 without free threading. */
enum {
	FLMEM_CPYTHON_GIL_HOLDER = 8,	 /* last_holder */
	FLMEM_CPYTHON_GIL_LOCKED = 16,	 /* int */
	FLMEM_CPYTHON_GIL_SWITCHES = 24, /* unsigned long */
	FLMEM_CPYTHON_GIL_SIZE = 208,
};

/* The longest table that is read, and the length needed to find its end. */
#define FLMEM_CPYTHON_TABLE_MAX 1024U

/* Finds the row for 3.8 to 3.12; false for other versions. */
bool flmem_cpython_layout_known(int major, int minor, struct flmem_cpython_layout *ret_layout);

/* True if the table of offsets, of any version, is that of a free-threaded build. */
bool flmem_cpython_table_is_free_threaded(const unsigned char *bytes, size_t length);

/* True if the table of offsets is of this release; its contents are not checked. */
bool flmem_cpython_table_is_of(const unsigned char *bytes, size_t length, int major, int minor);

/*
 * Parses the table that 3.13 to 3.15 have (of 3.15 final releases only); the layout of later tables
 * is unknown. `bytes` are untrusted: every offset is checked. False if it is not such a table; then
 * *ret_why (static) is the reason.
 */
bool flmem_cpython_layout_parse(const unsigned char *bytes, size_t length,
				struct flmem_cpython_layout *ret_layout, const char **ret_why);

#endif
