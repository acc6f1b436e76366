/* SPDX-License-Identifier: Apache-2.0 */
/* The table of offsets that a CPython of 3.13 and later carries in its memory. */
#include "fuzz.h"
#include "runtimes/cpython_layout.h"

#define LARGEST (16U << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flmem_cpython_layout layout;
	const char *why = NULL;

	if (!flmem_cpython_layout_parse(data, size, &layout, &why)) {
		if (!why)
			abort();
	} else if (layout.finalizing > LARGEST || layout.threads_head > LARGEST ||
		   layout.thread_pointer > LARGEST) {
		abort();
	}
	return 0;
}
