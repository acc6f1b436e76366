/* SPDX-License-Identifier: Apache-2.0 */
/* Markdown whose blocks of code are Python. */
#include "document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_document(FLMEM_SYNTAX_MARKDOWN, data, size);
	return 0;
}
