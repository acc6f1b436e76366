/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/python_lazy.h"

#include <string.h>

void flmem_python_fold_lazy(char *text, const struct flmem_python_source *source)
{
	struct flmem_python_reader reader;

	for (size_t i = 0; i < source->count; i++) {
		bool lazy = false;

		if (!strstr(text + source->parts[i].at, "lazy"))
			continue;
		flmem_python_start(&reader, source, i);
		for (; reader.word.kind != FLMEM_PYTHON_END; flmem_python_advance(&reader)) {
			const struct flmem_place *word = &reader.word.place;
			size_t start = reader.before.place.start, length = word->end - word->start;

			if (lazy && (flmem_python_is(&reader.word, "import") ||
				     flmem_python_is(&reader.word, "from"))) {
				memmove(text + start, text + word->start, length);
				memset(text + start + length, ' ', word->end - start - length);
			}
			lazy = flmem_python_at_statement(&reader) &&
			       flmem_python_is(&reader.word, "lazy");
		}
	}
}
