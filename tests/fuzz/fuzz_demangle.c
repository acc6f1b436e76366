/* SPDX-License-Identifier: Apache-2.0 */
/* Demangles symbols of C++: the result is short, terminated, and not empty. */
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
