/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations in HOCON: anyone may have written them. */
#include "document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_document(FLMEM_SYNTAX_HOCON, data, size);
	return 0;
}
