/* SPDX-License-Identifier: Apache-2.0 */
/* Python of a job: every word lies in the text, after the one before. Then the tree of calls. */
#include "document.h"
#include "documents/python/python.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct flmem_python python = {.text = text, .line = 1};
	struct flmem_python_word word;
	size_t at = 0, length = strlen(text);

	do {
		word = flmem_python_next(&python);
		if (word.place.start < at || word.place.end > length ||
		    (word.kind != FLMEM_PYTHON_END && word.place.end == word.place.start))
			abort();
		at = word.place.end;
	} while (word.kind != FLMEM_PYTHON_END);
	free(text);
	fuzz_document(FLMEM_SYNTAX_PYTHON, data, size);
	return 0;
}
