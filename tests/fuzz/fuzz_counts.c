/* SPDX-License-Identifier: Apache-2.0 */
/* Reads counts of samples: every input has a whole number, or the text is refused. */
#include "base/cleanup.h"
#include "fuzz.h"
#include "ops/aggregate/counts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const inputs[] = {"a.safetensors", "folder/b.safetensors", "c/", "d"};
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	double weights[4] = {-1, -1, -1, -1};

	flmem_buf_append(&text, data, size);
	if (flmem_counts_parse("counts.json", &text, inputs, 4, weights, NULL))
		return 0;
	for (int i = 0; i < 4; i++)
		if (!(weights[i] >= 0 && weights[i] <= 0x1p64))
			abort();
	return 0;
}
