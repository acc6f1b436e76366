/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_CROSS_CHECKED_H
#define FLMEM_TESTS_CROSS_CHECKED_H

/* Checks for programs that run under an emulator, where cmocka is not at hand. */

#include <stdio.h>

static int failures;

#define CHECK(condition)                                                       \
	do {                                                                   \
		if (!(condition)) {                                            \
			printf("FAILED: line %d: %s\n", __LINE__, #condition); \
			failures++;                                            \
		}                                                              \
	} while (0)

#endif
