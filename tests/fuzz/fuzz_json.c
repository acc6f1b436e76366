/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations in JSON: anyone may have written them. */
#include "document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_document(FLMEM_SYNTAX_JSON, data, size);
	return 0;
}
