/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations in YAML: anyone may have written them. */
#include "document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_document(FLMEM_SYNTAX_YAML, data, size);
	return 0;
}
