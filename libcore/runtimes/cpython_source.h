/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_SOURCE_H
#define FLMEM_RUNTIMES_CPYTHON_SOURCE_H

/*
 * Makes the source that an interpreter runs: the caller's code inside a frame, which never raises,
 * prints nothing to the program's output, leaves no name in any of its modules, and writes the
 * result into memory at a given address. Python 3.8 to 3.15.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/text/buf.h"

struct flmem_cpython_code {
	const char *name; /* file name in messages of Python */
	const char *text;
	size_t length;
};

/* Longest code: larger code does not fit onto a thread's stack. */
#define FLMEM_CPYTHON_CODE_MAX 65536U

/* Longest output; more is cut. */
#define FLMEM_CPYTHON_OUTPUT_MAX 8192U

#define FLMEM_CPYTHON_COOKIE 8U

/*
 * Sizes of what the code writes: the cookie, the length of the text (4 bytes), its time in ns (8),
 * the text.
 */
#define FLMEM_CPYTHON_ANSWER_HEAD (FLMEM_CPYTHON_COOKIE + 4U + 8U)
#define FLMEM_CPYTHON_ANSWER_MAX  (FLMEM_CPYTHON_ANSWER_HEAD + FLMEM_CPYTHON_OUTPUT_MAX)

int flmem_cpython_cookie_make(unsigned char ret_cookie[FLMEM_CPYTHON_COOKIE],
			      struct flmem_error *err);

/*
 * Appends the source, with its NUL, for a thread that flmem started; the answer has at most
 * `output_max` bytes of text. *ret_address_at is the offset in the buffer of 16 hexadecimal digits:
 * the address for the answer.
 */
void flmem_cpython_source_wrap(const struct flmem_cpython_code *code,
			       const unsigned char cookie[FLMEM_CPYTHON_COOKIE], size_t output_max,
			       struct flmem_buf *buf, size_t *ret_address_at);

/*
 * Appends the source for the main thread of the program, which may hold the program's locks: it
 * only starts a thread that runs the code. If none can be started, the answer has the exception,
 * and the code has not run.
 */
void flmem_cpython_source_wrap_start(const struct flmem_cpython_code *code,
				     const unsigned char cookie[FLMEM_CPYTHON_COOKIE],
				     size_t output_max, struct flmem_buf *buf,
				     size_t *ret_address_at);

/* Outcome of the code; `exception` and `output` are untrusted text, owned by the answer. */
struct flmem_cpython_answer {
	char *exception;  /* "TypeError: ... (line 3)"; NULL: no exception was raised */
	char *output;	  /* what the code printed */
	bool cut;	  /* the output was longer and was cut */
	uint64_t took_ns; /* time of running the code, by the process's clock */
};

/* Parses an answer. False if the bytes are not an answer (yet), or if memory is out. */
bool flmem_cpython_answer_parse(const unsigned char *bytes, size_t length,
				const unsigned char cookie[FLMEM_CPYTHON_COOKIE],
				struct flmem_cpython_answer *ret_answer);
void flmem_cpython_answer_clear(struct flmem_cpython_answer *answer);

#endif
