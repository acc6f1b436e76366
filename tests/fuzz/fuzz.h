/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_FUZZ_H
#define FLMEM_TESTS_FUZZ_H

/* The function that every fuzz target defines: libFuzzer's entry (llvm.org/docs/LibFuzzer.html). */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Copies the input as a separate string, so that reading past its end is detected. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

#endif
