/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ERROR_H
#define FLMEM_ERROR_H

/*
 * Errors of the library.
 *
 * Every fallible function returns 0 or a negative enum flmem_code and takes a caller-owned struct
 * flmem_error as its last argument, which may be NULL. On failure the struct holds the code, the
 * errno that caused it (or 0) and one line of text: what failed, on what, why, what to do next. The
 * library never prints, exits or aborts. These functions use no shared state.
 */

#include <flmem/visibility.h>

/*
 * The table of codes: X(name, text, exit status, meaning). Exit statuses are the contract of the
 * command line; `flmem help exit-codes` prints this table. The last two are the statuses that
 * shells, env(1) and other launchers use for a command that they cannot run.
 */
#define FLMEM_CODES(X)                                                                         \
	X(FINDINGS, "findings", 1, "findings, differences, or an exceeded limit")              \
	X(USAGE, "usage", 2, "bad usage or bad input")                                         \
	X(NOPROC, "noproc", 3, "no such process")                                              \
	X(PERM, "perm", 4, "not permitted")                                                    \
	X(UNSUPPORTED, "unsupported", 5, "not supported here")                                 \
	X(UNSAFE, "unsafe", 6, "not safe now: the target, or a file in use")                   \
	X(FAILED, "failed", 7, "failed")                                                       \
	X(PARTLY, "partly", 8, "partly done: some targets or inputs failed")                   \
	X(UNDECIDED, "undecided", 9, "undecided: too little or damaged data, or a wait ended") \
	X(NOEXEC, "noexec", 126, "start: the command cannot be executed")                      \
	X(NOCOMMAND, "nocommand", 127, "start: no such command")

enum flmem_code {
	FLMEM_OK = 0,
#define FLMEM_CODE_ENUM(name, text, status, meaning) FLMEM_E##name = -(status),
	FLMEM_CODES(FLMEM_CODE_ENUM)
#undef FLMEM_CODE_ENUM
};

/* Size of a message with its NUL; in longer messages the middle of quoted names is left out. */
#define FLMEM_ERROR_MESSAGE_MAX 512

struct flmem_error {
	int code;      /* 0 or a negative enum flmem_code */
	int sys_errno; /* errno of the failed call, or 0 */
	char message[FLMEM_ERROR_MESSAGE_MAX];
};

/*
 * Fills *err (when not NULL) and returns code, so that callers can write
 * `return flmem_error_set(err, FLMEM_EPERM, errno, "cannot open '%s'", path);`.
 * A non-zero sys_errno appends ": " and its text to the message.
 */
FLMEM_API int flmem_error_set(struct flmem_error *err, int code, int sys_errno, const char *format,
			      ...) __attribute__((format(printf, 4, 5)));

/*
 * Sets the error of a failed allocation: flmem_error_set() with FLMEM_EFAILED and ENOMEM. The text
 * names what could not be done: `return flmem_error_nomem(err, "cannot follow process %d", pid);`.
 */
FLMEM_API int flmem_error_nomem(struct flmem_error *err, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Prepends "context: " to the message, sets the code and returns it. The code is passed because err
 * may be NULL. If memory for the longer text is not available, the context is left out.
 */
FLMEM_API int flmem_error_prefix(struct flmem_error *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Resets *err to no error, after the caller has handled it. */
FLMEM_API void flmem_error_clear(struct flmem_error *err);

/*
 * Returns the code for a file that could not be opened or created: FLMEM_EPERM, FLMEM_EFAILED for a
 * shortage that may pass, FLMEM_EUSAGE for an unsuitable name.
 */
FLMEM_API int flmem_code_of_open(int sys_errno);

/* Returns the exit status of a code (0 for 0). Unknown codes have that of FLMEM_EFAILED. */
FLMEM_API int flmem_code_exit_status(int code);

/* Returns the lower-case name of a code ("noproc"), for machine-readable output. Never NULL. */
FLMEM_API const char *flmem_code_name(int code);

/* Returns the meaning of an exit status (0 included), or NULL for other numbers. */
FLMEM_API const char *flmem_exit_status_meaning(int status);

#endif
