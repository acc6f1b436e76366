/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/sort.h>

#include <stdlib.h>

#ifdef __GLIBC__
void flmem_sort(void *rows, size_t count, size_t size,
		int (*compare)(const void *, const void *, void *), void *context)
{
	qsort_r(rows, count, size, compare, context);
}
#else
static _Thread_local int (*compare_rows)(const void *, const void *, void *);
static _Thread_local void *compare_context;

static int compare_in_context(const void *a, const void *b)
{
	return compare_rows(a, b, compare_context);
}

void flmem_sort(void *rows, size_t count, size_t size,
		int (*compare)(const void *, const void *, void *), void *context)
{
	compare_rows = compare;
	compare_context = context;
	qsort(rows, count, size, compare_in_context);
}
#endif
