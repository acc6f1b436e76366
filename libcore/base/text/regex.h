/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_REGEX_H
#define FLMEM_BASE_REGEX_H

/*
 * Regular expressions from users: POSIX extended ones, in which \d and \D also mean a digit and no
 * digit, as in most other languages. regcomp(3) takes \d for the letter d, which then never
 * matches.
 */

#include <regex.h>

#include <flmem/error.h>

/*
 * Compiles an expression. `what` names it in the error, FLMEM_EUSAGE. The caller releases it with
 * regfree().
 */
int flmem_regex_compile(const char *pattern, int flags, const char *what, regex_t *ret_regex,
			struct flmem_error *err);

#endif
