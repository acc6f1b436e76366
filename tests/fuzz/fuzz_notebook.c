/* SPDX-License-Identifier: Apache-2.0 */
/* Jupyter notebooks: JSON whose code cells are Python. */
#include "document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_document(FLMEM_SYNTAX_NOTEBOOK, data, size);
	return 0;
}
