/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, sizes and durations as people and files write them, and escaping for the terminal. */
#include <flmem/parse.h>
#include <flmem/text.h>

#include "fuzz.h"

static void check_escaped(const char *text)
{
	char out[64];

	flmem_text_escape(text, out, sizeof(out));
	for (const char *p = out; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	uint64_t value;
	pid_t pid;

	if (flmem_parse_size(text, &value, NULL) > 0 || flmem_parse_count(text, &value, NULL) > 0 ||
	    flmem_parse_duration(text, &value, NULL) > 0)
		abort();
	if (flmem_parse_u64(text, 3, 1000, &value, NULL) == 0 && (value < 3 || value > 1000))
		abort();
	if (flmem_parse_pid(text, &pid, NULL) == 0 && pid < 1)
		abort();
	check_escaped(text);
	free(text);
	return 0;
}
