/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the answer that Python code, run in a target, has written into its memory. */
#include "fuzz.h"
#include "runtimes/cpython_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flmem_cpython_answer answer;

	if (flmem_cpython_answer_parse(data, size, (const unsigned char *)"cookie!!", &answer)) {
		if (strlen(answer.output) > FLMEM_CPYTHON_OUTPUT_MAX)
			abort();
		flmem_cpython_answer_clear(&answer);
	}
	return 0;
}
