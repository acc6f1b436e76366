/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses values of a foreign environment: limits of arenas, GLIBC_TUNABLES, numbers in Python's
 * form.
 */
#include <stdbool.h>

#include "allocators/glibc/glibc_arena_max.h"
#include "fuzz.h"
#include "runtimes/cpython_int.h"
#include "settings/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	uint64_t limit = 0, found = 0;
	int64_t number;
	bool valid = flmem_glibc_arena_max_parse(text, &limit);

	if (valid != (limit != 0) || limit > UINT32_MAX)
		abort();
	if (flmem_glibc_arena_max_find(text, NULL, &found) != valid || found != limit)
		abort();
	if (flmem_glibc_arena_max_find(NULL, text, &found) && !flmem_glibc_arena_max_tuned(text))
		abort();
	flmem_python_int_parse(text, &number);
	for (size_t i = 0; flmem_setting_row_at(i); i++)
		flmem_setting_problem(flmem_setting_row_at(i)->name, text);
	free(text);
	return 0;
}
