/* SPDX-License-Identifier: Apache-2.0 */
/* A pyproject.toml: anyone may have written it. */
#include "document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_document(FLMEM_SYNTAX_TOML, data, size);
	return 0;
}
