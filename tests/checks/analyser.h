/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_CHECKS_ANALYSER_H
#define FLMEM_TESTS_CHECKS_ANALYSER_H

/*
 * Included by force where clang-tidy looks: from another file it cannot see that these return what
 * is no success, and would follow paths on which a failed function's outputs are read.
 */

#include <flmem/error.h>

#define flmem_error_set(err, code, ...) ((void)flmem_error_set(err, code, __VA_ARGS__), (code))
#define flmem_error_nomem(err, ...)	((void)flmem_error_nomem(err, __VA_ARGS__), FLMEM_EFAILED)
#define flmem_error_prefix(err, code, ...) \
	((void)flmem_error_prefix(err, code, __VA_ARGS__), (code))

#endif
