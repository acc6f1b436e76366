/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates where each exception of a floating-point operation, also an inexact result, raises
 * SIGFPE, and where results are rounded up. Prints whether malloc() has changed the flags or the
 * rounding.
 */
#define _GNU_SOURCE
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>

#define CALLS 20000U
#define BLOCK 65536U

int main(void)
{
	int flags;

	fesetround(FE_UPWARD);
	feclearexcept(FE_ALL_EXCEPT);
	feenableexcept(FE_ALL_EXCEPT);
	for (unsigned i = 0; i < CALLS; i++) {
		void *volatile block = malloc(BLOCK);

		free(block);
	}
	flags = fetestexcept(FE_ALL_EXCEPT);
	fedisableexcept(FE_ALL_EXCEPT);
	puts(flags || fegetround() != FE_UPWARD ? "changed" : "unchanged");
	return 0;
}
