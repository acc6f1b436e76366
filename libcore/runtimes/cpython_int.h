/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_INT_H
#define FLMEM_RUNTIMES_CPYTHON_INT_H

/* Evaluates Python's int() of a text, by which frameworks read their environment variables. */

#include <stdbool.h>
#include <stdint.h>

enum flmem_python_int {
	FLMEM_PYTHON_INT_VALID,
	FLMEM_PYTHON_INT_INVALID,   /* int() raises ValueError */
	FLMEM_PYTHON_INT_UNDECIDED, /* not ASCII: int() also takes digits of other scripts */
};

/*
 * Parses a text. Numbers beyond 64 bits become INT64_MIN or INT64_MAX. *ret_value is set if the
 * result is valid.
 */
enum flmem_python_int flmem_python_int_parse(const char *text, int64_t *ret_value);

#endif
