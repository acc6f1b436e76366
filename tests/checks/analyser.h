/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_CHECKS_ANALYSER_H
#define FLMEM_TESTS_CHECKS_ANALYSER_H

/*
 * Included in each file that clang-tidy analyses. It declares which functions never return success:
 * from another file clang-tidy cannot see that, and would follow paths on which the outputs of a
 * failed function are read.
 */

#include <flmem/error.h>

#define flmem_error_set(err, code, ...) ((void)flmem_error_set(err, code, __VA_ARGS__), (code))
#define flmem_error_nomem(err, ...)	((void)flmem_error_nomem(err, __VA_ARGS__), FLMEM_EFAILED)
#define flmem_error_prefix(err, code, ...) \
	((void)flmem_error_prefix(err, code, __VA_ARGS__), (code))

#endif
