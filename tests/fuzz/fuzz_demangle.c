/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols of C++: what comes out is short, ends, and came from somewhere. */
#include "fuzz.h"
#include "profiler/demangle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char out[FLMEM_DEMANGLED_MAX];
	char *copy = fuzz_text(data, size);

	if (flmem_demangle(copy, size, out) && (!out[0] || strlen(out) >= sizeof(out)))
		abort();
	free(copy);
	return 0;
}
