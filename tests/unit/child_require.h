/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_CHILD_REQUIRE_H
#define FLMEM_TESTS_CHILD_REQUIRE_H

/*
 * Checks for a child process, in which a failed assertion of cmocka would continue with other
 * tests.
 */

#include <stdbool.h>
#include <unistd.h>

#include <cmocka.h>

static inline void child_require(bool condition, const char *text)
{
	if (condition)
		return;
	print_error("not so: %s\n", text);
	_exit(1);
}

#define REQUIRE(condition) child_require(condition, #condition)

#endif
